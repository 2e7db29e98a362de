"""What providers that call themselves compatible with Chat Completions do otherwise: data, repair and rules.

A dialect is named after the format (``format="openai-chat/mistral"``), or found by the model's name. Sources: the
providers' own pages (DeepSeek thinking mode, Z.ai thinking mode, Moonshot thinking models, 2026), error envelopes
captured in public issues, chat templates of open models.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from attrs import evolve, field, frozen

from agentctx.core.message import SYSTEM_ROLES, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.protection import GO_ON
from agentctx.providers.native import mapping_or_none
from agentctx.providers.openai_chat.messages import LEGACY
from agentctx.providers.openai_chat.repair import IDS
from agentctx.providers.openai_chat.rules import ChatRequest, calls, error, opened, warn
from agentctx.providers.translate import HEARD, NO_ANSWER
from agentctx.wire_format import Arranged, Spelling, Violation

_REASONING_LEFT_OUT = "The `reasoning_content` in the thinking mode must be passed back to the API."


@frozen
class Dialect:
    """How a provider's Chat Completions differ.

    Args:
        name: The dialect's name.
        models: What the names of models look like that are called in it, in small letters.
        thinking: What the names of those of its models look like that think before they call tools; None: all.
        unique_ids: Whether a call id may occur only once in a request.
        id_regex: What the whole id of a call has to match; None: anything.
        id_max: The longest id, in characters.
        null_content_with_calls: Whether content that is empty has to be null beside calls.
        keep_reasoning: Which messages with calls have to bring their ``reasoning_content`` along: ``"none"``, those
            of the ``"current"`` turn (behind the latest user message), or ``"all"``.
        no_reasoning: What stands for reasoning that another model made.
        reasoning_needed: What the provider says where reasoning is missing; None when it says nothing.
        user_after_tool: Whether the user may speak directly after a result.
        counts_results: Whether the provider counts calls and results over the whole history.
        assistant_last: Whether the model may have the last word.
        alternation: Whether user and assistant have to take turns; as its template says when they do not.
        system_first_only: Whether a system message has to be the first; as its template says when it is not.
        developer_role: Whether there is the role ``developer``.
    """

    name: str
    models: str
    thinking: str | None = None
    unique_ids: bool = False
    id_regex: str | None = None
    id_max: int = 40
    null_content_with_calls: bool = False
    keep_reasoning: Literal["none", "current", "all"] = "none"
    no_reasoning: str = ""
    reasoning_needed: str | None = None
    user_after_tool: bool = True
    counts_results: bool = False
    assistant_last: bool = True
    alternation: bool = False
    system_first_only: bool = False
    developer_role: bool = False
    id_pattern: re.Pattern[str] | None = field(init=False, repr=False, eq=False)

    @id_pattern.default
    def _compiled(self) -> re.Pattern[str] | None:
        return None if self.id_regex is None else re.compile(self.id_regex)

    @property
    def spelling(self) -> Spelling:
        """How the ids of calls are spelled."""
        if self.id_regex is None:
            return Spelling("a-zA-Z0-9_-", self.id_max)
        return Spelling("a-zA-Z0-9", self.id_max, self.id_max)

    @property
    def minds_places(self) -> bool:
        """Whether it depends on the neighbours of a message where it may stand."""
        return self.alternation or self.system_first_only or not self.user_after_tool

    @property
    def full_name(self) -> str:
        """The name of the format in this dialect."""
        return f"openai-chat/{self.name}"

    def of_model(self, model: str | None) -> Dialect:
        """The dialect for one of its models: one that does not think has no reasoning to bring along."""
        if model is None or self.thinking is None or re.search(self.thinking, model.lower()):
            return self
        return evolve(self, keep_reasoning="none", reasoning_needed=None)


_ALL = (
    # Gateways and servers first: they answer for whatever model they serve.
    Dialect("openrouter", r"^openrouter/", id_max=64, developer_role=True),
    Dialect("azure", r"^azure(?:_ai)?/", developer_role=True),
    Dialect("ollama", r"^ollama(?:_chat)?/", id_max=64),
    Dialect("vllm", r"^(?:hosted_)?vllm/", id_max=64, alternation=True, system_first_only=True),
    Dialect(
        "deepseek",
        r"deepseek",
        thinking=r"deepseek-(?:v3\.[2-9]|v[4-9]|reasoner)",
        null_content_with_calls=True,
        keep_reasoning="current",
        reasoning_needed=_REASONING_LEFT_OUT,
    ),
    Dialect(
        "kimi",
        r"kimi|moonshot",
        thinking=r"kimi-(?:k2\.[5-9]|k[3-9]|.*thinking)",
        unique_ids=True,
        keep_reasoning="all",
        no_reasoning=" ",  # an empty one counts as missing
        reasoning_needed="thinking is enabled but reasoning_content is missing in assistant tool call message at index "
        "{index}",
    ),
    Dialect(
        "mimo",
        r"mimo",
        unique_ids=True,
        keep_reasoning="all",
        no_reasoning=" ",
        reasoning_needed=_REASONING_LEFT_OUT,
    ),
    # Reasoning belongs back with the results of tools; nothing is refused where it is missing.
    Dialect("glm", r"(?:^|/)(?:glm|zai|chatglm)", keep_reasoning="current"),
    Dialect(
        "mistral",
        r"mi[sx]tral|magistral|ministral|devstral|pixtral",
        id_regex=r"[a-zA-Z0-9]{9}",
        id_max=9,
        user_after_tool=False,
        counts_results=True,
        assistant_last=False,
    ),
)

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in _ALL}
"""Every dialect by its name."""


def dialect_of(model: str) -> Dialect | None:
    """The dialect in which a model is called; None for OpenAI's own and for unknown ones."""
    name = model.lower()
    return next((dialect.of_model(model) for dialect in _ALL if re.search(dialect.models, name)), None)


