"""The text of office documents: what providers read of a docx, xlsx or pptx.

OpenAI publishes it: of documents that are no PDF the text is read and no picture, of spreadsheets up to the first 1,000
rows of a sheet (https://developers.openai.com/api/docs/guides/file-inputs); for other providers it is counted alike.
Only the XML in the archive is looked at, up to a limit.
"""

from __future__ import annotations

import re
import zlib
from binascii import Error
from collections.abc import Iterator
from html import unescape
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from attrs import define

from agentctx.core.parts import Media

MOST_BYTES = 4 * 2**20
"""So many bytes of XML are read of a document; small archives may hold very much."""

ROWS = 1_000
"""So many rows of a sheet are read."""

DIGITS = 10
"""No number of a shared text has so many."""

_ARCHIVE = "UEsDB"  # how the base64 of a zip archive begins
_TEXTS = re.compile(r"word/(?:document|footnotes|endnotes|comments)\.xml|ppt/slides/slide\d+\.xml")
_SHEETS = re.compile(r"xl/worksheets/[\w.-]+\.xml")
_SHARED = "xl/sharedStrings.xml"
_BREAK = re.compile(r"</w:p>|</a:p>|</si>|<w:br/>")
_TAG = re.compile(r"<[^<>]*>")
_CELL = re.compile(r"<(row|c|v|t)\b([^<>]*)>([^<]*)")


def may_be_office(part: Media) -> bool:
    """Whether a document is a zip archive, as those of offices are."""
    return part.kind == "document" and part.data is not None and part.data.startswith(_ARCHIVE)


def office_text(content: bytes) -> str | None:
    """What a document says, its first megabytes; None for what is none, or is damaged."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
            texts, sheets = (sorted(filter(pattern.fullmatch, names)) for pattern in (_TEXTS, _SHEETS))
            if not texts and not sheets:
                return None
            read = _Reader(archive).read
            shared = _plain(read(_SHARED)).split("\n") if sheets and _SHARED in names else []
            told = [*(_plain(read(name)) for name in texts), *("".join(_cells(read(name), shared)) for name in sheets)]
    except (BadZipFile, zlib.error, Error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None
    return "\n".join(told)


@define
class _Reader:
    """Reads the files of an archive, as long as there is something left to read.

    Args:
        archive: The archive.
        left: So many bytes may still be read.
    """

    archive: ZipFile
    left: int = MOST_BYTES

    def read(self, name: str) -> str:
        """A file's characters, up to where the limit is."""
        with self.archive.open(name) as file:
            content = file.read(self.left)
        self.left -= len(content)
        return content.decode("utf-8", "replace")


def _plain(xml: str) -> str:
    """The characters of XML, a paragraph or a shared text a line."""
    return unescape(_TAG.sub("", _BREAK.sub("\n", xml)))


def _cells(xml: str, shared: list[str]) -> Iterator[str]:
    """The values of a sheet's cells; many of them are numbers of shared texts."""
    rows, kind = 0, ""
    for found in _CELL.finditer(xml):
        tag, attributes, value = found.groups()
        if tag == "row":
            rows += 1
            if rows > ROWS:
                return
            yield "\n"
        elif tag == "c":
            kind = attributes
        elif tag == "v" and 't="s"' in kind:
            place = int(value) if value.isdecimal() and len(value) < DIGITS else len(shared)
            yield f"{shared[place] if place < len(shared) else ''}\t"
        else:
            yield unescape(value) + "\t"
