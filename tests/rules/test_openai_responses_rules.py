"""The rules of the Responses API: one vector a rule, and what must be let through."""

import pytest
from hypothesis import example, given, strategies as st

from agentctx.formats.registry import format_named
from agentctx.models.table import profile
from agentctx.rules import find_violations, openai_responses as rules
from agentctx.rules.openai_responses import opened

WIRE = format_named("openai-responses")

USER = {"role": "user", "content": "go on"}


def call(call_id="c1", **more):
    """The model calls a function."""
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def output(call_id="c1", **more):
    """What the function answered."""
    return {"type": "function_call_output", "call_id": call_id, "output": "ok", **more}


def thought(number=1, **more):
    """Encrypted reasoning with an id."""
    return {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"E{number}", **more}


def words(text="done", **more):
    """The model speaks."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **more}


def verdict(items, before=None, **more):
    """The rules that a request with these items breaks."""
    origin = None if before is None else {"input": before}
    found = find_violations(WIRE, {"input": items, **more}, None, origin)
    return {(violation.severity, violation.rule.removeprefix("resp.")) for violation in found}


def errors(items, before=None, **more):
    """The rules for which a request with these items is refused."""
    return {rule for severity, rule in verdict(items, before, **more) if severity == "error"}


MARKED = {"type": "output_text", "text": "x", "annotations": [], "prompt_cache_breakpoint": {"mode": "explicit"}}

BROKEN = {
    "call_unanswered": [USER, call()],
    "call_unanswered of another kind": [USER, {"type": "shell_call", "call_id": "c", "action": {"commands": []}}],
    "call_unanswered by its twin": [USER, call(), call(), output()],
    "output_orphan": [USER, output()],
    "output_orphan and before its call": [USER, output(), call()],
    "output_dup": [USER, call(), output(), output()],
    "output_dup in a later round": [USER, call(), output(), call(), output()],
    "item_dup": [USER, words(id="msg_1"), USER, words(id="msg_1")],
    "reasoning_unfollowed": [USER, thought(), USER],
    "reasoning_unfollowed at the end": [USER, thought()],
    "reasoning_unfollowed but by another": [USER, thought(1), thought(2), USER],
    "reasoning_content": [USER, thought(content=[{"type": "reasoning_text", "text": "x"}]), words()],
    "call_id_length": [USER, call("c" * 65), output("c" * 65)],
    "call_id_length of none": [USER, call(""), output("")],
    "call_id": [USER, {"type": "function_call", "name": "f", "arguments": "{}"}],
    "call_arguments": [USER, {**call(), "arguments": {}}, output()],
    "function_name": [USER, {**call(), "name": "a.b"}, output()],
    "function_name_length": [USER, {**call(), "name": "a" * 65}, output()],
    "trigger_not_last": [{"type": "compaction_trigger"}, USER],
    "role": [{"role": "tool", "content": "x"}],
    "item_type": [USER, {"content": "x"}],
    "item_type of no object": [USER, 5],
    "content_type": [{"role": "user", "content": 5}],
    "content_type missing": [{"role": "user"}],
    "output_type": [USER, call(), {**output(), "output": {"a": 1}}],
    "block_type": [{"role": "user", "content": [5]}],
    "block_text": [{"role": "user", "content": [{"type": "input_text"}]}],
    "block_role": [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
    "block_role of the user": [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}],
    "cache_marker": [USER, {**words(), "content": [MARKED]}],
    "surrogate": [{"role": "user", "content": "\ud800"}],
    "string_length": [{"role": "user", "content": "x" * 10_485_761}],
    "input_empty": [],
}


@pytest.mark.parametrize(("name", "items"), BROKEN.items(), ids=BROKEN)
def test_what_breaks_a_rule_is_refused_by_its_name(name, items):
    """Each illegal request breaks the rule that it is made to break."""
    assert name.split()[0] in errors(items)


def test_the_number_of_items_is_limited():
    """A request of more than 131,072 items is refused; the other rules, which take long for so many, not asked."""
    assert rules.input_present in rules.RULES
    assert not [*rules.input_present(opened({"input": [USER] * 131_072}, None))]
    [found] = rules.input_present(opened({"input": [USER] * 131_073}, None))
    assert found.rule == "resp.input_too_long"


LEGAL = {
    "parallel, outputs in another order": [USER, call("a"), call("b"), output("b"), output("a")],
    "words between call and output": [USER, call(), {"role": "developer", "content": "x"}, output()],
    "the user speaks in between": [USER, call(), USER, output()],
    "interleaved": [USER, call("a"), call("b"), output("a"), call("c"), output("b"), output("c")],
    "a round of each kind": [
        USER,
        {"type": "custom_tool_call", "call_id": "a", "name": "p", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]},
        {"type": "local_shell_call", "id": "l_1", "call_id": "b", "action": {"type": "exec", "command": []}},
        {"type": "local_shell_call_output", "id": "b", "output": "x"},
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": []},
        {"type": "mcp_approval_request", "id": "m_1", "name": "f", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "m_1", "approve": True},
        {"type": "mcp_call", "id": "m_2", "name": "f", "arguments": "{}", "server_label": "s", "output": "x"},
    ],
    "hosted tools between thoughts": [
        USER,
        thought(1),
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        thought(2),
        words(id="msg_1"),
    ],
    "reasoning that nobody signed": [USER, {"type": "reasoning", "summary": [], "content": None}, USER],
    "compaction first": [{"type": "compaction", "encrypted_content": "C"}, USER],
    "a wish for compaction last": [USER, {"type": "compaction_trigger"}],
    "an item of tomorrow": [USER, {"type": "item_of_tomorrow", "x": 1}],
    "empty words": [{"role": "user", "content": ""}, {"role": "assistant", "content": []}],
    "ending on the model's words": [USER, words()],
}


@pytest.mark.parametrize("items", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_breaks_no_rule(items):
    """Each legal request is let through without a word, whether it is kept by the provider or not."""
    assert verdict(items) == set()
    assert verdict(items, store=False) == set()
    assert verdict(items, before=items) == set()


GROUP = [USER, thought(1), call(id="fc_1"), output(), thought(2), words(id="msg_1"), USER]


@pytest.mark.parametrize(
    ("items", "rule"),
    [
        ([USER, *GROUP[2:]], "missing_reasoning"),
        ([*GROUP[:4], *GROUP[5:]], "missing_reasoning"),
        ([USER, call(id="fc_1"), thought(1), output(), *GROUP[4:]], "missing_reasoning"),
        ([USER, thought(1), *GROUP[4:]], "reasoning_unfollowed"),
        ([USER, {**thought(1), "encrypted_content": "X"}, *GROUP[2:]], "reasoning_modified"),
        ([USER, {**thought(1), "id": "rs_9"}, *GROUP[2:]], "reasoning_modified"),
    ],
)
def test_what_belongs_together_stays_together(items, rule):
    """Reasoning is kept with what it led to, byte for byte, or the request is refused."""
    assert rule in errors(items, before=GROUP)


@pytest.mark.parametrize("first", [call(id="fc_1"), call()], ids=["with an id", "without"])
def test_a_call_that_got_another_call_id_still_follows_its_reasoning(first):
    """A repeated call id gets a number in repair; the call is the same, by its own id or by what it asks."""
    before = [USER, call(id="fc_0"), output(), thought(1), first, output(), USER]
    renamed = [{**each, "call_id": each["call_id"] + "_2"} for each in (first, output())]
    assert "reasoning_unfollowed" not in errors([*before[:4], *renamed, USER], before=before)
    other = {**renamed[0], "id": "fc_9", "name": "another"}
    assert "reasoning_unfollowed" in errors([*before[:4], other, renamed[1], USER], before=before)


@pytest.mark.parametrize(
    "items",
    [
        GROUP,
        [USER, *GROUP[4:]],
        [*GROUP[:4], USER],
        [USER, call(), output(), words(), USER],
        [*GROUP[:3], {**output(), "output": "cut"}, *GROUP[4:]],
        [USER, {**thought(1), "summary": [{"type": "summary_text", "text": "x"}]}, *GROUP[2:]],
    ],
)
def test_what_a_trimmer_may_do_is_let_through(items):
    """Whole groups may go, ids may go together with all reasoning, outputs and summaries may change."""
    assert errors(items, before=GROUP) == set()


def test_reasoning_binds_later_calls_of_its_turn_too():
    """A call that follows the outputs of its reasoning's first calls needs that reasoning; words do not."""
    before = [USER, thought(), call("a", id="fc_1"), output("a"), call("b", id="fc_2"), output("b"), words(id="msg_1")]
    assert errors([USER, *before[4:]], before=before) == {"missing_reasoning"}
    assert errors([USER, before[6]], before=before) == set()


