"""Chat Completions as providers other than OpenAI take them."""

import copy
from contextlib import suppress

import pytest
from histories import broken_histories, histories
from hypothesis import given, strategies as st

from agentctx import InvalidInput, Pipeline, convert, validate
from agentctx.formats.dialects import DIALECTS, dialect_of
from agentctx.formats.registry import detect, format_named
from agentctx.rules import find_violations
from agentctx.tokens import FixedCounter

ASK = {"role": "user", "content": "go"}


def call(call_id="c1", name="bash"):
    """A call, as chat writes it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def a_round(call_id="c1", **more):
    """An assistant message with a call, and the result."""
    acts = {"role": "assistant", "content": None, "tool_calls": [call(call_id)], **more}
    return [acts, {"role": "tool", "tool_call_id": call_id, "content": "ok"}]


def found(messages, dialect, severity="error", **more):
    """The rules of the dialect that a request breaks: (rule, index, words)."""
    broken = validate({"messages": messages, **more}, format=f"openai-chat/{dialect}")
    return [(each.rule, each.index, each.message) for each in broken if each.severity == severity]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("deepseek-v4-pro", "deepseek"),
        ("deepseek/deepseek-chat", "deepseek"),
        ("kimi-k2.6", "kimi"),
        ("moonshot/kimi-k3.1-pro", "kimi"),
        ("mimo-v2-flash", "mimo"),
        ("zai/glm-5.3", "glm"),
        ("mistral/mistral-large-4", "mistral"),
        ("devstral-medium-2512", "mistral"),
        ("hosted_vllm/qwen3", "vllm"),
        ("ollama/llama3.3", "ollama"),
        ("azure/gpt-4o", "azure"),
        ("openrouter/deepseek/deepseek-v4-pro", "openrouter"),
    ],
)
def test_a_dialect_is_found_by_the_name_of_the_model(model, name):
    """The gateway comes first, then the family."""
    assert dialect_of(model).name == name
    assert format_named("openai-chat", model).name == f"openai-chat/{name}"
    assert detect({"messages": [{"role": "system", "content": "x"}, ASK], "model": model}).name == f"openai-chat/{name}"


@pytest.mark.parametrize("model", ["gpt-5.4", "o3", "grok-4", "somebody's model", None])
def test_other_models_speak_the_format_itself(model):
    """OpenAI's own models, and those of which nothing is known."""
    assert format_named("openai-chat", model) is format_named("openai-chat")


def test_no_dialect_is_the_format_itself():
    """A name that ends where a dialect's would begin names none."""
    assert format_named("openai-chat/").name == "openai-chat"


@pytest.mark.parametrize("name", ["openai-chat/klingon", "anthropic/deepseek", "deepseek"])
def test_an_unknown_dialect_is_refused(name):
    """The error lists the dialects that there are."""
    with pytest.raises(InvalidInput, match="openai-chat/mistral"):
        format_named(name)


