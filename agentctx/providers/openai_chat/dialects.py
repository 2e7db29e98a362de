"""What a dialect of Chat Completions refuses and can be mended: within one message, and between neighbours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from agentctx.core.message import SYSTEM_ROLES, Message, Native, Part, Text, Thinking, Tool, ToolCall, ToolResult
from agentctx.core.protection import GO_ON
from agentctx.core.validity import Violation
from agentctx.models.profile import ModelProfile
from agentctx.protocols import CacheMarkers
from agentctx.providers.dialects import Dialect
from agentctx.providers.native import mapping_or_none
from agentctx.providers.openai_chat import OpenAIChat
from agentctx.providers.openai_chat.messages import LEGACY
from agentctx.providers.openai_chat.repair import IDS
from agentctx.providers.openai_chat.rules import ChatRequest, calls, error, opened, warn
from agentctx.providers.translate.parts import HEARD
from agentctx.providers.translate.target import numbered as with_number, respelled, spelling_of

NO_ANSWER = "[no answer]"
"""What the model says between two messages of the user that have to be parted."""

_KEY = "reasoning_content"

Mended = tuple[int, Message, str]
Arranged = tuple[int, tuple[Message, ...], str]


def mend(messages: Sequence[Message], dialect: Dialect) -> Iterator[Mended]:
    """What is refused and can be mended in one message: (index, what to send instead, why)."""
    for index, message in enumerate(messages):
        why: list[str] = []
        mended = _role(message, dialect, why)
        if mended.role in {"assistant", "tool"}:
            mended = _parts(mended, dialect, why)
        if why:
            yield index, mended, ", ".join(dict.fromkeys(why))


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
    new = respelled(identity, spelling_of(dialect))
    return evolve(part, id=new) if isinstance(part, ToolCall) else evolve(part, call_id=new)


def numbered(call_id: str, number: int, dialect: Dialect) -> str:
    """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
    if call_id.startswith(LEGACY):
        return call_id
    return with_number(call_id, number, IDS if dialect.id_pattern is None else spelling_of(dialect))


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


def arrange(messages: Sequence[Message], after: Message | None, dialect: Dialect) -> Iterator[Arranged]:
    """What has to stand between messages so that they may follow each other: (index, what stands there, why).

    Args:
        messages: Messages whose pairs are whole.
        after: The message before them; None at the start of the conversation.
        dialect: The dialect.
    """
    if not dialect.minds_places:
        return
    last = after
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


@frozen
class ChatDialect:
    """Reads and writes Chat Completions as one provider takes them.

    It is a ``protocols.WireFormat`` and a ``protocols.ReadsPlaces``: some dialects want certain roles to follow
    each other.

    Args:
        dialect: What the provider does otherwise.
    """

    dialect: Dialect
    chat: OpenAIChat = field(factory=OpenAIChat, repr=False)

    @property
    def name(self) -> str:
        """The format's name, for example ``openai-chat/mistral``."""
        return self.dialect.full_name

    @property
    def system_apart(self) -> bool:
        """System messages stand within the messages."""
        return self.chat.system_apart

    @property
    def merges_turns(self) -> bool:
        """Results follow the one message that holds their calls."""
        return self.chat.merges_turns

    @property
    def results_anywhere(self) -> bool:
        """Results follow their calls directly."""
        return self.chat.results_anywhere

    @property
    def unique_ids(self) -> bool:
        """Whether call ids may come again in another round."""
        return self.dialect.unique_ids

    @property
    def most_calls(self) -> int | None:
        """The most calls that one message may hold."""
        return self.chat.most_calls

    @property
    def answers_server_calls(self) -> bool:
        """There are no calls that the server runs."""
        return self.chat.answers_server_calls

    @property
    def cache_markers(self) -> CacheMarkers:
        """How cache markers are written."""
        return self.chat.cache_markers

    def recognises(self, request: Mapping[str, Any], /) -> int:
        """How surely the request is in this format: as surely as in any dialect."""
        return self.chat.recognises(request)

    def read_message(self, native: Native, index: int, /) -> Message:
        """One native message as a value; all dialects are read alike."""
        return self.chat.read_message(native, index)

    def read_system(self, native: Native, /) -> Message | None:
        """A system prompt passed apart from the messages."""
        return self.chat.read_system(native)

    def read_tools(self, native: Sequence[Any] | None, /) -> tuple[Tool, ...]:
        """The native tool definitions."""
        return self.chat.read_tools(native)

    def write_message(self, message: Message, /) -> Native:
        """A message as Chat Completions writes it."""
        return self.chat.write_message(message)

    def mend(self, messages: Sequence[Message], /) -> tuple[tuple[int, Message | None, str], ...]:
        """What is refused by all, and what the dialect refuses, mended in one message."""
        found: dict[int, tuple[Message | None, str]] = {
            index: (instead, why) for index, instead, why in self.chat.mend(messages)
        }
        now = [found[index][0] if index in found else message for index, message in enumerate(messages)]
        kept = [(index, message) for index, message in enumerate(now) if message is not None]
        for place, instead, why in mend([message for _, message in kept], self.dialect):
            index = kept[place][0]
            before = found[index][1] if index in found else ""
            found[index] = instead, f"{before}, {why}" if before else why
        return tuple((index, *found[index]) for index in sorted(found))

    def pair(self, messages: list[Message], _after: Sequence[Message] = (), /) -> list[Message]:
        """The messages themselves: each result says which call it answers."""
        return messages

    def arrange(
        self, messages: Sequence[Message], after: Message | None = None, /
    ) -> Sequence[tuple[int, tuple[Message, ...], str]]:
        """What has to stand between messages so that they may follow each other. See ``arrange``."""
        return tuple(arrange(messages, after, self.dialect))

    def may_end_on(self, message: Message, _profile: ModelProfile | None, /) -> bool:
        """Whether the model answers a request that ends on this message."""
        begun = (mapping_or_none(message.source) or {}).get("prefix") is True
        return message.role != "assistant" or self.dialect.assistant_last or begun

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others."""
        return numbered(call_id, number, self.dialect)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``."""
        return self.chat.synthetic_result(calls, text)

    def validate(
        self, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None, /
    ) -> tuple[Violation, ...]:
        """Every rule that the request breaks: those of all, and the dialect's own."""
        model = request.get("model") if profile is None else profile.family
        dialect = self.dialect.of_model(model) if isinstance(model, str) else self.dialect
        own = violations(request, model if isinstance(model, str) else None, dialect)
        found = [*self.chat.validate(request, profile, before), *own]
        return tuple(sorted(found, key=lambda one: (one.index is None, one.index or 0)))


@cache
def in_dialect(dialect: Dialect) -> ChatDialect:
    """Chat Completions in a dialect; the same object for the same dialect."""
    return ChatDialect(dialect)
