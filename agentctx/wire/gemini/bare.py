"""What the google-genai SDK takes where a content would stand: a text, a part, a file, or a list of these.

The SDK makes one content of such parts side by side: the model's where they call functions, else the user's; of a
list it makes a content of the user's. Source: ``t_contents`` of ``google.genai._transformers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentctx.core.parts import Media, Part, Text
from agentctx.errors import InvalidInput
from agentctx.wire.gemini.names import DATA, value
from agentctx.wire.native import fields_or_none

_CONTENT = frozenset({"role", "parts"})
_URIS = ("uri", "fileUri")


def bare_parts(native: object) -> Sequence[Any] | None:
    """The native parts that stand without a content around them; None for a content, and for what is none of these.

    Args:
        native: An entry of ``contents``.
    """
    if isinstance(native, (list, tuple)):
        return native
    return (native,) if is_bare(native) else None


def is_bare(native: object) -> bool:
    """Whether it is a single part, which the SDK puts into one content with those beside it."""
    if isinstance(native, str):
        return True
    block = fields_or_none(native)
    if block is None or not _CONTENT.isdisjoint(block):
        return False
    return not DATA.isdisjoint(block) or _uri(block) is not None


def bare_file(native: object) -> Mapping[str, Any] | None:
    """A file as the ``fileData`` of a part; None when it is no file."""
    block = fields_or_none(native)
    uri = None if block is None or not DATA.isdisjoint(block) else _uri(block)
    return None if block is None or uri is None else {"fileUri": uri, "mimeType": value(block, "mimeType")}


def _uri(block: Mapping[str, Any]) -> str | None:
    """Where a file is, when this is one."""
    found = next((uri for key in _URIS if isinstance(uri := value(block, key), str)), None)
    return found if isinstance(value(block, "mimeType"), str) else None


def read_bare(native: object) -> Part | None:
    """A text or a file as a part that remembers it; None for a part in the API's own shape.

    Raises:
        InvalidInput: If the SDK takes it and we do not.
    """
    if isinstance(native, str):
        return Text(native, source=native)
    if (file := bare_file(native)) is not None:
        family = file["mimeType"].partition("/")[0]
        kind = family if family in {"image", "audio", "video"} else "document"
        return Media(kind, file["mimeType"], url=file["fileUri"], source=native)
    if type(native).__module__.partition(".")[0] == "PIL":
        what = "an image of PIL: pass types.Part.from_bytes(data=..., mime_type=...), whose content is kept"
        raise InvalidInput(where="", what=what)
    return None


def role_of(natives: Sequence[object]) -> str:
    """Who says such parts: the model, where a single one calls a function."""
    block = fields_or_none(natives[0]) if len(natives) == 1 else None
    return "user" if block is None or value(block, "functionCall") is None else "model"


def as_contents(natives: Sequence[object]) -> Iterator[tuple[int, object]]:
    """The contents that the SDK makes of its ``contents``, each with the index of what begins it."""
    run: dict[str, Any] | None = None
    for index, native in enumerate(natives):
        if (parts := bare_parts(native)) is None or not is_bare(native):
            if run is not None:
                yield run.pop("index"), run
                run = None
            yield index, native if parts is None else {"role": "user", "parts": list(map(_as_part, parts))}
            continue
        if run is None or run["role"] != role_of(parts):
            if run is not None:
                yield run.pop("index"), run
            run = {"index": index, "role": role_of(parts), "parts": []}
        run["parts"].append(_as_part(native))
    if run is not None:
        yield run.pop("index"), run


def _as_part(native: object) -> object:
    if isinstance(native, str):
        return {"text": native}
    file = bare_file(native)
    return native if file is None else {"fileData": file}
