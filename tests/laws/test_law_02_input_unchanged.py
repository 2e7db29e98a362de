"""Law 2: the input is unchanged, to the byte; untouched messages come back as the same objects."""

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.laws import Scenario, input_unchanged

pytestmark = pytest.mark.both_loops

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]


class InputChangedError(Exception):
    """The input was changed."""


class Sealed(dict):
    """A dict that refuses every change."""

    def _refuse(self, *_args, **_kwargs):
        raise InputChangedError

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = __ior__ = _refuse


class SealedList(list):
    """A list that refuses every change."""

    def _refuse(self, *_args, **_kwargs):
        raise InputChangedError

    __setitem__ = __delitem__ = append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __iadd__ = __imul__ = _refuse


def sealed(value):
    """The value with dicts and lists, at any depth, that refuse every change."""
    if isinstance(value, Mapping):
        return Sealed({key: sealed(inner) for key, inner in value.items()})
    if isinstance(value, list):
        return SealedList(sealed(inner) for inner in value)
    return value


def long_history(format_name, rounds=6):
    """A task and rounds with long outputs."""
    turns = [user("task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * 200)]
    return transcript(format_name, *turns)


@given(histories(), budgets(), stages())
def test_legal_input_is_unchanged(both_loops, history, budget, stage):
    """No stage, in no step, changes anything of a legal history."""
    both_loops(input_unchanged, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_broken_input_is_unchanged(both_loops, history, budget, stage):
    """Repair makes new messages and leaves the broken ones as they are."""
    both_loops(input_unchanged, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_nothing_is_written_to(format_name, preparing):
    """Messages that raise when they are written to go through every stage."""
    pipeline = Pipeline(
        TruncateToolOutputs(max_tokens=100), ClearToolResults(keep_last=2), FitContextWindow(), budget=Budget(900)
    )
    messages = sealed(long_history(format_name))
    prepare = preparing(pipeline, format_name)
    view = await prepare(messages)
    assert view.report.acted


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_view_is_a_list_of_its_own(format_name):
    """Appending to a view does not change the input, nor the next view of the session."""
    messages = long_history(format_name)
    session = Pipeline().session(format=format_name)
    view = await session.prepare(messages)
    assert view.messages is not messages
    expected = json.dumps(messages)
    view.messages.append({"role": "user", "content": "mine"})
    assert json.dumps((await session.prepare(messages)).messages) == expected == json.dumps(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_unknown_keys_ride_along(format_name):
    """Keys that nobody knows are still there after the message was edited."""
    messages = long_history(format_name, rounds=2)
    for message in messages:
        message["x_trace"] = {"span": 7}
    view = await Pipeline(TruncateToolOutputs(max_tokens=20)).prepare(messages, format=format_name)
    assert view.report.changes
    assert all(message["x_trace"] == {"span": 7} for message in view.messages)


@pytest.mark.anyio
async def test_read_only_mappings_are_messages_too():
    """A message may be any mapping, also one that cannot be written to, and comes back as itself."""
    messages = [MappingProxyType({"role": "user", "content": "task"})]
    view = await Pipeline(FitContextWindow(Budget(100))).prepare(messages, format="openai-chat")
    assert view.messages[0] is messages[0]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_system_and_tools_come_back_as_they_are(format_name):
    """The caller's own system prompt and tools are in the view."""
    system, tools = "be brief", []
    view = await Pipeline().prepare(transcript(format_name, user("hi")), system, tools, format=format_name)
    assert view.system is system
    assert view.tools is tools
