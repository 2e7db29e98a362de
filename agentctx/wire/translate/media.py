"""Which media a provider takes where, and what stands there instead."""

from __future__ import annotations

import binascii
from base64 import b64decode
from mimetypes import guess_type
from typing import Any

from attrs import evolve

from agentctx.core.parts import Media, Text
from agentctx.tokens.media import document_text
from agentctx.wire.native import fields_or_none
from agentctx.wire.translate.target import Media as Takes
from agentctx.wire.translate.target import Target

_USUAL = {"image": "image/png", "document": "application/pdf"}
_SAME = {"image/jpg": "image/jpeg", "audio/x-wav": "audio/wav", "audio/mpeg": "audio/mp3"}
_USUAL_ALPHABET = str.maketrans("-_", "+/")
_DETAILS = frozenset({"low", "high", "auto"})


def placed(part: Media, takes: Takes, target: Target) -> Media | None:
    """The media as they may stand where ``takes`` says what may; None when they may not.

    Args:
        part: The media.
        takes: The MIME types, by kind, that may stand there inline.
        target: What the provider's format can say.
    """
    if part.kind not in takes:
        return None
    detail = part.detail if target.details and part.detail in _DETAILS else None
    bare = Media(part.kind, part.media_type, part.data, part.url, detail)
    if part.data is None:
        return _by_url(bare, target)
    media_type = _SAME.get(part.media_type or "", part.media_type) or _USUAL.get(part.kind)
    data = _plain_base64(part.data)
    allowed = {_SAME.get(one, one) for one in takes[part.kind]}
    if media_type not in allowed or data is None:
        return None
    return evolve(bare, media_type=part.media_type or media_type, data=data, url=None)


def named(part: Media, was: Media, target: Target) -> Media:
    """A document with the name that it had, where it has a place, or with a neutral one where it has to have one."""
    if part.kind != "document" or target.names_files is None:
        return part
    name = name_of(was)
    if target.names_files == "title":
        title = (name or "")[:_LONGEST_TITLE]
        return evolve(part, source={"type": "document", "title": title}, words=title) if title else part
    if part.data is None:
        return part
    name = name or "document"
    filename = name if name.lower().endswith(".pdf") else f"{name}.pdf"
    told: dict[str, Any] = {"filename": filename}
    block = {"file": told} if target.names_files == "file" else told
    return evolve(part, source={"type": target.names_files, **block}, words=filename)


NAMES = ("filename", "title", "displayName", "display_name", "name")
"""The keys under which the formats have the name of a document."""

_LONGEST_TITLE = 500


def name_of(part: Media) -> str | None:
    """The name that a document has in its own format, if any."""
    block = fields_or_none(part.source) or {}
    inner = (fields_or_none(held) for held in block.values() if not isinstance(held, str))
    holders = (block, *(each for each in inner if each is not None))
    names = (holder.get(key) for holder in holders for key in NAMES)
    return next((name for name in names if isinstance(name, str) and name.strip()), None)


def _plain_base64(data: str) -> str | None:
    """Base64 as all providers take it: in one line, in the usual alphabet and padded; None when it is none."""
    plain = "".join(data.split()).translate(_USUAL_ALPHABET).rstrip("=")
    plain += "=" * (-len(plain) % 4)
    try:
        b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if plain == data else plain


def _by_url(part: Media, target: Target) -> Media | None:
    """Media by a web address; what a provider keeps under a name of its own, no other provider has."""
    if part.kind not in target.by_url or part.url is None or not part.url.startswith(("https://", "http://")):
        return None
    return evolve(part, media_type=part.media_type or guess_type(part.url.partition("?")[0])[0])


def spelled_out(part: Media) -> str | None:
    """The characters of a document that is plain text; None for any other."""
    return document_text(part)


def left_out(part: Media) -> Text:
    """What stands for media that cannot be sent."""
    kind = part.media_type or part.kind
    place = f": {part.url}" if part.url is not None and part.data is None else ""
    return Text(f"[{kind} left out{place}]")
