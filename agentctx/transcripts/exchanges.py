"""Requests that were logged, alone or with their answers: batch files, gateways' logs, Bedrock's invocation log.

Answers are put behind the messages that they answer. Lines of a log that go on with the conversation of a line before
are one conversation: the longest says all that the others say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from agentctx.errors import InvalidInput
from agentctx.formats.native import fields_or_none
from agentctx.formats.registry import FORMATS
from agentctx.message import Native
from agentctx.replay import Billed, Recording
from agentctx.transcripts.costs import number, seconds, usage_of
from agentctx.transcripts.files import Fields, Read, list_in, object_in, objects_in, text_in

OPENAI_BATCH = "an OpenAI batch"
ANTHROPIC_BATCH = "an Anthropic batch"
BEDROCK_LOG = "Bedrock's invocation log"
LOG = "a log of requests and answers"

_MESSAGES = ("messages", "input", "contents")
_REQUESTS = ("request", "request_body", "requestBody", "req", "kwargs")
_ANSWERS = ("response", "response_body", "responseBody", "resp", "raw_response")
_INSIDE = ("body", "json", "json_data", "data", "payload", "content")
_STAMPS = ("timestamp", "created_at", "time", "date", "startTime")
_MOST_OPEN = 16  # so many conversations of a log may go on at once
_SECONDS = 1e11  # a number of seconds until the year 5138; what is larger are milliseconds


Exchange = tuple[Read, str, str]
"""A logged request that was read, what kind of log it stands in, and where in it."""


def name_of(fields: Fields) -> str | None:
    """What kind of logged request an object is; None when it is none."""
    if "custom_id" in fields and not {"body", "response"}.isdisjoint(fields):
        return OPENAI_BATCH
    if "custom_id" in fields and not {"params", "result"}.isdisjoint(fields):
        return ANTHROPIC_BATCH
    if fields.get("schemaType") == "ModelInvocationLog":
        return BEDROCK_LOG
    return LOG if _request_of(fields) is not None else None


def is_list(values: Sequence[Native]) -> bool:
    """Whether these are logged requests, each an object of its own."""
    return bool(values) and all(isinstance(value, Mapping) and name_of(value) is not None for value in values)


def read(fields: Fields, place: str) -> Read:
    """A logged request, with its answer behind it where there is one.

    Raises:
        InvalidInput: If it holds no request, only an answer.
    """
    request, answer = _parts(fields)
    if request is None:
        what = "this holds answers without what was asked: give the file of requests"
        raise InvalidInput(place, what)
    key = next(key for key in _MESSAGES if key in request)
    given = request[key]
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
    more, notes = _answer(answer)
    tools = tools_of(request)
    model = text_in(request, "model", "modelId") or text_in(fields, "modelId", "model")
    recording = Recording(
        [*messages, *more],
        system=system_of(request),
        tools=tools or None if isinstance(tools, list) else None,
        format=_format(request, key, more, fields),
        model=model or _model(answer),
        id=text_in(fields, "custom_id", "id", "requestId"),
        pending=not more,
        billed=_billed(fields, answer, len(messages), model) if more else (),
    )
    return Read(recording, notes)


def joined(found: Iterable[Exchange]) -> Iterator[Exchange]:
    """Requests that go on with a conversation, as one: the longest, with what was billed for all; not in batches."""
    waiting: list[Exchange] = []
    for read, kind, place in found:
        if kind in (OPENAI_BATCH, ANTHROPIC_BATCH):
            yield read, kind, place
            continue
        before = next((one for one in waiting if _continues(one[0].recording, read.recording)), None)
        if before is not None:
            waiting.remove(before)
            billed = (*before[0].recording.billed, *read.recording.billed)
            waiting.append((evolve(read, recording=evolve(read.recording, billed=billed)), kind, before[2]))
            continue
        waiting.append((read, kind, place))
        if len(waiting) > _MOST_OPEN:
            yield waiting.pop(0)
    yield from waiting


def _continues(before: Recording, after: Recording) -> bool:
    """Whether a logged request goes on with the conversation of one before it."""
    said = len(before.messages) - (0 if before.pending else 1)
    same = before.format == after.format and before.system == after.system
    return same and 0 < said < len(after.messages) and list(before.messages[:said]) == list(after.messages[:said])


def system_of(request: Fields) -> Native:
    """What stands in a request where its system prompt belongs, whatever its format; None when there is nothing."""
    keys = (*(wire.keys.system for wire in FORMATS.values()), "systemInstruction")
    return next((request[key] for key in keys if key is not None and request.get(key) is not None), None)


def tools_of(request: Fields) -> Native:
    """What stands in a request where its tools belong, whatever its format; None when there is nothing."""
    config = request.get("toolConfig")  # where Bedrock has them
    return config.get("tools") if isinstance(config, Mapping) and "tools" not in request else request.get("tools")


def _parts(fields: Fields) -> tuple[Fields | None, Native]:
    """The request and the answer of an object."""
    if "custom_id" in fields:
        return _with_messages(fields.get("body")) or _with_messages(fields.get("params")), None
    if fields.get("schemaType") == "ModelInvocationLog":
        asked, said = object_in(fields, "input"), object_in(fields, "output")
        return _with_messages(asked.get("inputBodyJson")), said.get("outputBodyJson")
    answer = next((fields[key] for key in _ANSWERS if fields.get(key) is not None), None)
    return _request_of(fields), _unwrapped(answer)


def _request_of(fields: Fields) -> Fields | None:
    """The request of an object that holds a request and an answer; None when it does not."""
    for key in _REQUESTS:
        if (found := _with_messages(_unwrapped(fields.get(key)))) is not None:
            return found
    return _with_messages(fields) if any(isinstance(fields.get(key), (dict, str)) for key in _ANSWERS) else None


def _with_messages(value: Native) -> Fields | None:
    fields = fields_or_none(_decoded(value))
    if fields is None:
        return None
    given = next((fields[key] for key in _MESSAGES if key in fields), None)
    return fields if isinstance(given, (list, str)) else None


def _unwrapped(value: Native) -> Native:
    """A body, where it is kept beside what HTTP says of it."""
    value = _decoded(value)
    speaks = ("choices", "candidates", "role", "usage", *_MESSAGES)
    if not isinstance(value, Mapping) or any(key in value for key in speaks):
        return value
    if isinstance(value.get("output"), (list, dict)):
        return value
    inside = (_decoded(value[key]) for key in _INSIDE if key in value)
    return next((body for body in inside if isinstance(body, Mapping)), value)


def _decoded(value: Native) -> Native:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _answer(answer: Native) -> tuple[list[Native], tuple[str, ...]]:
    """The messages of an answer, in its provider's own shape."""
    if isinstance(answer, str):
        return [], ("the answer is a stream, or no JSON, and is left out",)
    if not isinstance(answer, Mapping):
        return [], ()
    messages: list[Native] = []
    if (message := chat_message(answer)) is not None:
        kept = {key: value for key, value in message.items() if value is not None and value != []}
        messages.append({"content": None, **kept, "role": "assistant"})
    output, content = answer.get("output"), answer.get("content")
    messages += objects_in(answer, "output")  # Responses
    if (answer.get("role") == "assistant" or answer.get("type") == "message") and isinstance(content, list) and content:
        messages.append({"role": "assistant", "content": content})
    candidate = object_in(_first(answer, "candidates"), "content")
    if candidate.get("parts"):
        messages.append({"role": "model", **candidate})
    message = object_in(output, "message")  # Bedrock's
    return messages or ([message] if message else []), ()


