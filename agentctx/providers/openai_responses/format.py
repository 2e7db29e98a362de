"""OpenAI's Responses format, read and written without loss.

Source: https://platform.openai.com/docs/api-reference/responses/create.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set as AbstractSet
from typing import Any

from attrs import evolve, frozen

from agentctx.core.message import BREAKPOINT, Message, Native, Opaque, Tool, ToolCall, ToolResult
from agentctx.core.report import View
from agentctx.errors import InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.providers.adapter import Adapter, Body, RequestParts, get
from agentctx.providers.cache_markers import KeyMarkers, breakpoint_of
from agentctx.providers.native import (
    CERTAIN,
    IMPOSSIBLE,
    LIKELY,
    OPENAI_MODELS,
    PDF,
    PICTURES,
    POSSIBLE,
    is_strict,
    mapping_or_none,
    surest,
)
from agentctx.providers.openai_responses.messages import (
    CALLS,
    IDS,
    OUTPUTS,
    REFERENCE,
    ROLES,
    SETTINGS,
    item_id,
    kind_of,
    lost_output,
    of_their_kind,
    openai_family,
    read_message,
    read_system,
    read_tools,
    repair,
    summarised,
    without_field,
    without_id,
    write_message,
)
from agentctx.wire_format import Arranged, Capabilities, Note, TokenOverheads, WireFormat

_ITEMS = frozenset({*CALLS, *OUTPUTS, *SETTINGS, REFERENCE, "message", "reasoning"})
_CHAT_KEYS = ("tool_calls", "function_call", "tool_call_id")
_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_audio"})
_FOREIGN = frozenset(
    {"text", "image_url", "file", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"}
    | {"server_tool_use", "video_url"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    items = request.get("input", request.get("messages"))
    if isinstance(items, str):
        return LIKELY if "input" in request else IMPOSSIBLE
    if not isinstance(items, Sequence) or "contents" in request:
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    return surest(items, _item, LIKELY if "input" in request or "instructions" in request else best)


def _tools(tools: object) -> int:
    """Functions are described one level higher than in Chat Completions."""
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom"):
        return (
            CERTAIN if isinstance(first.get("name"), str) and mapping_or_none(first.get(kind)) is None else IMPOSSIBLE
        )
    foreign = "input_schema" in first or "functionDeclarations" in first or "toolSpec" in first
    return IMPOSSIBLE if foreign else POSSIBLE


def _item(native: object) -> int:
    item = mapping_or_none(native)
    if item is None or any(item.get(key) is not None for key in _CHAT_KEYS):
        return IMPOSSIBLE
    kind = kind_of(item)
    if kind == "message":
        # The messages of Anthropic's answers have the type "message" too, and blocks of their own.
        said = _blocks(item.get("content")) if item.get("role") in ROLES else IMPOSSIBLE
        return CERTAIN if said and isinstance(item.get("type"), str) else said
    if kind in _ITEMS:
        return CERTAIN
    return LIKELY if kind and "content" not in item else POSSIBLE if kind else IMPOSSIBLE


def _blocks(content: object) -> int:
    if not isinstance(content, (list, tuple)):
        return POSSIBLE if content is None or isinstance(content, str) else IMPOSSIBLE
    for block in content:
        kind = (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


@frozen
class OpenAIResponses(WireFormat):
    """The Responses format.

    One item is one message: a piece of reasoning, a call and an answer each have a message of their own. System
    messages may stand beside the ``instructions``. An answer names the call that it answers, wherever it stands, and
    has to be of its kind.
    """

    name = "openai-responses"
    provider = "openai"
    other_names = ("openai", "responses")
    messages_key = "input"
    system_key = "instructions"
    system_apart = True
    system_leads = True
    user_first = False
    roles = frozenset(ROLES)
    merges_turns = True
    results_anywhere = True
    unique_ids = True
    reads_places = True
    names_items = True
    cache_markers = KeyMarkers(
        (BREAKPOINT,), breakpoint_of, text_type="input_text", roles=frozenset({"user", "system", "developer"})
    )
    # Like Chat. The envelope: encrypted items of 26 to 1,792 reasoning tokens had 1,080 to 9,572 characters.
    overheads = TokenOverheads(envelope=900)
    keys_taken = frozenset(
        {"role", "content", "text", "call_id", "name", "arguments", "input", "output", "action", "operation", "id"}
        | {"image_url", "file_id", "file_data", "file_url", "detail", "input_audio", "data", "format", "status"}
        | {"logprobs", "result"}
    )

    def usual_for(self, family: str, /) -> int:
        """After Chat Completions."""
        return 1 if OPENAI_MODELS.search(family) else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    numbered = staticmethod(IDS.numbered)
    item_name = staticmethod(item_id)
    repair = staticmethod(repair)

    def arrange(self, messages: Sequence[Message], _after: Message | None = None, /) -> Sequence[Arranged]:
        """Which answers have to be of another kind, that of their calls."""
        return tuple(of_their_kind(messages))

    def without_callers(self, message: Message, _callers: AbstractSet[str], /) -> Message:
        """The item without its caller: what a program called, the model called itself."""
        bare = without_field(message, "caller")
        called = (ToolCall, ToolResult, Opaque)
        parts = tuple(evolve(part, caller=None) if isinstance(part, called) else part for part in bare.parts)
        return evolve(bare, parts=parts, read_parts=parts if bare.as_read else bare.read_parts)

    def arrange_for(
        self, messages: Sequence[Message], profile: ModelProfile | None, note: Note, _after: Message | None = None, /
    ) -> Sequence[Message]:
        """The messages as the model takes them: OpenAI's own take no readable reasoning back but as a summary."""
        if profile is None or openai_family(profile.family) is None:
            return messages
        return summarised(messages, note)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One answer for each call, of the kind that the call asks for, saying ``text`` where that kind has words."""
        return tuple(read_message(lost_output(call, text), 0) for call in calls)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        media = {"image": PICTURES, "document": PDF}
        return Capabilities(
            grouping="one item",
            system_between="developer",
            says_failed=False,
            details=True,
            in_user=media,
            in_results=media,
            by_url=frozenset({"image", "document"}),
            arguments_object=False,
            names_files="input_file",
        )

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without reasoning, and without the id that ties it to some; None when nothing is left."""
        kept = super().without_reasoning(message)
        return kept if kept is None or kept.role != "assistant" else without_id(kept)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition: one that does not say it would be read as a strict one."""
        said = {"description": tool.description} if tool.description else {}
        made = {"type": "function", "name": tool.name, **said, "parameters": tool.parameters}
        return {**made, "strict": is_strict(tool)}


_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_BEFORE_CONTENT = frozenset(
    {"response.created", "response.queued", "response.in_progress", "response.content_part.added", "keepalive"}
)
_CHAINS = ("previous_response_id", "conversation")


@frozen
class Responses(Adapter):
    """``POST /responses``, as OpenAI's SDK sends and answers it."""

    format = "openai-responses"
    messages_key = "input"
    system_key = "instructions"

    def read(self, body: Body, /) -> RequestParts | None:
        """Items, instructions, tools and model; None for a prompt that the provider keeps, without any input."""
        for key in _CHAINS:
            if body.get(key) is not None:
                what = (
                    "the provider adds what it has kept, which can be neither counted nor cut here: leave it out and "
                    "send all items in input, with store=False and include=['reasoning.encrypted_content'] "
                    "(in Microsoft's Agent Framework: Agent(client, default_options={'store': False}))"
                )
                raise InvalidInput(key, what)
        items = body.get("input")
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        elif items is not None and not isinstance(items, (list, tuple)):
            raise InvalidInput("input", f"expected a string or a list of items, got {type(items).__name__}")
        return super().read({**body, "input": None if items is None else [*items]})

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The request with the view's items, instructions and tools; an input that was a string stays one."""
        written = super().write(body, request, view)
        if isinstance(body.get("input"), str) and view.messages == list(request.messages):
            written["input"] = body["input"]
        return written

    def usage(self, said: Native, /) -> Native:
        """The ``usage`` of a response, or of the response within an event."""
        return get(said, "usage") or get(said, "response", "usage")

    def begins(self, event: Native, /) -> bool:
        """Whether an event is of something that the model made."""
        kind = get(event, "type")
        if kind == "response.output_item.added":
            return bool(get(event, "item", "type") != "message")
        return kind not in _BEFORE_CONTENT

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event is the last one of a response."""
        return get(event, "type") in _LAST

    def too_long(self, tokens: int, limit: int, /) -> str:
        """Return the sentence of Responses, with the numbers that Chat Completions gives."""
        return (
            "Your input exceeds the context window of this model. Please adjust your input and try again. This model's "
            f"maximum context length is {limit} tokens. However, your messages resulted in {tokens} tokens."
        )

    def failure(self, said: Native, /) -> Native:
        """The error of a failed response, which the SDK hands over like any other."""
        if get(said, "type") == "error":
            return said
        failed = get(said, "response") if get(said, "type") == "response.failed" else said
        return get(failed, "error") if get(failed, "status") in ("failed", None) else None  # a gateway's has no status
