"""OpenAI's Chat Completions format, and what calls itself compatible with it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from attrs import evolve, field, frozen

from agentctx.core.message import BREAKPOINT, CONTROL, Message, Native, Text, Tool, ToolCall, ToolResult, Ttl
from agentctx.models.profile import ModelProfile
from agentctx.models.table import family_of
from agentctx.providers.adapter import Adapter, Body, get
from agentctx.providers.cache_markers import KeyMarkers, breakpoint_of, control
from agentctx.providers.native import (
    CERTAIN,
    IMPOSSIBLE,
    LIKELY,
    OPEN_MODELS,
    OPENAI_MODELS,
    PDF,
    PICTURES,
    POSSIBLE,
    SOUNDS,
    is_strict,
    mapping_or_none,
    surest,
)
from agentctx.providers.openai_chat import dialects
from agentctx.providers.openai_chat.dialects import DIALECTS, FRAMEWORK, Dialect, dialect_of
from agentctx.providers.openai_chat.messages import (
    CALLS_MAX,
    ID_MAX,
    IDS,
    LEGACY,
    read_message,
    read_system,
    read_tools,
    repair,
    write_message,
)
from agentctx.wire_format import (
    Arranged,
    Capabilities,
    Repaired,
    Spelling,
    TokenOverheads,
    WireFormat,
)

_ROLES = {"tool": CERTAIN, "function": CERTAIN, "developer": CERTAIN, "system": LIKELY}
_CALL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# What an answer of this format has beside its content, if only as null; no other format has it there.
_ANSWER_KEYS = frozenset({"refusal", "audio", "annotations", *_CALL_KEYS})
_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "video_url"})
_FOREIGN = frozenset(
    {"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking", "image", "document"}
    | {"input_text", "output_text", "input_image", "input_file"}
)
_OPTIONS = frozenset(
    {"response_format", "functions", "max_completion_tokens", "frequency_penalty", "presence_penalty", "logit_bias"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    return surest(messages, _message, best if _OPTIONS.isdisjoint(request) else LIKELY)


def _tools(tools: object) -> int:
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom") and mapping_or_none(first.get(kind)) is not None:
        return CERTAIN
    return POSSIBLE if kind == "function" or "parameters" in first else IMPOSSIBLE


def _message(message: object) -> int:
    native = mapping_or_none(message)
    if native is None or not isinstance(role := native.get("role"), str) or isinstance(native.get("type"), str):
        return IMPOSSIBLE  # Messages of Responses and of Anthropic's answers have a type, these have none.
    content = native.get("content")
    said = _blocks(content) if isinstance(content, list | tuple) else POSSIBLE
    own = role == "assistant" and not _ANSWER_KEYS.isdisjoint(native)
    if said == IMPOSSIBLE or own or any(native.get(key) is not None for key in _CALL_KEYS):
        return said and CERTAIN
    return said if role in ("user", "assistant") else _ROLES.get(role, IMPOSSIBLE)


def _blocks(blocks: Sequence[Any]) -> int:
    """A block without a type is another provider's; a type that nobody knows may be a dialect's."""
    for block in blocks:
        kind = "text" if isinstance(block, str) else (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


_TAKE_CONTROL = re.compile(r"claude|gemini|qwen|nova")
"""The models for which gateways pass Anthropic's cache marker on; OpenAI and others refuse it."""