def test_a_fingerprint_is_checked_with_its_program():
    """The code of a program goes back as it came."""
    program = {"type": "program", "id": "p_1", "call_id": "c", "code": "a", "fingerprint": "F"}
    result = {"type": "program_output", "id": "p_2", "call_id": "c", "result": "1", "status": "completed"}
    assert errors([USER, program, result], before=[USER, program, result]) == set()
    changed = [USER, {**program, "code": "b"}, result]
    assert errors(changed, before=[USER, program, result]) == {"reasoning_modified"}


def test_encrypted_reasoning_goes_to_its_own_family():
    """Reasoning that one generation of models encrypted is refused by another."""
    before = {"input": GROUP, "model": "gpt-5.6-terra"}
    rules = {
        model: {one.rule for one in find_violations(WIRE, {"input": GROUP, "model": model}, None, before)}
        for model in ("gpt-5.6", "openai/gpt-5.6-sol", "gpt-5.5")
    }
    assert rules == {"gpt-5.6": set(), "openai/gpt-5.6-sol": set(), "gpt-5.5": {"resp.reasoning_family"}}


def test_what_is_not_stored_cannot_be_referred_to():
    """Without store, references and bare reasoning are not found; with it, or when nothing is said, they may be."""
    bare = {"type": "reasoning", "id": "rs_1", "summary": []}
    for items in ([USER, {"type": "item_reference", "id": "rs_1"}], [USER, {"id": "m"}], [USER, bare, words()]):
        assert errors(items, store=False) == {"item_not_found"}
        assert errors(items, store=True) == errors(items) == set()


