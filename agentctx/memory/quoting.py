"""Text that tools said, written so that no line of it can be taken for anything but a quotation."""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r"[\w./~@+%:#$€£-]+")
_ODD = re.compile(r"[\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\[\]<>\ud800-\udfff]")
TERM = r"\"(?:[^\"\\\n]|\\.)*+\"|[\w./~@+%:#$€£-]+"
"""A regular expression of what ``quoted`` writes."""


def quoted(text: str) -> str:
    """A text on one line: as it is when it is one plain word, else in quotes, with what could be markup escaped."""
    if _PLAIN.fullmatch(text):
        return text
    return _ODD.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def unquoted(term: str) -> str:
    """What was quoted; the term itself when it is no quotation."""
    if not term.startswith('"'):
        return term
    try:
        return str(json.loads(term))
    except ValueError:
        return term