def cache_marker(ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """The marker for a model: Claude, through a gateway, has Anthropic's."""
    if profile is not None and profile.family.startswith("claude"):
        return control(ttl, profile)
    return breakpoint_of(ttl, profile)


@frozen
class OpenAIChat(WireFormat):
    """The Chat Completions format.

    System messages stand within the messages. Results follow the one message that holds their calls. Call ids may come
    again in another round.
    """

    name: str = "openai-chat"
    provider = "openai"
    unique_ids: bool = False

    other_names = ("openai", "chat")
    roles = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
    user_first = False
    most_calls = CALLS_MAX
    dialects = tuple(DIALECTS)
    cache_markers = KeyMarkers((BREAKPOINT, CONTROL), cache_marker, _TAKE_CONTROL)
    # Message, name and reply: OpenAI's cookbook, "How to count tokens". Calls and results: the markers around them in
    # the harmony format, rather too high: a round that gpt-3.5-turbo billed with 24 tokens (community.openai.com,
    # 538914) counts 29.
    overheads = TokenOverheads(message=3, reply=3, name=1, call=7, result=2)
    keys_taken = frozenset(
        {"role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "text", "url", "data"}
        | {"function", "custom", "id", "index", "arguments", "input", "format", "file_data", "file_id", "input_audio"}
        | {"image_url", "video_url", "file", "detail", "extra_content", "expires_at", "transcript"}
        | {"reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"}
    )

    def usual_for(self, family: str, /) -> int:
        """What most models are called in, but for Claude's and Gemini's."""
        if "claude" in family or "gemini" in family:
            return 1
        return 2 if OPENAI_MODELS.search(family) or OPEN_MODELS.search(family) else 0

    def dialect(self, name: str, model: str | None, /) -> WireFormat | None:
        """It in the dialect of this name, or in the one in which a model is called; None when there is none."""
        if name not in ("", FRAMEWORK):
            return in_dialect(DIALECTS[name].of_model(model)) if name in DIALECTS else None
        spoken = None if model is None else dialect_of(model) or dialect_of(family_of(model))
        if spoken is None:
            return self
        return in_dialect(spoken.in_framework() if name else spoken)

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What is refused and can be repaired in one message. See ``messages.repair``."""
        return repair(messages, earlier)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition."""
        said = {"description": tool.description} if tool.description else {}
        function = {"name": tool.name, **said, "parameters": tool.parameters}
        return {"type": "function", "function": {**function, "strict": True} if is_strict(tool) else function}

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        return call_id if call_id.startswith(LEGACY) else IDS.numbered(call_id, number)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``; the format cannot say that it failed."""
        results = []
        for call in calls:  # a legacy function's answer bears its name
            name = call.id.removeprefix(LEGACY) if call.id.startswith(LEGACY) else None
            results.append(Message("tool", (ToolResult(call.id, (Text(text),), name),)))
        return tuple(results)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        return Capabilities(
            Spelling("a-zA-Z0-9_-", ID_MAX),
            unique_ids=False,
            grouping="one result",
            system_between="system",
            in_user={"image": PICTURES, "audio": SOUNDS, "document": PDF},
            by_url=frozenset({"image"}),
            texts_in_one=True,
            results_in_one=True,
            says_failed=False,
            details=True,
            arguments_object=False,
            names_files="file",
        )


@frozen
class ChatDialect(OpenAIChat):
    """Chat Completions as one provider takes them: some want certain roles to follow each other."""

    spoken: Dialect = field(kw_only=True)

    reads_places = True
    minds_the_end = True

    def dialect(self, name: str, _model: str | None, /) -> WireFormat | None:
        """Itself: it was chosen; it has no dialects of its own."""
        return None if name else self

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What is refused by all, and what the dialect refuses, repaired in one message."""
        longest = ID_MAX if self.spoken.shortens_ids else None
        found: dict[int, tuple[Message | None, str]] = {
            index: (instead, why) for index, instead, why in repair(messages, earlier, longest_id=longest)
        }
        now = [found[index][0] if index in found else message for index, message in enumerate(messages)]
        kept = [(index, message) for index, message in enumerate(now) if message is not None]
        for place, instead, why in dialects.repair([message for _, message in kept], self.spoken):
            index = kept[place][0]
            before = found[index][1] if index in found else ""
            found[index] = instead, f"{before}, {why}" if before else why
        return tuple((index, *found[index]) for index in sorted(found))

    def arrange(self, messages: Sequence[Message], standing_before: Message | None = None, /) -> Sequence[Arranged]:
        """What has to stand between messages so that they may follow each other. See ``dialects.arrange``."""
        return tuple(dialects.arrange(messages, standing_before, self.spoken))

    def may_end_on(self, message: Message, /) -> bool:
        """Whether the model answers a request that ends on this message."""
        begun = (mapping_or_none(message.source) or {}).get("prefix") is True
        return message.role != "assistant" or self.spoken.assistant_last or begun

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        if call_id.startswith(LEGACY):
            return call_id
        return (IDS if self.spoken.id_pattern is None else self.spoken.spelling).numbered(call_id, number)

    def capabilities(self, model: str | None, profile: ModelProfile | None, /) -> Capabilities:
        """What it can say, as the provider takes it."""
        return evolve(
            super().capabilities(model, profile),
            ids=self.spoken.spelling,
            unique_ids=self.spoken.unique_ids,
            user_after_results=self.spoken.user_after_tool,
        )


@cache
def in_dialect(spoken: Dialect) -> ChatDialect:
    """Chat Completions in a dialect; the same object for the same dialect."""
    return ChatDialect(spoken.full_name, spoken.unique_ids, spoken=spoken)


@frozen
class ChatCompletions(Adapter):
    """``POST /chat/completions``, as OpenAI's SDK and LiteLLM send and answer it.

    Args:
        format: The wire format of its messages.
    """

    format: str = "openai-chat"

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk says more than the role of the speaker."""
        return any(_says(choice) for choice in get(event, "choices") or ())

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event has the usage (a chunk without choices, or the one that ends them), or is the end."""
        if get(event, "type") == "[DONE]":
            return True
        choices = get(event, "choices") or ()
        return bool(get(event, "usage")) and all(get(choice, "finish_reason") for choice in choices)

    def failure(self, said: Native, /) -> Native:
        """The ``error`` that some gateways answer with status 200."""
        return get(said, "error") if not get(said, "choices") else None

    def too_long(self, tokens: int, limit: int, /) -> str:
        """Return the sentence of Chat Completions."""
        return (
            f"This model's maximum context length is {limit} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )

    def tells_usage(self, body: Body, /) -> bool:
        """A stream tells it only where that is asked for."""
        return not get(body, "stream") or bool(get(body, "stream_options", "include_usage"))


def _says(choice: object) -> bool:
    if get(choice, "finish_reason"):
        return True
    delta = get(choice, "delta")
    if delta is None:
        return False
    fields = delta if isinstance(delta, Mapping) else {**vars(delta), **(get(delta, "model_extra") or {})}
    return any(value for name, value in fields.items() if name != "role")


FRAMEWORK_CHAT = ChatCompletions(f"openai-chat/{FRAMEWORK}")
"""The messages of an agent framework as Chat Completions has them; an integration writes the request."""
