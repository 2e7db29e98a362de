"""Histories that were broken, copied, swapped and cut anywhere: what is prepared of them is legal, in every mode.

``HYPOTHESIS_PROFILE=nightly`` takes ten thousand.
"""

import json
from copy import deepcopy
from random import Random

from histories import broken_histories
from hypothesis import given, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    Session,
    TrimRounds,
    validate,
)
from agentctx.testing.writers import History

MODELS = {
    "anthropic": ("claude-opus-5", "claude-sonnet-4-5"),
    "bedrock": ("amazon.nova-pro-v1:0", "mistral.mistral-large-2407-v1:0", "us.anthropic.claude-sonnet-4-5"),
    "gemini": ("gemini-2.5-pro",),
    "openai-chat": ("gpt-4.1", "mistral-large-latest", "kimi-k2.6"),
    "openai-responses": ("gpt-5.4",),
}
KEYS = {"gemini": "contents", "openai-responses": "input"}
ENDS = ("prefill", "last_role")
"""Whether the request may end on the assistant's words is the caller's to know."""

PIPELINES = (Pipeline(), Pipeline(TrimRounds(1)), Pipeline(FitContextWindow(), budget=Budget(600, trigger=0.5)))
PLACES = st.integers(0, 1_000)
CHANGES = st.lists(st.tuples(st.sampled_from(["drop", "copy", "swap"]), PLACES, PLACES), max_size=3)


def scrambled(messages, changes):
    """The messages with some left out, said twice or in another order."""
    messages = deepcopy(messages)
    for kind, first, second in changes:
        if not messages:
            break
        one, other = first % len(messages), second % len(messages)
        if kind == "drop":
            del messages[one]
        elif kind == "copy":
            messages.insert(other, deepcopy(messages[one]))
        else:
            messages[one], messages[other] = messages[other], messages[one]
    return messages


def illegal(view, history, model, *, whole=False):
    """The rules that a view breaks; with ``whole`` also those of the request as a whole."""
    request = {KEYS.get(history.format, "messages"): view.messages, "tools": history.tools or [{}]}
    found = validate(request, format=history.format, model=model)
    return [
        str(each)
        for each in found
        if each.severity == "error" and (whole or each.index is not None) and not any(end in each.rule for end in ENDS)
    ]


@given(broken_histories(max_rounds=4), CHANGES, st.sampled_from(PIPELINES), st.integers(1, 4), st.data())
def test_what_is_prepared_is_legal(both_loops, history, changes, pipeline, step, data):
    """At once, and with what was passed in steps: the full history, views written back, after a load."""
    messages = scrambled(history.messages, changes)
    model = data.draw(st.sampled_from(MODELS[history.format]))
    mode = data.draw(st.sampled_from(["full", "rolling", "load"]))

    async def check():
        try:
            view = await pipeline.prepare(messages, format=history.format, model=model, tools=history.tools or None)
        except AgentctxError:
            return  # empty, or larger than the budget
        assert not illegal(view, history, model)
        session, passed = pipeline.session(format=history.format, model=model), []
        for start in range(0, len(messages), step):
            passed = [*passed, *messages[start : start + step]]
            try:
                view = await session.prepare(passed, tools=history.tools or None)
            except AgentctxError:
                continue
            assert not illegal(view, history, model)
            if mode == "rolling":
                passed = list(view.messages)
            elif mode == "load":
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))

    both_loops(check)