def test_a_chain_may_hold_the_call():
    """An output may answer a call that the provider has kept, but only once, and not in two chains at a time."""
    assert errors([output()], previous_response_id="resp_1") == set()
    assert errors([output(), output()], previous_response_id="resp_1") == {"output_dup"}
    assert errors([call()], previous_response_id="resp_1") == {"call_unanswered"}
    assert errors([USER], previous_response_id="resp_1", conversation="conv_1") == {"chain_conflict"}
    assert errors([], conversation="conv_1") == set()


def test_readable_reasoning_goes_back_to_others_than_openai():
    """OpenAI refuses readable reasoning; another provider's model takes it."""
    items = BROKEN["reasoning_content"]
    assert errors(items, model="gpt-5.4") == {"reasoning_content"}
    assert errors(items, model="my/qwen3") == set()


def test_the_profile_names_the_model():
    """The model of the profile counts where one is given."""
    request = {"input": BROKEN["reasoning_content"], "model": "qwen3"}
    assert find_violations(WIRE, request, profile("gpt-5.4")) != ()


def test_who_asks_for_json_says_so():
    """The word stands in a message of the input; instructions and outputs do not count."""
    wanted = {"format": {"type": "json_object"}}
    assert errors([USER], text=wanted) == {"json_word"}
    assert errors([USER], text=wanted, instructions="answer in JSON") == {"json_word"}
    assert errors([{"role": "user", "content": [{"type": "input_text", "text": "as Json"}]}], text=wanted) == set()
    assert errors("as json", text=wanted) == set()
    assert errors([USER], text={"format": {"type": "json_schema"}}) == set()


