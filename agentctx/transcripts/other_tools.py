"""Transcripts that other tools keep in a shape of their own, told by that shape, so that none is taken for a request.

Some of them look like a provider's messages (LangChain's have a ``type`` as items of Responses do, pydantic-ai's have
``parts`` as Gemini's contents do), and reading them as such would lose what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.formats.native import fields_or_none

Fields = Mapping[str, Any]

LOOKED_AT = 8
"""How many messages at the start are looked at: tools keep all their messages in one shape, but some show it only
where a tool is called."""


@frozen(eq=False, repr=False)
class OtherTool:
    """How one tool keeps its messages.

    Args:
        instead: What holds, or makes, messages of a provider in its place, if anything does.
    """

    name: str
    is_one: Callable[[Fields], bool]
    instead: str = ""


def _has(fields: Fields, *keys: str) -> bool:
    return all(key in fields for key in keys)


def _items(value: object) -> list[Fields]:
    """The objects of a list; empty when it is none."""
    found = (fields_or_none(item) for item in value) if isinstance(value, (list, tuple)) else ()
    return [item for item in found if item is not None]


_LANGCHAIN_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove"})
_CODEX_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_OPENHANDS_KINDS = ("SystemPromptEvent", "MessageEvent", "ActionEvent", "ObservationEvent", "AgentErrorEvent")
_CODEX_EXEC = ("thread.started", "turn.started", "turn.completed", "item.started", "item.completed")
_CLAUDE_REMARKS = frozenset({"leafUuid", "parentUuid", "sessionId"})
_CLAUDE_STREAM = ("system", "user", "assistant", "result", "stream_event", "rate_limit_event")
_NO_REMARKS = frozenset({"role", "messageId", "messages", "history"})
_CLAUDE_TYPES = ("queue-operation", "custom-title", "ai-title", "last-prompt", "agent-name", "attachment")
_ADK_KEYS = frozenset({"invocation_id", "invocationId"})


def _at_all(value: object, key: str) -> bool:
    return isinstance(value, Mapping) and key in value


def _langchain(fields: Fields) -> bool:
    kind = str(fields.get("type")).removesuffix("MessageChunk").lower()
    if kind in _LANGCHAIN_TYPES and isinstance(fields.get("data"), Mapping):
        return True
    if _has(fields, "lc", "id") and kind == "constructor":
        return True
    return (kind in ("human", "ai") and "content" in fields) or _has(fields, "additional_kwargs", "content")


def _trace(fields: Fields) -> bool:
    """Spans as OTLP has them, as its console exporter prints them, or as Jaeger keeps them."""
    data = _items(fields.get("data"))
    spans = _at_all(fields.get("context"), "trace_id") or any(_has(each, "traceID", "spans") for each in data)
    return spans or not _SPANS.isdisjoint(fields) or _has(fields, "traceID", "spans")


def _claude_code(fields: Fields) -> bool:
    if isinstance(fields.get("message"), Mapping) and ("sessionId" in fields or "parentUuid" in fields):
        return True
    kind = fields.get("type")
    if not isinstance(kind, str) or not _NO_REMARKS.isdisjoint(fields):
        return kind == "file-history-snapshot"
    streamed = "session_id" in fields and kind in _CLAUDE_STREAM
    return streamed or not _CLAUDE_REMARKS.isdisjoint(fields) or kind in _CLAUDE_TYPES


def _codex(fields: Fields) -> bool:
    if isinstance(fields.get("payload"), Mapping) and fields.get("type") in _CODEX_TYPES:
        return True
    early = _has(fields, "id", "timestamp") and ("instructions" in fields or "git" in fields)
    return early and fields.keys() <= {"id", "timestamp", "instructions", "git"}


def _openhands(fields: Fields) -> bool:
    said = "action" in fields or "observation" in fields or fields.get("kind") in _OPENHANDS_KINDS
    return "source" in fields and said


def _openhands_events(fields: Fields) -> bool:
    """Whether a document holds events of OpenHands; early versions keep an action with what came of it in a list."""
    for key in ("history", "trajectory", "events"):
        events = fields.get(key)
        first = events[0] if isinstance(events, (list, tuple)) and events else None
        first = first[0] if isinstance(first, (list, tuple)) and first else first
        if isinstance(first, Mapping) and _openhands(first):
            return True
    return False


def _pydantic_ai(fields: Fields) -> bool:
    parts = _items(fields.get("parts"))
    return fields.get("kind") in ("request", "response") and all("part_kind" in part for part in parts)


def _typed_parts(fields: Fields) -> bool:
    parts = _items(fields.get("parts"))
    return "role" in fields and bool(parts) and all(isinstance(part.get("type"), str) for part in parts)


def _a2a(fields: Fields) -> bool:
    parts = _items(fields.get("parts"))
    named = "messageId" in fields or "message_id" in fields
    return bool(parts) and (named or all(part.get("kind") in _A2A_KINDS for part in parts))


def _ai_sdk_model(fields: Fields) -> bool:
    parts = _items(fields.get("content"))
    return any("toolCallId" in part or _has(part, "type", "mediaType") for part in parts)


def _inspect(fields: Fields) -> bool:
    if "role" not in fields:
        return False
    named = isinstance(fields.get("function"), str)
    calls = any(isinstance(call.get("function"), str) for call in _items(fields.get("tool_calls")))
    return named or calls or fields.get("source") in ("input", "generate")


def _goose(fields: Fields) -> bool:
    parts = _items(fields.get("content"))
    return "role" in fields and (
        ("created" in fields and bool(parts)) or any(part.get("type") in _GOOSE_TYPES for part in parts)
    )


def _sharegpt(fields: Fields) -> bool:
    turns = _items(fields.get("conversations"))
    return any("from" in turn for turn in turns) or (_has(fields, "from", "value") and "role" not in fields)


def _mcp(fields: Fields) -> bool:
    content = fields.get("content")
    return "role" in fields and isinstance(content, Mapping) and "type" in content


def _chatgpt(fields: Fields) -> bool:
    return isinstance(fields.get("mapping"), Mapping) and not {"current_node", "title", "conversation_id"}.isdisjoint(
        fields
    )


_RESULTS = frozenset(
    {"output", "outputs", "target", "ideal", "expected", "expected_output", "expectedOutput", "actual_output", "label"}
    | {"reference", "reference_answer", "answer", "completion", "response"}
)
_ANSWERS = ("chat.completion", "chat.completion.chunk")
_A2A_KINDS = ("text", "file", "data")
_GOOSE_TYPES = ("toolRequest", "toolResponse", "frontendToolRequest")
_OBSERVED = frozenset({"traceId", "observations", "observationId", "run_type"})
_LITELLM_KEYS = frozenset({"call_type", "litellm_call_id", "response_cost", "model_parameters"})
_SPANS = frozenset({"resourceSpans", "scopeSpans", "resource_spans", "traceparent"})
_CURSOR = frozenset({"composerData", "composerId", "bubbleId", "richText"})
_CAMEL = "the AG-UI protocol or a TypeScript client (toolCalls, toolCallId)"

TOOLS: tuple[OtherTool, ...] = (
    OtherTool("LangChain", _langchain, "langchain_core.messages.convert_to_openai_messages"),
    OtherTool("pydantic-ai (ModelMessages)", _pydantic_ai),
    OtherTool("ShareGPT", _sharegpt),
    OtherTool(
        "OpenTelemetry (gen_ai messages)",
        lambda fields: (
            _typed_parts(fields) and any("content" in part and "text" not in part for part in _items(fields["parts"]))
        ),
    ),
    OtherTool("the AI SDK (UIMessage)", _typed_parts, "its convertToModelMessages"),
    OtherTool("the AI SDK (UIMessage)", lambda fields: _has(fields, "role", "toolInvocations")),
    OtherTool("the AI SDK (ModelMessage)", _ai_sdk_model),
    OtherTool("A2A (messages)", _a2a),
    OtherTool("A2A (tasks)", lambda fields: fields.get("kind") == "task" or _has(fields, "contextId", "artifacts")),
    OtherTool("LlamaIndex", lambda fields: any("block_type" in block for block in _items(fields.get("blocks")))),
    OtherTool("Haystack", lambda fields: _has(fields, "role", "meta") or _has(fields, "_role", "_content")),
    OtherTool("AutoGen", lambda fields: _has(fields, "source", "type", "content") and "role" not in fields),
    OtherTool("Claude Code", _claude_code),
    OtherTool("Codex", _codex),
    OtherTool("OpenHands", _openhands),
    OtherTool("Google ADK (events)", lambda fields: "author" in fields and not _ADK_KEYS.isdisjoint(fields)),
    OtherTool("the Microsoft Agent Framework", lambda fields: fields.get("type") == "chat_message"),
    OtherTool("Semantic Kernel", lambda fields: _has(fields, "role", "items") and "content" not in fields),
    OtherTool("the OpenAI Agents SDK (RunItem)", lambda fields: "raw_item" in fields, "result.to_input_list()"),
    OtherTool(
        "Cline or Roo (ui_messages)",
        lambda fields: fields.get("type") in ("say", "ask") and ("say" in fields or "ask" in fields),
        "the api_conversation_history.json beside it",
    ),
    OtherTool("Inspect", _inspect),
    OtherTool("Goose", _goose),
    OtherTool(
        "Gemini CLI (session)",
        lambda fields: (
            _has(fields, "type", "timestamp", "content") and fields["type"] in ("user", "gemini", "info", "error")
        ),
    ),
    OtherTool("Gemini CLI (log)", lambda fields: _has(fields, "sessionId", "messageId", "message")),
    OtherTool("Continue", lambda fields: _has(fields, "message", "contextItems")),
    OtherTool("opencode", lambda fields: _has(fields, "info", "parts")),
    OtherTool("Strands (session)", lambda fields: _has(fields, "message", "message_id")),
    OtherTool("Letta", lambda fields: "message_type" in fields and "role" not in fields),
    OtherTool("smolagents", lambda fields: fields.get("role") in ("tool-call", "tool-response")),
    OtherTool("smolagents (memory)", lambda fields: _has(fields, "step_number", "model_input_messages")),
    OtherTool("Claude (export)", lambda fields: _has(fields, "sender", "text")),
    OtherTool(_CAMEL, lambda fields: "role" in fields and ("toolCalls" in fields or "toolCallId" in fields)),
    OtherTool("Langfuse or LangSmith (export)", lambda fields: "input" in fields and not _OBSERVED.isdisjoint(fields)),
    OtherTool("a data set like Alpaca (instruction, output)", lambda fields: _has(fields, "instruction", "output")),
    OtherTool("a data set like Dolly (instruction, response)", lambda fields: _has(fields, "instruction", "response")),
    OtherTool(
        "a record of OpenAssistant",
        lambda fields: "message_tree_id" in fields or _has(fields, "parent_id", "text", "role"),
    ),
    OtherTool(
        "a data set of preferences (chosen, rejected)",
        lambda fields: _has(fields, "chosen", "rejected") or _has(fields, "preferred_output", "non_preferred_output"),
    ),
    OtherTool("a data set (prompt, completion)", lambda fields: _has(fields, "prompt", "completion")),
    OtherTool(
        "a record of UltraChat",
        lambda fields: fields.keys() == {"id", "data"} and isinstance(fields["data"], (list, tuple)),
    ),
    OtherTool(
        "a data set or a trace (input beside what came of it)",
        lambda fields: (
            "input" in fields and "role" not in fields and "type" not in fields and not _RESULTS.isdisjoint(fields)
        ),
    ),
    OtherTool("the OpenAI Assistants API", lambda fields: fields.get("object") == "thread.message"),
    OtherTool(
        "a whole answer of Chat Completions",
        lambda fields: fields.get("object") in _ANSWERS or (_has(fields, "object", "choices") and "usage" in fields),
        "its choices[0].message",
    ),
    OtherTool("a whole answer of Responses", lambda fields: fields.get("object") == "response", "its output"),
    OtherTool(
        "a whole answer of Gemini", lambda fields: _items(fields.get("candidates")) != [], "candidates[0].content"
    ),
    OtherTool("Cohere (v1)", lambda fields: _has(fields, "role", "message") and "content" not in fields),
    OtherTool("MCP (prompt messages)", _mcp),
    OtherTool("ChatGPT (export)", _chatgpt),
    OtherTool("Claude (export)", lambda fields: "chat_messages" in fields),
    OtherTool("Slack", lambda fields: fields.get("type") == "message" and _has(fields, "user", "ts")),
    OtherTool("an OpenAI batch", lambda fields: _has(fields, "custom_id", "body")),
    OtherTool("an Anthropic batch", lambda fields: _has(fields, "custom_id", "params")),
)
"""The tools whose transcripts are known by their shape."""

DOCUMENTS: tuple[OtherTool, ...] = (
    *TOOLS,
    OtherTool("OpenHands (trajectory)", _openhands_events),
    OtherTool("the OpenAI Agents SDK (RunState)", lambda fields: _has(fields, "$schemaVersion", "original_input")),
    OtherTool("LangGraph (checkpoint)", lambda fields: isinstance(fields.get("channel_values"), Mapping)),
    OtherTool("SWE-agent", lambda fields: _has(fields, "trajectory", "history")),
    OtherTool("Inspect (evaluation log)", lambda fields: _has(fields, "eval", "samples")),
    OtherTool("Continue", lambda fields: any("message" in item for item in _items(fields.get("history")))),
    OtherTool("Gemini CLI (session)", lambda fields: _has(fields, "sessionId", "projectHash", "messages")),
    OtherTool("Goose", lambda fields: "working_dir" in fields and "description" in fields),
    OtherTool(
        "opencode", lambda fields: _has(fields, "info") and any("info" in m for m in _items(fields.get("messages")))
    ),
    OtherTool(
        "LiteLLM (log)",
        lambda fields: _has(fields, "messages", "response") and not _LITELLM_KEYS.isdisjoint(fields),
        "what stands under its 'messages'",
    ),
    OtherTool(
        "LangSmith (export)", lambda fields: _has(fields, "inputs", "outputs") or _has(fields, "run_type", "inputs")
    ),
    OtherTool(
        "the output of codex exec --json",
        lambda fields: fields.get("type") in _CODEX_EXEC and not {"thread_id", "item", "usage"}.isdisjoint(fields),
        "the rollout in ~/.codex/sessions",
    ),
    OtherTool("an OpenTelemetry trace", _trace, "the messages of one conversation"),
    OtherTool(
        "the list of prompts of Claude Code",
        lambda fields: _has(fields, "display", "project"),
        "a session in projects/",
    ),
    OtherTool(
        "the list of prompts of Codex",
        lambda fields: _has(fields, "session_id", "ts", "text"),
        "a rollout in sessions/",
    ),
    OtherTool("an HTTP archive (HAR)", lambda fields: _at_all(fields.get("log"), "entries"), "each request by itself"),
    OtherTool("an export of Cursor", lambda fields: not _CURSOR.isdisjoint(fields)),
    OtherTool("LangGraph (state)", lambda fields: isinstance(fields.get("values"), Mapping) and "next" in fields),
)
"""The same for what a file holds as a whole."""


def tool_of(value: object, known: Sequence[OtherTool] = DOCUMENTS) -> OtherTool | None:
    """The tool in whose shape a message or a document is; None when it is in none that is known."""
    fields = fields_or_none(value)
    return None if fields is None else next((each for each in known if each.is_one(fields)), None)


def described(tool: OtherTool) -> str:
    """A sentence that says whose shape it is, and what to take in its place."""
    how = f" (take {tool.instead})" if tool.instead else ""
    whose = (
        tool.name
        if tool.name.startswith(("a ", "an ", "the output", "the list"))
        else f"a transcript of {tool.name} in its own shape"
    )
    return f"this is {whose}, and not messages of a model's provider{how}"