@pytest.mark.parametrize(
    ("dialect", "messages", "rule", "words"),
    [
        (
            "deepseek",
            [ASK, *a_round()],
            "chat.dialect_reasoning",
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        (
            "kimi",
            [ASK, *a_round(reasoning_content="")],
            "chat.dialect_reasoning",
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
        ),
        (
            "mimo",
            [ASK, *a_round(), ASK],
            "chat.dialect_reasoning",
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
        ),
        (
            "kimi",
            [ASK, *a_round(reasoning_content="x"), *a_round(reasoning_content="x")],
            "chat.dialect_id_repeated",
            "invalid params, tool call result does not follow tool call (2013)",
        ),
        (
            "mistral",
            [ASK, *a_round("call_0fypS1hVX")],
            "chat.dialect_id",
            "Tool call id was call_0fypS1hVX but must be a-z, A-Z, 0-9, with a length of 9.",
        ),
        (
            "mistral",
            [ASK, *a_round("abcDEF123"), ASK],
            "chat.dialect_user_after_tool",
            "Unexpected role 'user' after role 'tool'",
        ),
        (
            "mistral",
            [ASK, *a_round("abcDEF123")[:1], ASK],
            "chat.dialect_counted",
            "Not the same number of function calls and responses",
        ),
        (
            "mistral",
            [ASK, {"role": "assistant", "content": "Done."}],
            "chat.dialect_last_role",
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant",
        ),
    ],
)
def test_what_a_provider_refuses_is_named_in_its_words(dialect, messages, rule, words):
    """Each rule of a dialect is a violation with the provider's own text."""
    assert (rule, words) in {(name, said) for name, _, said in found(messages, dialect)}


@pytest.mark.parametrize(
    ("dialect", "messages", "words"),
    [
        ("vllm", [ASK, ASK], "Conversation roles must alternate user/assistant/user/assistant/..."),
        ("vllm", [ASK, {"role": "system", "content": "x"}], "System message must be at the beginning."),
        ("deepseek", [ASK, *a_round(), ASK], "The `reasoning_content` in the thinking mode must be passed back"),
    ],
)
def test_what_only_some_refuse_is_warned_of(dialect, messages, words):
    """Templates differ, and DeepSeek is seen to look at the current turn only."""
    assert any(words in said for _, _, said in found(messages, dialect, "warn"))
    assert not found(messages, dialect)


def test_deepseek_wants_no_empty_content_beside_calls():
    """An empty string beside calls is refused; null is fine."""
    rounds = a_round(reasoning_content="hm")
    empty = [ASK, {**rounds[0], "content": ""}, rounds[1]]
    assert [rule for rule, *_ in found(empty, "deepseek")] == ["chat.dialect_empty_content"]
    assert not found([ASK, *rounds], "deepseek")


def test_a_model_that_does_not_think_brings_no_reasoning():
    """Nothing is missing where thinking is off: by the model, or by the request."""
    messages = [ASK, *a_round()]
    assert not validate({"messages": messages}, format="openai-chat", model="deepseek-chat")
    assert not [
        each
        for each in validate({"messages": messages, "thinking": {"type": "disabled"}}, format="openai-chat/deepseek")
        if each.rule == "chat.dialect_reasoning"
    ]


def test_the_format_itself_has_none_of_these_rules():
    """OpenAI takes what its followers refuse."""
    messages = [ASK, *a_round(), ASK, {"role": "developer", "content": "x"}]
    assert not validate({"messages": messages}, format="openai-chat")


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["kimi-k2.6", "mistral-large-latest", "mimo-v2-pro", "deepseek-v4-pro", "vllm/x"])
async def test_where_a_framework_writes_the_request_ids_and_reasoning_are_its_own(model):
    """A model's name does not tell which API serves it: ids stay, however long, and no reasoning is stood in for."""
    messages = [ASK, *a_round("x" * 70), *a_round("x" * 70)]
    view = await Pipeline(counter=FixedCounter(1)).prepare(messages, format="openai-chat/framework", model=model)
    assert view.messages == messages
    assert not view.report.changes
    assert not validate({"messages": messages}, format="openai-chat/framework", model=model)


@pytest.mark.anyio
@pytest.mark.parametrize("model", ["gpt-5.4", "azure/gpt-5.4", None])
async def test_openai_s_limit_holds_in_a_framework(model):
    """OpenAI's own API refuses longer ids: call and result get the same short one."""
    view = await Pipeline(counter=FixedCounter(1)).prepare(
        [ASK, *a_round("x" * 70)], format="openai-chat/framework", model=model
    )
    assert len(view.messages[1]["tool_calls"][0]["id"]) <= 40
    assert view.messages[1]["tool_calls"][0]["id"] == view.messages[2]["tool_call_id"]


def sends(messages, dialect):
    """What a pipeline without stages sends in a dialect."""
    return Pipeline(counter=FixedCounter(1)).prepare(messages, format=f"openai-chat/{dialect}")


@pytest.mark.anyio
@pytest.mark.parametrize(("dialect", "said"), [("deepseek", ""), ("kimi", " "), ("mimo", " ")])
async def test_reasoning_of_another_model_is_stood_in_for(dialect, said):
    """A message with calls gets what the provider takes for reasoning; that of its own model stays as it is."""
    own = a_round("c2", reasoning_content="I think.")
    view = await sends([ASK, *a_round(), *own], dialect)
    assert [message.get("reasoning_content") for message in view.messages if "tool_calls" in message] == [
        said,
        "I think.",
    ]
    assert view.messages[3] is own[0]
    assert "reasoning" in view.report.changes[0].reason


