"""The law for each adapter: what goes out are the calls and results of the view, by place, and nothing legal is spoilt.

A test file of a framework gives ``exchange``: it makes the framework's own messages of a history, has the framework
send them, with the hook or without, and returns what arrived at the server and the view.
"""

import json
import re
from itertools import groupby
from operator import itemgetter

from attrs import frozen
from hypothesis import example, given, settings, strategies as st

from agentctx import Budget, ContextOverflow, FitContextWindow, Pipeline, TruncateToolOutputs, validate
from agentctx.formats.openai_chat import ID_MAX
from agentctx.formats.registry import format_named
from agentctx.message import ToolCall, ToolResult
from agentctx.unit import broken_pair

OPENAI = "gpt-5.4"
MODELS = (
    *(OPENAI, "azure/gpt-5.4", "kimi-k3", "kimi-k2.6", "mistral-small3.2", "mistral-large-latest", "mimo-v2-pro"),
    *("deepseek-v4-pro", "glm-5", "qwen3-max", "openrouter/x", "ollama/x", "vllm/x"),
)
"""A model of each dialect, and some that speak none."""

IDS = (
    *("call_1", "call_2", "call_3", "call_4", "read:0", "read:1", "abcDEF123", "0b9c1d6e-7f", "1b9c1d6e-7f"),
    *(f"functions.mcp__github__list_review_comments:{number}" for number in range(2)),
    *("a b", "x" * 70),
)
"""What gateways, servers and models call their calls: some come again, some are long, odd, or of another provider."""

BROKEN = '{"path": "b'
"""Arguments that are no JSON, as a model leaves them where its answer was cut."""


@frozen
class Exchange:
    """What a framework sent.

    Args:
        sent: The messages that arrived at the server.
        view: What was prepared; None without the hook.
    """

    sent: list
    view: object = None


def _call(name, number, arguments):
    function = {"name": "read", "arguments": arguments or json.dumps({"path": f"file {number}"})}
    return {"id": name, "type": "function", "function": function}


@st.composite
def rounds(draw, number, *, whole):
    """A turn of calls and what follows; where it is not ``whole``, results may be missing, late, doubled or strange."""
    names = draw(st.lists(st.sampled_from(IDS), min_size=1, max_size=3, unique=draw(st.booleans()) or whole))
    texts = st.sampled_from((None, None, None, BROKEN))
    calls = [_call(name, f"{number}.{place}", draw(texts)) for place, name in enumerate(names)]
    said = draw(st.sampled_from((None, "I read.")))
    size = draw(st.sampled_from((2, 2, 60)))
    results = [
        {"role": "tool", "tool_call_id": name, "content": f"result {number}.{place}" + " word" * size}
        for place, name in enumerate(names)
    ]
    if not whole:
        kept = draw(st.lists(st.sampled_from(results), max_size=4, unique_by=id))
        more = draw(st.sampled_from(([], [], [{"role": "user", "content": "And?"}])))
        stray = draw(
            st.sampled_from(([], [], [{"role": "tool", "tool_call_id": draw(st.sampled_from(IDS)), "content": "?"}]))
        )
        results = [*more, *kept, *stray]
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


@st.composite
def histories(draw):
    """A conversation that the model has to go on with; half of them are whole."""
    whole = draw(st.booleans())
    history = [{"role": "user", "content": "Read all."}]
    for number in range(draw(st.integers(1, 5))):
        history += draw(rounds(number, whole=whole))
        if draw(st.sampled_from((False, False, True))):
            history.append({"role": "user", "content": f"Go on with {number}."})
    if history[-1]["role"] == "assistant":
        history.append({"role": "user", "content": "Go on."})
    return history


_NAMES = [f"call_{number}" for number in range(130)]
MANY = [
    {"role": "user", "content": "Read all."},
    {"role": "assistant", "content": None, "tool_calls": [_call(name, f"{name}.0", None) for name in _NAMES]},
    *({"role": "tool", "tool_call_id": name, "content": f"result of {name}"} for name in _NAMES),
]
"""More calls than one message of Chat Completions may hold: the others become a message of their own."""

PIPELINES = {
    "wide": lambda: Pipeline(FitContextWindow(), budget=Budget(window=100_000)),
    "narrow": lambda: Pipeline(FitContextWindow(), budget=Budget(300)),
    "cutting": lambda: Pipeline(TruncateToolOutputs(20), budget=Budget(window=100_000)),
}


LIMITED = (OPENAI, "azure/gpt-5.4", "qwen3-max", "openrouter/x")
"""The models that OpenAI's API may answer for, with its limit of 40 characters."""


def calls_and_results(natives, spoken):
    """The calls and results of messages, in order, with their ids and what they say; in a run of results, by that."""
    wire = format_named(spoken)
    parts = [part for index, native in enumerate(natives) for part in wire.read_message(native, index).parts]
    told = [
        ("call", part.id, _same_json(part.arguments))
        if isinstance(part, ToolCall)
        else ("result", part.call_id, part.text)
        for part in parts
        if isinstance(part, (ToolCall, ToolResult))
    ]
    runs = ((kind, [*run]) for kind, run in groupby(told, key=itemgetter(0)))
    return [each for kind, run in runs for each in (sorted(run, key=itemgetter(2, 1)) if kind == "result" else run)]


def _same_json(text):
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def refused(natives, spoken):
    """What an API refuses that takes any id: calls without a result, and results without a call."""
    wire = format_named(spoken)
    messages = [wire.read_message(native, index) for index, native in enumerate(natives)]
    return broken_pair(messages, wire.rounds)


def refused_by_openai(natives, spoken):
    """What the strictest API of the format refuses."""
    key = {"openai-responses": "input", "gemini": "contents"}.get(spoken, "messages")
    return [each for each in validate({key: natives}, format=spoken) if each.severity == "error"]


def short_for_openai(model, names):
    """OpenAI's API takes ids of 40 characters, others any."""
    return model not in LIMITED or max(map(len, names), default=0) <= ID_MAX


def every_call_goes_out(
    exchange, *, spoken="openai-chat", viewed=None, takes=short_for_openai, models=MODELS, read=calls_and_results
):
    """Hold an adapter to the law.

    Args:
        exchange: Sends a history to a model, given a pipeline, or None for no hook.
        spoken: The format of what arrives at the server.
        viewed: The format of the view; without it, the same.
        takes: Whether the ids of all calls to a model may stay.
        models: The models' names.
        read: Reads calls and results off messages, given their format.
    """

    @settings(max_examples=60)
    @example(MANY, models[0], "wide")
    @given(histories(), st.sampled_from(models), st.sampled_from(sorted(PIPELINES)))
    def law(history, model, name):
        plain = exchange(history, model, None)
        try:
            ours = exchange(history, model, PIPELINES[name]())
        except ContextOverflow:
            return
        sent, shown = read(ours.sent, spoken), read(ours.view.messages, viewed or spoken)
        assert shown == sent
        assert (viewed and refused(plain.sent, spoken)) or not refused(ours.sent, spoken)
        assert refused_by_openai(plain.sent, spoken) or not refused_by_openai(ours.sent, spoken)
        if name != "wide" or refused(plain.sent, spoken):
            return
        before = read(plain.sent, spoken)
        assert sorted(kind for kind, *_ in before) == sorted(kind for kind, *_ in sent)
        if takes(model, [name for kind, name, _ in before if kind == "call"]):
            assert sorted(name for _, name, _ in before) == sorted(name for _, name, _ in sent)
            reasons = " ".join(change.reason for change in ours.view.report.changes)
            assert not re.search(r"\b(id|ids|reasoning)\b", reasons)

    law()
