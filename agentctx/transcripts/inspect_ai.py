"""Inspect's logs: ``.eval``, a zip archive with a file for each sample, and ``.json``, one document."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING

from agentctx.errors import InvalidInput
from agentctx.formats.native import string_of
from agentctx.message import Native, Part, ToolResult
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.exchanges import chat_message
from agentctx.transcripts.files import Fields, Read, left_out, parse
from agentctx.transcripts.frameworks import Turns, calls_beside, content_parts

if TYPE_CHECKING:
    import zipfile
else:
    try:  # before Python 3.14 the standard library does not unpack what Inspect packs
        from backports.zstd import zipfile
    except ModuleNotFoundError:
        import zipfile

NAME = "Inspect (evaluation log)"
MESSAGES = "Inspect"

_KEPT_APART = "attachment://"
_BUFFER = 1 << 20


def read_archive(file: IO[bytes], name: str, max_bytes: int) -> Iterator[Read]:
    """The samples of an ``.eval`` file, one by one.

    Args:
        file: The archive, which is sought in.
        name: What errors call it.
        max_bytes: All samples together may have no more, unpacked.

    Raises:
        InvalidInput: If it is another archive, damaged, or larger; says what to do.
    """
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        raise InvalidInput(name, f"damaged archive: {error}") from None
    names = sorted((one for one in archive.namelist() if one.startswith("samples/")), key=_in_order)
    if not names and not any(one in archive.namelist() for one in ("header.json", "_journal/start.json")):
        raise InvalidInput(name, "this is a zip archive, and not an .eval file of Inspect: unpack it first")
    if not names:
        raise InvalidInput(name, "this .eval file of Inspect holds no sample: no model was called")
    left = max_bytes
    for one in names:
        where = f"{name}, {one}"
        content = _member(archive, one, name, left, max_bytes)
        left -= len(content)
        sample = parse(where, (1, content))
        if not isinstance(sample, Mapping):
            raise InvalidInput(where, "this is no sample of Inspect")
        yield from _sample(sample, where)


def _in_order(name: str) -> list[tuple[bool, int, str]]:
    words = name.replace("/", "_").replace(".", "_").split("_")
    return [(word.isdigit(), int(word) if word.isdecimal() else 0, word) for word in words]


def _member(archive: zipfile.ZipFile, name: str, where: str, left: int, most: int) -> bytes:
    try:
        content = _unpacked(archive, name, left + 1)
    except NotImplementedError:
        install = "pip install 'agentctx-middleware[inspect-logs]'"
        what = f"packed with zstd, which Python before 3.14 does not unpack by itself: {install}"
        raise InvalidInput(where, what) from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError, zlib.error) as error:
        raise InvalidInput(where, f"damaged archive: {name}: {error}") from None
    except Exception as error:
        if type(error).__name__ not in ("ZstdError", "LZMAError"):  # of a library that may not be there
            raise
        raise InvalidInput(where, f"damaged archive: {name}: {error}") from None
    if len(content) > left:
        raise InvalidInput(where, f"has more than {most:,} bytes, unpacked: pass --max-bytes to read more of it")
    return content


def _unpacked(archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """What a file of an archive holds, but no more of it than ``most`` bytes."""
    pieces, size = [], 0
    with archive.open(name) as member:
        while size < most and (piece := member.read(min(_BUFFER, most - size))):
            pieces.append(piece)
            size += len(piece)
    return b"".join(pieces)


def read_log(log: Fields, place: str) -> Iterator[Read]:
    """The samples of a log that is one document."""
    samples = log.get("samples")
    if not isinstance(samples, list) or not samples:
        raise InvalidInput(place, "this log of Inspect holds no sample: no model was called")
    for index, sample in enumerate(samples):
        if isinstance(sample, Mapping):
            yield from _sample(sample, f"{place}, samples[{index}]")


def _sample(sample: Fields, place: str) -> Iterator[Read]:
    messages = sample.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidInput(place, "this sample holds no messages: no model was called")
    yield read(messages, sample)


def read(messages: Sequence[Native], sample: Fields) -> Read:
    """Messages as Inspect keeps them, with the sample that they stand in."""
    kept = sample.get("attachments")
    apart = kept if isinstance(kept, Mapping) else {}
    turns, model, bills = Turns(), None, _bills(sample)
    others: list[Fields] = []
    for message in messages:
        if not isinstance(message, Mapping):
            continue
        said = _whole(message, apart)
        role = said.get("role")
        if role == "tool":
            turns.add("tool", [_result(said)])
        elif role == "assistant":
            turns.answer(said.get("content"), calls_beside(said.get("tool_calls"), "function", "arguments"))
            model = said["model"] if isinstance(said.get("model"), str) else model
            usage, at = bills.get(str(said.get("id")), (None, None))
            turns.bill(usage_of(usage), model, at)
        elif isinstance(role, str):
            turns.add("system" if role in ("system", "developer") else "user", content_parts(said.get("content")))
        else:
            others.append(message)
    name = None if sample.get("id") is None else f"{sample.get('id')}/{sample.get('epoch', 1)}"
    tools = next((event["tools"] for event in _model_events(sample) if isinstance(event.get("tools"), list)), None)
    return Read(turns.recording(tools=tools or None, model=model, id=name), left_out(others, "message"))


def _whole(value: Native, apart: Mapping[str, Native]) -> Native:
    """A value with the long texts that are kept apart back in their places."""
    if isinstance(value, str) and value.startswith(_KEPT_APART):
        found = apart.get(value.removeprefix(_KEPT_APART))
        return found if isinstance(found, str) else value
    if isinstance(value, Mapping):
        return {key: _whole(each, apart) for key, each in value.items()}
    return [_whole(each, apart) for each in value] if isinstance(value, list) else value


def _result(said: Fields) -> Part:
    error = said.get("error")
    parts = content_parts(said.get("content"))
    if not parts and isinstance(error, Mapping):
        parts = content_parts(str(error.get("message")))
    called, named = str(said.get("tool_call_id")), string_of(said, "function")
    return ToolResult(called, tuple(parts), named, is_error=error is not None)


def _model_events(sample: Fields) -> Iterator[Fields]:
    events = sample.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, Mapping) and event.get("event") == "model":
            yield event


def _bills(sample: Fields) -> dict[str, tuple[Native, float | None]]:
    """What was billed for each answer, by the answer's id."""
    found: dict[str, tuple[Native, float | None]] = {}
    for event in _model_events(sample):
        output = event.get("output")
        if isinstance(output, Mapping) and (message := chat_message(output)) is not None:
            found[str(message.get("id"))] = output.get("usage"), seconds(event.get("timestamp"))
    return found
