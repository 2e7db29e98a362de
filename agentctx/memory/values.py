"""Exact values in text: what a later step may need to the letter, and can no longer read where it stood."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from attrs import frozen

from agentctx.core.pace import paced
from agentctx.errors import ConfigError

LONGEST = 240
"""Characters of the longest value; what is longer is content, not a value."""


class Kind(StrEnum):
    """What a value is.

    Example:
        >>> from agentctx.memory import Kind
        >>> Kind("path")
        <Kind.PATH: 'path'>
    """

    PATH = "path"
    FILE = "file"
    URL = "url"
    EMAIL = "email"
    ID = "id"
    NUMBER = "number"
    DATE = "date"
    NAME = "name"
    SYMBOL = "symbol"
    ERROR = "error"
    RULE = "rule"
    OTHER = "other"


@frozen
class Value:
    """A value as it stands in a text.

    Args:
        text: Its characters.
        kind: What it is.

    Example:
        >>> from agentctx.memory import values_in
        >>> [value.text for value in values_in("open src/app.py at line 1742")]
        ['src/app.py', '1742']
    """

    text: str
    kind: Kind = Kind.OTHER


Extractor = Callable[[str], Iterable[str | Value]]
"""Finds values of one's own in a text."""

_WORD = re.compile(
    r"(?P<url>\b[a-z][a-z0-9+]{1,9}://[^\s\"'`<>\\^{}|]++)|(?P<word>[^\s\"'`<>()\[\]{}|\\,;*!?=&^$\x00-\x1f]++)"
)
_KEY_ENDS = ('":', '\\":')
"""What stands behind a key in JSON: the name of a field is no value, and stands in every record of its kind."""
_LINE_NUMBER = re.compile(r"(?::\d{1,7}){1,2}:?\Z|[:.]+\Z")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}")
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:T[\d:.]{4,15}(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}:\d\d(?::\d\d)?"
)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_FILE = re.compile(
    r"[\w.@+-]{0,100}\.(?:bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|diff|env|ex|exs|gif|go|gradle|h|hpp|html?|ini|ipynb|"
    r"java|jpe?g|jsx?|json|jsonl|kts?|lock|log|lua|m|md|mjs|mod|patch|pdf|php|png|pony|proto|pyi?|rb|rs|rst|scala|"
    r"sh|sql|sum|svelte|svg|swift|tar|tf|toml|tsx?|txt|vue|xml|ya?ml|zig|zip|zsh)"
)
_PIECE = re.compile(r"#?[^\W_](?:[\w-]*\w)?|_[\w-]*\w")
_CODE = re.compile(r"#?(?=[A-Z#-]*\d)[A-Z]{0,8}[A-Z0-9-]{3,23}|[A-Z]{2,10}-\d{1,7}")
_SYMBOL = re.compile(r"_*[A-Za-z]\w*(?:_\w|(?<=[a-z0-9])[A-Z]|[A-Z][a-z])\w*")
_SAFE_PATH = re.compile(r"(?:[A-Za-z]:)?[\w./@+~%-]*[A-Za-z][\w./@+~%-]*")


def values_in(text: str, extractors: Iterable[Extractor] = ()) -> Iterator[Value]:
    """The values in a text in their order, also those that stand there twice; then those of the extractors.

    The work grows with the text. Nothing is left out because it may be secret: give it text without secrets.

    Args:
        text: Any text.
        extractors: Callables that find values of one's own.

    Raises:
        ConfigError: If an extractor gives something else than texts and values.

    Example:
        >>> from agentctx.memory import values_in
        >>> [(value.text, value.kind.value) for value in values_in("See src/app.py and #4711.")]
        [('src/app.py', 'path'), ('#4711', 'id')]
    """
    for found in paced(_WORD.finditer(text)):
        word = found[0]
        if len(word) <= LONGEST and not (text.startswith(_KEY_ENDS, found.end()) and _SYMBOL.fullmatch(word)):
            yield from _of_url(word) if found["url"] else _of_word(word)
    for extractor in extractors:
        yield from _own(extractor(text))


def _own(found: object) -> Iterator[Value]:
    """What an extractor gave, as values; one that is blank is none."""
    listed = None if isinstance(found, (str, bytes)) or not isinstance(found, Iterable) else tuple(found)
    if listed is None or not all(isinstance(each, (str, Value)) for each in listed):
        msg = f"extractors: one gave {found!r}; expected a list of texts or values"
        raise ConfigError(msg)
    values = (Value(each) if isinstance(each, str) else each for each in listed)
    yield from (value for value in values if value.text.strip())