@pytest.mark.anyio
async def test_reasoning_under_a_gateways_key_is_put_under_the_providers():
    """OpenRouter calls it ``reasoning``; DeepSeek wants ``reasoning_content``."""
    view = await sends([ASK, *a_round(reasoning="I think.")], "deepseek")
    assert view.messages[1]["reasoning_content"] == "I think."


@pytest.mark.anyio
async def test_mistral_gets_its_ids_and_a_word_between():
    """Ids are nine letters and digits, alike in call and result; the model speaks before the user does."""
    messages = [ASK, *a_round("toolu_01"), ASK, *a_round("abcDEF123"), ASK]
    view = await sends(messages, "mistral")
    assert not found(view.messages, "mistral")
    roles = [message["role"] for message in view.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool", "assistant", "user"]
    assert view.messages[1]["tool_calls"][0]["id"] == view.messages[2]["tool_call_id"] != "toolu_01"
    assert view.messages[5]["tool_calls"][0]["id"] == "abcDEF123"
    assert view.messages[-1] is messages[-1]


@pytest.mark.anyio
async def test_a_strict_template_gets_turns():
    """User and assistant take turns, and only the first message is the system's."""
    late = {"role": "system", "content": "Be brief."}
    view = await sends([{"role": "system", "content": "Mend."}, ASK, ASK, *a_round(), late], "vllm")
    assert not found(view.messages, "vllm", "warn")
    assert view.messages[-1] == {**late, "role": "user"}


@pytest.mark.anyio
async def test_developers_become_the_system():
    """The role is OpenAI's own."""
    view = await sends([{"role": "developer", "content": "Mend."}, ASK], "deepseek")
    assert view.messages[0] == {"role": "system", "content": "Mend."}


@pytest.mark.anyio
async def test_a_session_speaks_a_dialect():
    """What a session decides it keeps: the messages of the step before stand unchanged before the new ones."""
    session = Pipeline(counter=FixedCounter(1)).session(format="openai-chat/mistral")
    messages = [ASK, *a_round("toolu_01")]
    first = await session.prepare(messages)
    second = await session.prepare([*messages, ASK])
    assert second.messages[:3] == first.messages
    assert [message["role"] for message in second.messages[3:]] == ["assistant", "user"]
    assert not found(second.messages, "mistral")


@given(st.one_of(histories("openai-chat"), broken_histories("openai-chat")), st.sampled_from(sorted(DIALECTS)))
def test_generated_histories_are_taken_in_each_dialect(both_loops, history, name):
    """A pipeline makes any chat history legal in a dialect, but for the last word, and leaves it as it is."""
    before = copy.deepcopy(history)

    async def check():
        view = await sends(history.messages, name)
        refused = [each for each in found(view.messages, name) if each[0] != "chat.dialect_last_role"]
        assert not refused
        again = await sends(view.messages, name)
        assert all(one is other for one, other in zip(again.messages, view.messages, strict=True))

    both_loops(check)
    assert before == history


@given(histories(), st.sampled_from(sorted(DIALECTS)))
def test_histories_of_others_are_taken_in_each_dialect(history, name):
    """A conversation with any provider can go on in any dialect."""
    with suppress(InvalidInput):  # a conversation may say nothing that can be taken along
        done = convert(history.messages, f"openai-chat/{name}", format=history.format, system=history.system)
        assert not [each for each in found(done.messages, name) if each[0] != "chat.dialect_last_role"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "tool_calls", "id", "tool_call_id", "thinking", "type", "reasoning_content"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON, max_size=4), st.sampled_from(sorted(DIALECTS)))
def test_the_rules_never_raise(messages, name):
    """Whatever JSON is passed, it is judged."""
    find_violations(format_named(f"openai-chat/{name}"), {"messages": messages})
