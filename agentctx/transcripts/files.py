"""Transcripts that other tools keep in a shape of their own, told by that shape, so that none is taken for a request.

Some of them look like a provider's messages (LangChain's have a ``type`` as items of Responses do, pydantic-ai's have
``parts`` as Gemini's contents do), and reading them as such would lose what they say.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from attrs import define, field, frozen

from agentctx.characters import on_one_line
from agentctx.errors import InvalidInput
from agentctx.formats.native import fields_or_none
from agentctx.message import Native
from agentctx.replay import Billed, Recording

OtherFields = Mapping[str, Any]

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
    is_one: Callable[[OtherFields], bool]
    instead: str = ""


def _has(fields: OtherFields, *keys: str) -> bool:
    return all(key in fields for key in keys)


def _items(value: object) -> list[OtherFields]:
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


def _langchain(fields: OtherFields) -> bool:
    kind = str(fields.get("type")).removesuffix("MessageChunk").lower()
    if kind in _LANGCHAIN_TYPES and isinstance(fields.get("data"), Mapping):
        return True
    if _has(fields, "lc", "id") and kind == "constructor":
        return True
    return (kind in ("human", "ai") and "content" in fields) or _has(fields, "additional_kwargs", "content")


def _trace(fields: OtherFields) -> bool:
    """Spans as OTLP has them, as its console exporter prints them, or as Jaeger keeps them."""
    data = _items(fields.get("data"))
    spans = _at_all(fields.get("context"), "trace_id") or any(_has(each, "traceID", "spans") for each in data)
    return spans or not _SPANS.isdisjoint(fields) or _has(fields, "traceID", "spans")


def _claude_code(fields: OtherFields) -> bool:
    if isinstance(fields.get("message"), Mapping) and ("sessionId" in fields or "parentUuid" in fields):
        return True
    kind = fields.get("type")
    if not isinstance(kind, str) or not _NO_REMARKS.isdisjoint(fields):
        return kind == "file-history-snapshot"
    streamed = "session_id" in fields and kind in _CLAUDE_STREAM
    return streamed or not _CLAUDE_REMARKS.isdisjoint(fields) or kind in _CLAUDE_TYPES


def _codex(fields: OtherFields) -> bool:
    if isinstance(fields.get("payload"), Mapping) and fields.get("type") in _CODEX_TYPES:
        return True
    early = _has(fields, "id", "timestamp") and ("instructions" in fields or "git" in fields)
    return early and fields.keys() <= {"id", "timestamp", "instructions", "git"}


def _openhands(fields: OtherFields) -> bool:
    said = "action" in fields or "observation" in fields or fields.get("kind") in _OPENHANDS_KINDS
    return "source" in fields and said


def _openhands_events(fields: OtherFields) -> bool:
    """Whether a document holds events of OpenHands; early versions keep an action with what came of it in a list."""
    for key in ("history", "trajectory", "events"):
        events = fields.get(key)
        first = events[0] if isinstance(events, (list, tuple)) and events else None
        first = first[0] if isinstance(first, (list, tuple)) and first else first
        if isinstance(first, Mapping) and _openhands(first):
            return True
    return False


def _pydantic_ai(fields: OtherFields) -> bool:
    parts = _items(fields.get("parts"))
    return fields.get("kind") in ("request", "response") and all("part_kind" in part for part in parts)


def _typed_parts(fields: OtherFields) -> bool:
    parts = _items(fields.get("parts"))
    return "role" in fields and bool(parts) and all(isinstance(part.get("type"), str) for part in parts)


def _a2a(fields: OtherFields) -> bool:
    parts = _items(fields.get("parts"))
    named = "messageId" in fields or "message_id" in fields
    return bool(parts) and (named or all(part.get("kind") in _A2A_KINDS for part in parts))


def _ai_sdk_model(fields: OtherFields) -> bool:
    parts = _items(fields.get("content"))
    return any("toolCallId" in part or _has(part, "type", "mediaType") for part in parts)


def _inspect(fields: OtherFields) -> bool:
    if "role" not in fields:
        return False
    named = isinstance(fields.get("function"), str)
    calls = any(isinstance(call.get("function"), str) for call in _items(fields.get("tool_calls")))
    return named or calls or fields.get("source") in ("input", "generate")


def _goose(fields: OtherFields) -> bool:
    parts = _items(fields.get("content"))
    return "role" in fields and (
        ("created" in fields and bool(parts)) or any(part.get("type") in _GOOSE_TYPES for part in parts)
    )


def _sharegpt(fields: OtherFields) -> bool:
    turns = _items(fields.get("conversations"))
    return any("from" in turn for turn in turns) or (_has(fields, "from", "value") and "role" not in fields)


def _mcp(fields: OtherFields) -> bool:
    content = fields.get("content")
    return "role" in fields and isinstance(content, Mapping) and "type" in content


def _chatgpt(fields: OtherFields) -> bool:
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


MAX_BYTES = 256_000_000
"""What is read of a file without being asked for more, in bytes, unpacked."""

Line = tuple[int, bytes]
"""A line of a file with its number, from 1."""

Fields = Mapping[str, Native]

_GZIP = b"\x1f\x8b"
_LONGEST_START = 64
_LONGEST_HEADING = 500

_BINARY = {
    b"SQLite format 3\x00": "this is an SQLite database: export the messages of one conversation from it as JSON",
    b"PAR1": "this is a Parquet file: write its messages as JSON lines",
    b"\x89PNG": "this is a PNG image, and not JSON or JSON lines",
    b"\xff\xd8\xff": "this is a JPEG image, and not JSON or JSON lines",
    b"%PDF": "this is a PDF document, and not JSON or JSON lines",
    b"ARROW1": "this is an Arrow file: write its messages as JSON lines",
    b"\x28\xb5\x2f\xfd": "this is packed with zstd: unpack it first",
    b"BZh": "this is packed with bzip2: unpack it first",
    b"\xfd7zXZ": "this is packed with xz: unpack it first",
    b"\x1f\x9d": "this is packed with compress: unpack it first",
    b"\x80\x04\x95": "this is a Python pickle: it is not read, since reading one runs it",
    b"\x80\x05\x95": "this is a Python pickle: it is not read, since reading one runs it",
}
"""How files of other kinds begin, and what is said of them."""

_TEXT = {
    b"<?xml": "this is XML, and not JSON or JSON lines",
    b"<!doctype": "this is a web page, and not JSON or JSON lines: a shared chat has to be exported as JSON",
    b"<html": "this is a web page, and not JSON or JSON lines: a shared chat has to be exported as JSON",
    b"_**user": "this is SpecStory's Markdown: give the session that it was made from",
    b"<!-- generated by specstory": "this is SpecStory's Markdown: give the session that it was made from",
    b"---\n": "this is YAML or Markdown, and not JSON or JSON lines",
    b"# ": "this is Markdown or a script, and not JSON or JSON lines: export the session as JSON",
    b"data: ": "this is a recorded stream of server-sent events, and not JSON or JSON lines: give the whole answers",
    b"event: ": "this is a recorded stream of server-sent events, and not JSON or JSON lines: give the whole answers",
}

ZIP = b"PK\x03\x04"
"""How a zip archive begins."""


@contextmanager
def opened(source: str, max_bytes: int) -> Iterator[BufferedReader[RawIOBase]]:
    """A file as a stream of bytes, unpacked when it is gzip; ``-`` is stdin.

    Args:
        source: Path, or ``-``.
        max_bytes: More than these is an error, unpacked.

    Raises:
        InvalidInput: If it cannot be read; names the file.
    """
    name = name_of(source)
    with translated(name), _open(source) as stream:
        yield BufferedReader(cast("RawIOBase", _Limited(stream, name, max_bytes)))


def name_of(source: str) -> str:
    """What errors call a source."""
    return "stdin" if source == "-" else source


def refuse_other_kinds(name: str, start: bytes) -> None:
    """Check that a file is not of a kind that is no JSON at all.

    Raises:
        InvalidInput: If it is; says which kind, and what to do.
    """
    if start.startswith(b"# ") and b"from Cursor" in start[:_LONGEST_HEADING]:
        raise InvalidInput(name, "this is an export of Cursor as Markdown, which no longer holds the messages")
    start = start[:_LONGEST_START]
    found = next((said for magic, said in _BINARY.items() if start.startswith(magic)), None)
    if found is None:
        words = start.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
        found = next((said for magic, said in _TEXT.items() if words.startswith(magic)), None)
    if found is not None:
        raise InvalidInput(name, found)


def parse(name: str, line: Line) -> Native:
    """The JSON value of a line.

    Raises:
        InvalidInput: If it is none; names file and line.
    """
    number, content = line
    try:
        return json.loads(content.decode().rstrip())
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise InvalidInput(place(name, number + error.lineno - 1), what + (" (cut short?)" if cut else "")) from None
    except UnicodeDecodeError:
        raise InvalidInput(place(name, number), "not UTF-8 text; expected JSON or JSON lines") from None
    except RecursionError:
        raise InvalidInput(place(name, number), "nested too deep to be read") from None
    except ValueError:  # the only other one that ``json`` raises
        raise InvalidInput(place(name, number), "holds a whole number of more digits than are read") from None


def object_of(line: bytes) -> Fields:
    """The object that a line holds; an empty one when it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def place(name: str, line: int) -> str:
    """A line of a file, for errors."""
    return f"{name}, line {line}"


