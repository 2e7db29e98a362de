"""What the tests of all SDKs share: a conversation that is too long, and an agent of twenty steps in a small window."""

import json
import re
from inspect import isawaitable
from itertools import pairwise

import agentctx
from agentctx.testing.servers import Said

WINDOW = 4_000
STEPS = 20
ROOM = 200
TINY = ROOM + 5
"""A window that no request fits."""
SYSTEM = "You read source files, one after another, and say what they have in common."
TASK = "Read alpha files until there are no more, then say done."
READ_FILE = "Read a file."
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FILLER = "The quick brown fox jumps over the lazy dog. " * 12
LONG = [{"role": "user", "content": "Begin."}] + [
    {"role": role, "content": text}
    for number in range(40)
    for role, text in (("assistant", f"Answer {number}. {FILLER}"), ("user", f"Question {number}?"))
]
"""About 5,000 tokens, in the shape of OpenAI and Anthropic."""


def pipeline(window=100_000):
    """A pipeline that believes the window to be so large."""
    budget = agentctx.Budget(window=window, output_reserve=ROOM, trigger=0.85, target=0.5)
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=budget)


def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Where it is.
    """
    number = int(re.findall(r"\d+", path)[0])
    return "\n".join(f"{path}:{line}: value_{number}_{line} = {(number + 7) * (line + 31)}" for line in range(20))


def reading(body):
    """A model that reads twenty files one by one, whatever it is shown of what it has read, and then answers."""
    last = max(map(int, re.findall(r"alpha_(\d+)\.py", json.dumps(body))), default=0)
    if last == STEPS:
        return Said("All are read: done.")
    return Said("", calls=(("read_file", {"path": f"alpha_{last + 1}.py"}),))


def assert_recovered(desk, key="messages"):
    """See that one request was refused as too large, and that a smaller one followed and was taken."""
    assert len(desk.requests) == 2
    assert not desk.refused
    first, second = (len(body[key]) for body in desk.requests)
    assert second < first
    assert len(desk.accepted) == 1


def assert_steps_fit(desk, key="messages"):
    """See that each of the steps was one request, that none was refused, and that old results were taken out."""
    assert len(desk.accepted) == len(desk.requests) == STEPS + 1
    assert not desk.refused
    sizes = [len(json.dumps(body[key])) for body in desk.accepted]
    assert any(after < before for before, after in pairwise(sizes)), sizes


async def now(result):
    """The result of a call of a sync client or of an async one."""
    return await result if isawaitable(result) else result


async def listed(stream):
    """All events of a stream of a sync client or of an async one."""
    if hasattr(stream, "__aiter__") and not hasattr(stream, "__next__"):
        return [event async for event in stream]
    return list(stream)


async def inside(manager, use):
    """What ``use`` makes of the value of a context manager of either kind."""
    if hasattr(manager, "__aenter__"):
        async with manager as entered:
            return await now(use(entered))
    with manager as entered:
        return await now(use(entered))
