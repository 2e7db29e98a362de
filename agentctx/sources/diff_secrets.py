"""Secrets taken out of a diff: each file's lines by the rules for that file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from agentctx.sources.secrets import Redactor

_FILE = re.compile(r"(?m)^(?=diff --(?:git|cc|combined) )")
_HUNK = re.compile(r"(?m)^@@")
_NAME = re.compile(r'(?m)^(?:---|\+\+\+) "?[ab]/(?P<name>[^\t\n"]+)')
_RENAMED = re.compile(r'(?m)^rename (?:from|to) "?(?P<name>[^\n"]+)')
_KEY_LINE = re.compile(r"[ +-]{0,2}[ \t]{0,40}(?P<key>[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})\r?")
"""A whole line of a private key, as wide as programs write them."""

_LAST_LINE = re.compile(r"[ +-]{0,2}[ \t]{0,40}(?=[A-Za-z0-9+/]{0,76}[0-9+/=])[A-Za-z0-9+/]{2,76}={0,2}\r?")


def redact_diff(text: str, redact: Redactor) -> str:
    """A diff, as ``git diff`` prints it with ``a/`` and ``b/``, without the secrets in it.

    The lines that were added, removed or kept are read as text of the file that they are of, without their signs: a
    diff of ``.env`` is no place to find what ``.env`` itself does not tell.

    Args:
        text: The diff.
        redact: Takes secrets out of a text, given the name of its file.
    """
    return "".join(_of_file(part, redact) for part in _FILE.split(text))


def _of_file(text: str, redact: Redactor) -> str:
    """What is said of one file; a key that goes over lines of several signs goes first, as a whole."""
    head = _HUNK.split(text, maxsplit=1)[0]
    names = dict.fromkeys(found["name"] for pattern in (_NAME, _RENAMED) for found in pattern.finditer(head))
    head, *hunks = _HUNK.split(redact(text, ""))
    return "@@".join((head, *(_of_hunk(hunk, tuple(names), redact) for hunk in hunks)))


def _of_hunk(text: str, names: tuple[str, ...], redact: Redactor) -> str:
    """A hunk: its line of numbers, which may end with a line of the file, and the lines that follow."""
    numbers, end, body = text.partition("\n")
    places, at, line = numbers.partition("@@")
    if at and line.strip():
        heading = _by_names(line.strip(), names, redact)
        numbers = f"{places}@@ {''.join(_within_keys([heading], redact))}"
    return numbers + end + "\n".join(_within_keys(list(_runs(body, names, redact)), redact))


def _runs(body: str, names: tuple[str, ...], redact: Redactor) -> Iterator[str]:
    """The lines, those of one sign that follow each other read together."""
    for sign, lines in groupby(body.split("\n"), key=lambda line: line[:1]):
        if sign not in ("+", "-", " "):
            yield from lines
            continue
        content = "\n".join(line[1:] for line in lines)
        yield from (sign + line for line in _by_names(content, names, redact).split("\n"))


def _within_keys(lines: list[str], redact: Redactor) -> list[str]:
    """The lines without those that may stand in the middle of a private key: the diff shows neither end of it.

    The redactor is asked what it takes out of such a key.
    """
    told: list[str] = []
    place = 0
    while place < len(lines):
        stop = _end_of_key(lines, place)
        told += _as_key(lines[place:stop], redact) if stop > place else lines[place : place + 1]
        place = max(stop, place + 1)
    return told


def _end_of_key(lines: list[str], start: int) -> int:
    """Where whole lines of what may be a key end, with the shorter line at its end; ``start`` when there is none."""
    stop = start
    while stop < len(lines) and _may_be_of_a_key(lines[stop]):
        stop += 1
    return stop + 1 if stop > start and stop < len(lines) and _LAST_LINE.fullmatch(lines[stop]) else stop


def _may_be_of_a_key(line: str) -> bool:
    found = _KEY_LINE.fullmatch(line)
    return found is not None and all(re.search(kind, found["key"]) for kind in ("[A-Z]", "[a-z]", "[0-9+/]"))


def _as_key(lines: list[str], redact: Redactor) -> list[str]:
    # written as a key, so that the redactor of the caller decides whether, and by what, keys are replaced
    key = "\n".join(("-----BEGIN PRIVATE KEY-----", *lines, "-----END PRIVATE KEY-----"))
    told = redact(key, "")
    return lines if lines[0] in told else [lines[0][:1] + told]


def _by_names(content: str, names: tuple[str, ...], redact: Redactor) -> str:
    """The content as it may be told of a file with these names: before and after a renaming."""
    told = content
    for name in names:
        told = redact(told, name)
    return told if content.endswith("\n") else told.removesuffix("\n")  # not a line more than there was