IDS = ("functions.f:0", "a b", "", "x" * 41, "y" * 70, "call_1", "call_1_2", "toolu_1", "abcdefghi", "c|1")
MARKS = ({"type": "ephemeral"}, {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"})


def anthropic(pick):
    """Anything that anybody ever put into Anthropic's messages: ``pick`` is a random number generator."""
    out = []
    for _ in range(pick.randint(1, 7)):
        kind = pick.random()
        if kind < 0.3:
            out.append({"role": "user", "content": pick.choice(["task", [block(pick, "text")], "go on", " "])})
        elif kind < 0.75:
            out += turn(pick)
        elif kind < 0.85:
            out.append({"role": "system", "content": pick.choice(["be brief", [{"type": "text", "text": "x"}]])})
        else:
            out.append(
                {"role": "assistant", "content": [block(pick, pick.choice(["text", "thinking", "block_of_tomorrow"]))]}
            )
    for found in (each["content"] for each in out if isinstance(each["content"], list)):
        for each in found:
            if pick.random() < 0.15:
                each["cache_control"] = pick.choice(MARKS)
            if pick.random() < 0.05 and isinstance(each.get("content"), list) and each["content"]:
                each["content"][0]["cache_control"] = pick.choice(MARKS)
        if pick.random() < 0.05:
            found.insert(pick.randint(0, len(found)), block(pick, "tool_use"))
    return out


def turn(pick):
    """A turn of the model, and results that stand where they should, or elsewhere."""
    kinds = ["text", *["tool_use"] * 3, "thinking", "redacted_thinking", "block_of_tomorrow"]
    kinds += ["server_tool_use", "web_search_tool_result"]
    said = [block(pick, pick.choice(kinds)) for _ in range(pick.randint(1, 4))]
    asked = [each["id"] for each in said if each["type"] == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": name, "content": pick.choice(["r", [{"type": "text", "text": "r"}], []])}
        for name in asked
    ]
    if pick.random() < 0.2:
        results.append(block(pick, "text"))
    if pick.random() < 0.2:
        pick.shuffle(results)
    place = pick.random()
    if not results or place < 0.1:
        return [{"role": "assistant", "content": [*said, *results]}]
    heard = {"role": "assistant" if place < 0.2 else "user", "content": results}
    return [{"role": "assistant", "content": said}, heard]


def block(pick, kind):
    """A block, with an id that is new, or one that is not."""
    number = pick.randint(1, 40)
    own, text = pick.choice([f"toolu_{number}", pick.choice(IDS)]), pick.choice(["hello", "ok then ", " ", "x\n", ""])
    server = f"srvtoolu_{number % 6}"
    more = {
        "text": {"text": text},
        "thinking": {"thinking": "hm", "signature": pick.choice([f"s{number}", ""])},
        "redacted_thinking": {"data": f"d{number}"},
        "tool_use": {"id": own, "name": "run", "input": {}},
        "server_tool_use": {"id": server, "name": "web_search", "input": {}},
        "web_search_tool_result": {"tool_use_id": server, "content": []},
        "block_of_tomorrow": {"payload": number},
    }
    return {"type": kind, **more[kind]}


def parts(message):
    """A message's blocks."""
    content = message["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def bedrock(pick):
    """The same in Converse's words."""
    out = []
    for message in anthropic(pick):
        found = []
        for each in parts(message):
            match each["type"]:
                case "text":
                    found.append({"text": each["text"]})
                case "thinking":
                    text = {"text": "hm", "signature": each["signature"]}
                    found.append({"reasoningContent": {"reasoningText": text}})
                case "tool_use":
                    found.append({"toolUse": {"toolUseId": each["id"], "name": "run", "input": {}}})
                case "tool_result":
                    content = [{"text": "r"}] if each["content"] else []
                    found.append({"toolResult": {"toolUseId": each["tool_use_id"], "content": content}})
            if "cache_control" in each:
                found.append({"cachePoint": {"type": "default"}})
        if message["role"] != "system":
            out.append({"role": message["role"], "content": found})
    return out


def gemini(pick):
    """The same in Gemini's words, some with ids and some without, signed and unsigned."""
    out = []
    for message in anthropic(pick):
        named, found = pick.random() < 0.5, []
        for each in parts(message):
            match each["type"]:
                case "text":
                    found.append({"text": each["text"]})
                case "thinking":
                    found.append({"text": "hm", "thought": True})
                case "tool_use":
                    signed = {"thoughtSignature": "c2ln"} if pick.random() < 0.5 else {}
                    call = {"name": "run", "args": {}} | ({"id": each["id"]} if named else {})
                    found.append({"functionCall": call, **signed})
                case "tool_result":
                    response = {"name": "run", "response": {"r": 1}} | ({"id": each["tool_use_id"]} if named else {})
                    found.append({"functionResponse": response})
        if message["role"] != "system":
            out.append({"role": {"assistant": "model"}.get(message["role"], "user"), "parts": found})
    return out


def chat(pick):
    """The same as chat messages."""
    out = []
    for message in anthropic(pick):
        found = parts(message)
        text = "".join(each.get("text", "") for each in found if each["type"] == "text")
        calls = [each for each in found if each["type"] == "tool_use"]
        results = [each for each in found if each["type"] == "tool_result"]
        if message["role"] == "assistant" and (calls or text or not results):
            out.append({"role": "assistant", "content": text or pick.choice([None, ""])})
            if calls or pick.random() < 0.1:
                function = {
                    "name": pick.choice(["run", "run", "a.b"]),
                    "arguments": pick.choice(["{}", "", "not json"]),
                }
                out[-1]["tool_calls"] = [{"id": each["id"], "type": "function", "function": function} for each in calls]
            if pick.random() < 0.3:
                out[-1]["reasoning_content"] = "hm"
        elif message["role"] == "system":
            out.append({"role": pick.choice(["system", "developer"]), "content": "be"})
        elif message["role"] == "user" and (text or not results):
            out.append({"role": "user", "content": text})
        out += [{"role": "tool", "tool_call_id": each["tool_use_id"], "content": "r"} for each in results]
    return out


CALLS = ("function_call", "function_call", "custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call")


def responses(pick):
    """Anything that anybody ever put into the input of Responses."""
    out, asked = [], []
    for number in range(pick.randint(2, 14)):
        kind, name = pick.random(), f"call_{number}"
        named = {} if pick.random() < 0.3 else {"id": f"it_{pick.choice([number, number, number, pick.randint(0, 5)])}"}
        if kind < 0.2:
            out.append({"role": "user", "content": pick.choice(["task", "", [{"type": "input_text", "text": "t"}]])})
        elif kind < 0.35:
            sealed = pick.choice(["RQ==", f"E{number}"])
            out.append({"type": "reasoning", "summary": [], "encrypted_content": sealed, **named})
        elif kind < 0.6:
            asked.append((pick.choice(CALLS), pick.choice([name, name, pick.choice(IDS)])))
            out.append(item(*asked[-1]) | named)
        elif kind < 0.85 and asked:
            called, name = asked.pop(pick.randrange(len(asked)))
            called = called if pick.random() < 0.8 else pick.choice(CALLS)
            out += [output(called, name)] * pick.choice([1, 1, 1, 2])
        elif kind < 0.93:
            words = {"type": "output_text", "text": "w", "annotations": []}
            out.append({"type": "message", "role": "assistant", "content": [words], **named})
        elif kind < 0.95:
            out.append({"type": "compaction_trigger"})
        elif kind < 0.97:
            out.append({"type": "block_of_tomorrow", "payload": number})
        else:
            out.append({"role": pick.choice(["system", "developer"]), "content": "d"})
    return out


def item(kind, name):
    """A call of a kind."""
    found = {"type": kind, "call_id": name}
    match kind:
        case "function_call":
            return found | {"name": "run", "arguments": "{}"}
        case "custom_tool_call":
            return found | {"name": "p", "input": "x"}
        case "apply_patch_call":
            return found | {"operation": {"type": "delete_file", "path": "x"}, "status": "completed"}
    return found | {"action": {"commands": ["ls"], "type": "exec", "command": ["ls"], "env": {}}, "status": "completed"}


def output(kind, name):
    """What answers a call of a kind."""
    found = {"type": f"{kind}_output", "call_id": name, "output": "r"}
    match kind:
        case "shell_call":
            outcome = {"type": "exit", "exit_code": 0}
            return found | {"output": [{"stdout": "x", "stderr": "", "outcome": outcome}]}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": name, "output": "r"}
        case "apply_patch_call":
            return found | {"status": "completed"}
    return found


TOOLS = {
    "anthropic": [{"name": "run", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
    "openai-chat": [{"type": "function", "function": {"name": "run", "parameters": {}}}],
}
HOSTILE = {
    "anthropic": (anthropic, ("claude-opus-5", "claude-sonnet-4-5", None, "claude-opus-5-5")),
    "bedrock": (
        bedrock,
        ("us.anthropic.claude-opus-5-5", "amazon.nova-pro-v1:0", None, "meta.llama3-70b-instruct-v1:0"),
    ),
    "gemini": (gemini, ("gemini-3.1-pro-preview", "gemini-2.5-pro", None)),
    "openai-chat": (chat, ("gpt-4.1", None, "mistral-large-latest", "deepseek-v4-pro", "kimi-k2.6", "glm-5")),
    "openai-responses": (responses, ("gpt-5.4", None, "gpt-5.6-sol")),
}


def shuffled(pick, messages):
    """The messages with some dropped, said again or in another order."""
    for _ in range(pick.choice([0, 0, 1, 1, 2, 3])):
        if not messages:
            break
        place, kind = pick.randrange(len(messages)), pick.randrange(4)
        if kind == 0:
            del messages[place]
        elif kind == 1:
            messages.insert(pick.randint(0, len(messages)), messages[place])
        elif kind == 2:
            messages.insert(place, deepcopy(pick.choice(messages)))
        else:
            other = pick.randrange(len(messages))
            messages[place], messages[other] = messages[other], messages[place]
    return messages


async def prepared(prepare, history, model, *where):
    """The view's messages, which are legal; None when the error says what is wrong, and where."""
    try:
        view = await prepare(*where)
    except (InvalidInput, ContextOverflow):
        return None
    assert view.messages
    assert not illegal(view, history, model, whole=True)
    return view.messages


@given(st.sampled_from(sorted(HOSTILE)), st.integers(0, 2**32), st.sampled_from(PIPELINES))
def test_any_history_is_made_legal_or_refused(both_loops, format_name, seed, pipeline):
    """Whatever is passed, at once, in steps, written back, after a load between any two steps, after going back.

    At once and in a session of full histories the same histories are refused.
    """
    pick = Random(seed)  # noqa: S311 - of examples
    make, models = HOSTILE[format_name]
    messages, model = shuffled(pick, make(pick)), pick.choice(models)
    history, rolling, stops = (
        History(format_name, messages, tools=TOOLS.get(format_name)),
        pick.random() < 0.4,
        steps_of(pick, len(messages)),
    )

    async def check():
        async def at_once(given):
            return await pipeline.prepare(deepcopy(given), format=format_name, model=model)

        session, passed, at = pipeline.session(format=format_name, model=model), [], 0
        for stop, loads in stops:
            back = stop <= at
            passed = passed[:stop] if back else [*passed, *messages[at:stop]]
            at = stop
            view = await prepared(session.prepare, history, model, passed)
            apart = await prepared(at_once, history, model, passed)
            if pipeline.budget is None:
                assert (view is None) == (apart is None)
            if loads:
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
            if rolling and view is not None:
                passed = list(view)

    both_loops(check)


def steps_of(pick, length):
    """How far each step goes, and whether the state is loaded after it; now and then back, and on from there."""
    stops, at = [], 0
    while at < length:
        at = min(length, at + pick.randint(1, 3))
        stops.append((at, pick.random() < 0.2))
        if pick.random() < 0.15:
            at = pick.randint(1, at)
            stops.append((at, pick.random() < 0.2))
    return stops