def chat_message(answer: Fields) -> Fields | None:
    """The message of an answer in the shape of Chat Completions: that of its first choice."""
    return object_in(_first(answer, "choices"), "message") or None


def _first(fields: Fields, key: str) -> Native:
    return next(iter(list_in(fields, key)), None)


def _format(request: Fields, key: str, more: Sequence[Native], fields: Fields) -> str | None:
    """The format, where the request or the answer tells it; else it is found out from the messages."""
    url = str(fields.get("url", ""))
    if key != "messages":
        return "gemini" if key == "contents" else "openai-responses"
    if url.endswith("/chat/completions") or "params" in fields:
        return "openai-chat" if "params" not in fields else "anthropic"
    content = more[0].get("content") if len(more) == 1 else None
    typed = isinstance(content, list) and all(isinstance(block, Mapping) and "type" in block for block in content)
    return "anthropic" if "anthropic_version" in request or typed else None


def _billed(fields: Fields, answer: Native, index: int, model: str | None) -> tuple[Billed, ...]:
    usage = next((answer[key] for key in ("usage", "usageMetadata", "usage_metadata") if answer.get(key)), None)
    found = usage_of(usage)
    at = next((moment for key in _STAMPS if (moment := _moment(fields.get(key))) is not None), None)
    cost = next((amount for key in ("response_cost", "cost") if (amount := number(fields.get(key))) is not None), None)
    return () if found is None else (Billed(index, found, model or _model(answer), at, cost),)


def _moment(value: Native) -> float | None:
    counted = number(value)
    if counted is None:
        return seconds(value)
    return counted if counted < _SECONDS else counted / 1000


def _model(answer: Native) -> str | None:
    return text_in(answer, "model", "modelVersion")