_KEY = "reasoning_content"


def repair(messages: Sequence[Message], dialect: Dialect) -> Iterator[tuple[int, Message, str]]:
    """What is refused and can be repaired in one message: (index, what to send instead, why)."""
    for index, message in enumerate(messages):
        why: list[str] = []
        repaired = _role(message, dialect, why)
        if repaired.role in {"assistant", "tool"}:
            repaired = _parts(repaired, dialect, why)
        if why:
            yield index, repaired, ", ".join(dict.fromkeys(why))


def _role(message: Message, dialect: Dialect, why: list[str]) -> Message:
    if message.role != "developer" or dialect.developer_role:
        return message
    why.append("there is no role developer")
    return evolve(message, role="system")


def _parts(message: Message, dialect: Dialect, why: list[str]) -> Message:
    calls = any(isinstance(part, ToolCall) for part in message.parts)
    parts: list[Part] = []
    for part in message.parts:
        if calls and dialect.null_content_with_calls and isinstance(part, Text) and not part.text:
            why.append("beside calls empty content is null")
        else:
            parts.append(_spelled(part, dialect, why))
    if calls and dialect.reasoning_needed is not None and not _brings_reasoning(message, dialect):
        why.append("a message with calls brings its reasoning along")
        parts.insert(0, _stand_in(message, dialect))
    return message.with_parts(tuple(parts)) if why else message


def _spelled(part: Part, dialect: Dialect, why: list[str]) -> Part:
    """A call or a result under an id that the provider takes, made from the id alone."""
    pattern = dialect.id_pattern
    if pattern is None or not isinstance(part, (ToolCall, ToolResult)):
        return part
    identity = part.id if isinstance(part, ToolCall) else part.call_id
    if pattern.fullmatch(identity):
        return part
    why.append("the id of a tool call is spelled as the provider takes it")
    new = dialect.spelling.respelled(identity)
    return evolve(part, id=new) if isinstance(part, ToolCall) else evolve(part, call_id=new)


def numbered(call_id: str, number: int, dialect: Dialect) -> str:
    """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
    if call_id.startswith(LEGACY):
        return call_id
    return (IDS if dialect.id_pattern is None else dialect.spelling).numbered(call_id, number)


def _brings_reasoning(message: Message, dialect: Dialect) -> bool:
    thought = next((part for part in message.parts if isinstance(part, Thinking) and _own(part)), None)
    return thought is not None and len(thought.text) >= len(dialect.no_reasoning)


def _own(part: Thinking) -> bool:
    """Whether the reasoning stands where the dialects look for it."""
    return part.source is None or (isinstance(part.source, dict) and _KEY in part.source)


def _stand_in(message: Message, dialect: Dialect) -> Thinking:
    """The reasoning that stands under another key, or what stands for none."""
    texts = [part.text for part in message.parts if isinstance(part, Thinking) and part.text]
    text = "\n".join(texts) or dialect.no_reasoning
    return Thinking(text, source={_KEY: text})


def arrange(messages: Sequence[Message], standing_before: Message | None, dialect: Dialect) -> Iterator[Arranged]:
    """What has to stand between messages so that they may follow each other: (index, what stands there, why)."""
    if not dialect.minds_places:
        return
    last = standing_before
    for index, given in enumerate(messages):
        message = given
        why: list[str] = []
        if dialect.system_first_only and last is not None and message.role in SYSTEM_ROLES and not _leads(last):
            why.append("a system message has to be the first")
            message = evolve(message, role="user")
        between = _between(last, message, dialect)
        if between is not None:
            why.append("the roles on both sides may not follow each other")
        if why:
            yield index, (message,) if between is None else (between, message), ", ".join(why)
        last = message


def _leads(message: Message) -> bool:
    return message.role in SYSTEM_ROLES


def _between(last: Message | None, message: Message, dialect: Dialect) -> Message | None:
    """The message that has to stand between two; None when nothing has to."""
    before = "" if last is None or _leads(last) else last.role
    if message.role == "user" and before == "tool" and not dialect.user_after_tool:
        return Message("assistant", (Text(HEARD),))
    if not dialect.alternation:
        return None
    if message.role == "user" and before in {"user", "tool"}:
        return Message("assistant", (Text(NO_ANSWER if before == "user" else HEARD),))
    if message.role == "assistant" and before in {"assistant", ""}:
        return Message("user", (Text(GO_ON),))
    return None


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
    developer, reasoning, empty_content, ids, unique, counted, after_tool, last_word, alternation, system_first,
)  # fmt: skip


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
