"""Recorded sessions to make pages of, and what their pages must say."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from agentctx import Budget, Pipeline
from agentctx.replay import Recording, replay
from agentctx.report import session_data

ROOT = Path(__file__).parents[2]


def recorded(model=None):
    """The session that comes with the project."""
    line = (ROOT / "examples/sessions/coding_agent.jsonl").read_text("utf-8").splitlines()[0]
    record = json.loads(line)
    return Recording(
        record["messages"], record["system"], record["tools"], record["format"], model, record["id"], pending=False
    )


async def followed(recording, pipeline):
    """What the page is told of a session, and each step with its view, of a replay of its own."""
    data = await session_data(recording, pipeline)
    return data, [step async for step in replay(recording, pipeline)]


@pytest.fixture(scope="session")
def example():
    """The session that comes with the project, for a model."""
    return recorded


@pytest.fixture(scope="session")
def follow():
    """Run ``followed`` to its end."""
    return partial(anyio.run, followed)


@pytest.fixture(scope="session")
def reverse_the_middle():
    """A stage that moves messages: those of the user between the first and the last stand in another order."""

    async def stage(context, _call):
        places = [place for place, message in enumerate(context.messages) if message.role == "user"][1:-1]
        turned = dict(zip(places, reversed(places), strict=True))
        return context.with_messages(
            tuple(context.messages[turned.get(place, place)] for place in range(len(context.messages)))
        )

    return Pipeline(stage, budget=Budget(8_000))