def test_an_open_approval_is_a_warning():
    """A request for approval that nobody answered is named, but not as an error."""
    request = {"type": "mcp_approval_request", "id": "m_1", "name": "f", "arguments": "{}", "server_label": "s"}
    assert verdict([USER, request]) == {("warn", "approval_open")}


def test_tools_and_what_is_chosen_of_them():
    """A choice names a tool of the list, names are legal, a type is wanted."""
    tools = [{"type": "function", "name": "f"}, {"type": "namespace", "tools": [{"type": "function", "name": "g"}]}]
    for name, broken in (("f", set()), ("g", set()), ("h", {"tool_choice_name"})):
        choice = {"type": "function", "name": name}
        assert errors([USER], tools=tools, tool_choice=choice) == broken
        allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
        assert errors([USER], tools=tools, tool_choice=allowed) == broken
    assert errors([USER], tools=tools, tool_choice="auto") == set()
    for demand in ("required", {"type": "file_search"}):
        assert errors([USER], tool_choice=demand) == errors([USER], tools=[], tool_choice=demand) == {"tool_choice"}
        assert errors([USER], tools=tools, tool_choice=demand) == set()
    assert errors([USER], tool_choice="auto") == errors([USER], tool_choice="none") == set()
    assert errors([USER], tools=[{"type": "function", "name": "a b"}]) == {"function_name"}
    assert errors([USER], tools=5) == errors([USER], tools=[5]) == {"tools_type"}
    assert verdict([USER], tools=[{"name": "f"}]) == {("warn", "tool_type")}


def test_a_cache_key_is_short():
    """A cache key has at most 64 characters."""
    assert errors([USER], prompt_cache_key="k" * 64) == set()
    assert errors([USER], prompt_cache_key="k" * 65) == {"cache_key_length"}


@pytest.mark.parametrize("native", [None, 5, {"role": "user"}])
def test_an_input_that_is_no_list(native):
    """An input is words or a list of items; a prompt that the provider keeps may stand for it."""
    assert errors(native) == {"input"}
    assert errors("hi") == set()
    assert find_violations(WIRE, {"prompt": {"id": "pmpt_1"}}) == ()


def test_violations_stand_in_the_order_of_the_items():
    """The provider's words, the place as it writes it, and the order of the items."""
    found = find_violations(WIRE, {"input": [output("a"), {"role": "user", "content": 5}, call("b")]})
    assert [one.index for one in found] == [0, 1, 2]
    assert found[0].message == "No tool call found for function call output with call_id a."
    assert found[1].path == "input[1].content"
    assert found[2].message == "No tool output found for function call b."


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=5,
)
KEYS = st.sampled_from(
    (
        *("type", "role", "content", "call_id", "id", "name", "arguments", "output", "summary", "encrypted_content"),
        *("text", "execution", "tools", "action", "prompt_cache_breakpoint", "fingerprint", "approval_request_id"),
    )
)
KINDS = st.sampled_from(
    (
        *("message", "reasoning", "function_call", "function_call_output", "shell_call", "shell_call_output", "user"),
        *("program", "computer_call_output", "tool_search_call", "tool_search_output", "item_reference"),
    )
)
ITEMS = st.one_of(JSON, st.dictionaries(KEYS, st.one_of(KINDS, JSON), max_size=6))
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "input": st.one_of(JSON, st.lists(ITEMS, max_size=5)),
        "messages": st.lists(ITEMS, max_size=3),
        "tools": JSON,
        "tool_choice": JSON,
        "text": JSON,
        "store": JSON,
        "model": JSON,
        "previous_response_id": JSON,
        "prompt_cache_key": JSON,
    },
)


@example({"input": [{"type": [], "role": "message", "prompt_cache_breakpoint": "message"}]}, None)
@given(REQUESTS, st.one_of(st.none(), REQUESTS))
def test_validating_never_raises(request_, before):
    """Whatever JSON is passed, the answer is a tuple of violations."""
    assert isinstance(find_violations(WIRE, request_, None, before), tuple)
    assert WIRE.recognises(request_) in {0, 1, 5, 10}
