"""The rules of a dialect of Chat Completions, driven by its data, with the provider's error texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentctx.core.violation import Violation
from agentctx.wire.dialects import Dialect
from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_chat.view import ChatRequest, calls, error, opened, warn

_SYSTEM = ("system", "developer")
_SPEAKING = ("user", "assistant")

DialectRule = Callable[[ChatRequest, Dialect], Iterator[Violation]]


def violations(request: Mapping[str, Any], model: str | None, dialect: Dialect) -> list[Violation]:
    """Every rule of the dialect that a request breaks; never raises for JSON-like input."""
    view = opened(request, model)
    return [violation for rule in RULES for violation in rule(view, dialect)]


def developer(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The role ``developer`` is OpenAI's own."""
    if dialect.developer_role:
        return
    for index, message in request.messages:
        if message.get("role") == "developer":
            text = f"messages[{index}].role: unknown variant `developer`, expected one of `system`, `user`, "
            yield error("dialect_role", index, f"messages[{index}].role", f"{text}`assistant`, `tool`")


def reasoning(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """A message with calls brings its reasoning along: in the current turn, or everywhere."""
    if dialect.reasoning_needed is None or _thinks_not(request):
        return
    start = _current_turn(request)
    for index, message in request.messages:
        if not any(True for _ in calls(message)) or _has_reasoning(message, dialect):
            continue
        told = error if dialect.keep_reasoning == "all" or index > start else warn
        path = f"messages[{index}].reasoning_content"
        yield told("dialect_reasoning", index, path, dialect.reasoning_needed.format(index=index))


def empty_content(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """Beside calls, content that is empty is null."""
    if not dialect.null_content_with_calls:
        return
    for index, message in request.messages:
        if message.get("content") == "" and any(True for _ in calls(message)):
            path = f"messages[{index}].content"
            text = f"Invalid assistant message: '{path}' beside tool_calls must be null or hold text"
            yield error("dialect_empty_content", index, path, text)


def ids(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The ids of calls are spelled as the dialect wants them, in calls and in results."""
    if (pattern := dialect.id_pattern) is None:
        return
    for index, message in request.messages:
        for path, identity in _ids(message, f"messages[{index}]"):
            if not pattern.fullmatch(identity):
                text = f"Tool call id was {identity} but must be a-z, A-Z, 0-9, with a length of {dialect.id_max}."
                yield error("dialect_id", index, path, text)


def unique(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """A call id occurs once."""
    if not dialect.unique_ids:
        return
    seen: set[str] = set()
    for index, message in request.messages:
        for place, call in calls(message):
            if isinstance(identity := call.get("id"), str):
                if identity in seen:
                    path = f"messages[{index}].tool_calls[{place}].id"
                    text = "invalid params, tool call result does not follow tool call (2013)"
                    yield error("dialect_id_repeated", index, path, text)
                seen.add(identity)


def counted(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """Over the whole history there are as many results of each id as calls."""
    if not dialect.counts_results:
        return
    asked: Counter[str] = Counter()
    for _, message in request.messages:
        if message.get("role") == "tool" and isinstance(answered := message.get("tool_call_id"), str):
            asked[answered] -= 1
        asked.update(identity for _, call in calls(message) if isinstance(identity := call.get("id"), str))
    if any(asked.values()):
        yield error("dialect_counted", None, "messages", "Not the same number of function calls and responses")


def after_tool(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The user does not speak directly after a result."""
    last: object = None
    for index, message in request.messages:
        role = message.get("role")
        if not dialect.user_after_tool and (last, role) == ("tool", "user"):
            text = "Unexpected role 'user' after role 'tool'"
            yield error("dialect_user_after_tool", index, f"messages[{index}].role", text)
        last = role


def last_word(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """The model does not have the last word, unless it shall go on with it."""
    index, message = request.messages[-1] if request.messages else (0, {})
    if dialect.assistant_last or message.get("role") != "assistant" or message.get("prefix") is True:
        return
    text = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
    yield error("dialect_last_role", index, f"messages[{index}].role", text)


def alternation(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """User and assistant take turns; whether that has to be is up to the model's template."""
    if not dialect.alternation:
        return
    last = "assistant"
    for index, message in request.messages:
        role = message.get("role")
        if role in _SPEAKING:
            if role == last or (role == "user" and last == "tool"):
                text = "Conversation roles must alternate user/assistant/user/assistant/..."
                yield warn("dialect_alternation", index, f"messages[{index}].role", text)
            last = role
        elif role == "tool":
            last = role


def system_first(request: ChatRequest, dialect: Dialect) -> Iterator[Violation]:
    """System messages stand at the beginning; whether that has to be is up to the model's template."""
    if not dialect.system_first_only:
        return
    begun = False
    for index, message in request.messages:
        if message.get("role") not in _SYSTEM:
            begun = True
        elif begun:
            text = "System message must be at the beginning."
            yield warn("dialect_system_first", index, f"messages[{index}].role", text)


RULES: tuple[DialectRule, ...] = (
    developer,
    reasoning,
    empty_content,
    ids,
    unique,
    counted,
    after_tool,
    last_word,
    alternation,
    system_first,
)


def _thinks_not(request: ChatRequest) -> bool:
    """Whether the request says that the model shall not think."""
    for body in (request.body, mapping_or_none(request.body.get("extra_body")) or {}):
        if (mapping_or_none(body.get("thinking")) or {}).get("type") == "disabled":
            return True
    return False


def _current_turn(request: ChatRequest) -> int:
    """The index of the latest user message; -1 when there is none."""
    return max((index for index, message in request.messages if message.get("role") == "user"), default=-1)


def _has_reasoning(message: Mapping[str, Any], dialect: Dialect) -> bool:
    found = message.get("reasoning_content")
    return isinstance(found, str) and len(found) >= len(dialect.no_reasoning)


def _ids(message: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for place, call in calls(message):
        if isinstance(identity := call.get("id"), str):
            yield f"{path}.tool_calls[{place}].id", identity
    if message.get("role") == "tool" and isinstance(answered := message.get("tool_call_id"), str):
        yield f"{path}.tool_call_id", answered