_NAMED = 8
_LONGEST_KIND = 40


def left_out(others: Iterable[Fields], what: str = "line") -> tuple[str, ...]:
    """What there is to say of lines that a log of this kind does not have, with how many there are of each kind.

    Args:
        others: The lines.
        what: What they are called.
    """
    kinds = Counter(_kind(other) for other in others)
    if not kinds:
        return ()
    named = [f"{kind} {count:,}" for kind, count in kinds.most_common(_NAMED)]
    more = ", …" if len(kinds) > _NAMED else ""
    many = kinds.total()
    begins = f"1 {what} of another kind was" if many == 1 else f"{many:,} {what}s of other kinds were"
    return (f"{begins} left out: {', '.join(named)}{more}",)


def _kind(fields: Fields) -> str:
    names = (fields.get(key) for key in ("type", "kind", "role"))
    return next((on_one_line(name, _LONGEST_KIND) for name in names if isinstance(name, str) and name), "nameless")


@define
class LogLines:
    """The objects that a log holds, a line each, read one by one.

    A program may be writing the log: a last line that is cut short is left out, as a damaged one is, and ``notes``
    say so when all lines are read.

    Args:
        name: What errors call the file.
        lines: Its lines.
    """

    name: str
    lines: Iterable[Line]
    _damaged: list[int] = field(factory=list, init=False)
    _last: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[tuple[int, Fields]]:
        """The objects, each with the number of its line."""
        for number, content in self.lines:
            self._last = number
            try:
                value = parse(self.name, (number, content))
            except InvalidInput:
                self._damaged.append(number)
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                self._damaged.append(number)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the lines that were left out."""
        notes, damaged = [], list(self._damaged)
        if damaged and damaged[-1] == self._last:
            notes.append(f"line {damaged.pop()} is cut short and left out: the log may still be written")
        if damaged:
            many = f"{len(damaged)} damaged lines are left out, the first: line {damaged[0]}"
            notes.append(many if len(damaged) > 1 else f"1 damaged line is left out: line {damaged[0]}")
        return tuple(notes)


@frozen
class Read:
    """A conversation as the reader of one tool's shape gives it.

    Args:
        recording: What can be replayed.
        notes: What a person should know: what was left out, what the log does not hold.
    """

    recording: Recording
    notes: tuple[str, ...] = ()


@frozen
class Glance:
    """What a session's log says of it without being read as a conversation.

    Args:
        project: The folder that was worked in, when the log says so.
        model: The model that was called last, when the log says so.
        billed: What was billed for each call; the indexes mean nothing.
    """

    project: str | None = None
    model: str | None = None
    billed: tuple[Billed, ...] = ()


@contextmanager
def _open(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        if sys.stdin is None:
            raise InvalidInput("stdin", "is closed")
        buffered = BufferedReader(cast("RawIOBase", sys.stdin.buffer))
        yield unpacked(buffered)
        buffered.detach()  # stdin is not ours to close
        return
    with Path(source).open("rb", buffering=0) as raw:
        yield unpacked(BufferedReader(raw))


def unpacked(stream: BufferedReader[RawIOBase]) -> IO[bytes]:
    """A stream, unpacked when it is gzip."""
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream)


class _Limited(RawIOBase):
    """A stream that is not read beyond a number of bytes."""

    def __init__(self, stream: IO[bytes], name: str, max_bytes: int) -> None:
        self._stream = stream
        self._name = name
        self._most = self._left = max_bytes

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Native, /) -> int:
        """Read into ``buffer`` and return the number of bytes."""
        content = self._stream.read(min(len(buffer), self._left + 1))
        if len(content) > self._left:
            what = f"has more than {self._most:,} bytes, unpacked: pass --max-bytes to read more of it"
            raise InvalidInput(self._name, what)
        self._left -= len(content)
        buffer[: len(content)] = content
        return len(content)


@contextmanager
def translated(name: str) -> Iterator[None]:
    """Turn what the operating system and gzip raise into an error that names the file."""
    try:
        yield
    except IsADirectoryError:
        raise InvalidInput(name, "is a directory, not a file") from None
    except FileNotFoundError:
        raise InvalidInput(name, "there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(name, f"damaged gzip: {error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(name, f"cannot be read: {error.strerror or error}") from None