def _of_url(word: str) -> Iterator[Value]:
    url = word.rstrip(".,:;!?)]*")
    if len(url) > url.index("://") + 5:
        yield Value(url, Kind.URL)


def _of_word(word: str) -> Iterator[Value]:
    """The values in a run of characters without blanks, quotes and brackets."""
    bare = _LINE_NUMBER.sub("", word).lstrip(":+-%").rstrip("-+%:.,/" if word.endswith("//") else "-+%:.,")
    whole = _whole(bare)
    if whole is not None:
        if len(bare) > 3:
            yield Value(bare, whole)
    elif ":" in bare:
        for part in bare.split(":"):
            yield from _of_word(part)
    else:
        yield from _pieces(bare)


def _whole(word: str) -> Kind | None:
    """What a word is as a whole; None when values may stand in it."""
    if _DATE.fullmatch(word):
        return Kind.DATE
    if "/" in word and ":" not in word[2:]:
        return Kind.PATH if _is_path(word) else None
    if "@" in word and _EMAIL.fullmatch(word):
        return Kind.EMAIL
    if "." in word and _FILE.fullmatch(word):
        return Kind.FILE
    return Kind.ID if _UUID.fullmatch(word) else None


def _is_path(word: str) -> bool:
    if _SAFE_PATH.fullmatch(word) is None or "//" in word:
        return False
    last = word.rstrip("/").rpartition("/")[2]
    return word.startswith(("/", "~/", "./", "../")) or word.count("/") > 1 or "." in last or "_" in word or "-" in word


def _pieces(word: str) -> Iterator[Value]:
    """Ids, numbers and identifiers in a word that is none as a whole: ``store.saveState`` holds one."""
    for found in _PIECE.finditer(word):
        piece = found[0]
        kind = _kind(piece)
        if kind is not None:
            yield Value(piece, kind)
        elif "-" in piece:
            yield from (Value(part, kind) for part in piece.split("-") if (kind := _kind(part)) is not None)


def _kind(piece: str) -> Kind | None:
    if piece.isascii() and piece.isdigit():
        return Kind.NUMBER if len(piece) > 3 else None
    if len(piece) < 5:
        return None
    if _HEX.fullmatch(piece) or _UUID.fullmatch(piece) or _CODE.fullmatch(piece):
        return Kind.ID
    if "-" not in piece and _SYMBOL.fullmatch(piece):
        return Kind.SYMBOL
    return None


_ERROR = re.compile(r"(?:[A-Z]\w{0,60}(?:Error|Exception)|(?i:\berror|\bfatal|\bpanic|\bfailed|\bfailure))\b(?!s)")
_RULE = re.compile(
    r"(?i)\b(?:never|must|mustn't|always|only|don't|do not|not before|not after|no later|at least|at most|before|"
    r"after|until|without|instead of|make sure|prefer|required?|deadline|budget|avoid|keep|decided?|agreed)\b"
)
_CLAUSE = re.compile(r"[^\n.!?;]++(?:[.](?=\w)[^\n.!?;]++)*+")
_NAME = re.compile(r"\b[A-Z][a-z]{1,20}(?:[ ][A-Z](?:[a-z]{1,20}|\.)){1,2}\b")
_AMOUNT = re.compile(r"[$€£]\d[\d,]{0,12}(?:\.\d\d)?|\b\d{1,2}(?::\d\d)? ?[AaPp]\.?[Mm]\b")
_SHORTEST_RULE = 12


def error_lines(text: str) -> Iterator[Value]:
    """The lines of a tool's result that say what went wrong; long ones are no values."""
    for line in text.splitlines():
        said = line.strip()
        if len(said) <= LONGEST and _ERROR.search(said):
            yield Value(said, Kind.ERROR)


def said_in(text: str) -> Iterator[Value]:
    """What a user decided, asked for or forbade, clause by clause; names, amounts and times of day."""
    for clause in _CLAUSE.findall(text):
        said = clause.strip(" \t,:-*#>")
        if _SHORTEST_RULE <= len(said) <= LONGEST and _RULE.search(said):
            yield Value(said, Kind.RULE)
    yield from (Value(found[0], Kind.NAME) for found in _NAME.finditer(text))
    yield from (Value(found[0], Kind.NUMBER) for found in _AMOUNT.finditer(text))
