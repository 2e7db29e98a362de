"""Exact values in text: what a later step may need to the letter, and can no longer read where it stood.

They are found, and those that are likeliest to be needed are told, on lines that are read back at the next cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from heapq import nsmallest

from attrs import define, frozen

from agentctx.errors import ConfigError
from agentctx.lazy import lazy_pattern
from agentctx.marks import OPEN_QUOTE, TERM, quoted, unquoted
from agentctx.protocols import TokenCounter
from agentctx.secrets import Redactor, redact_secrets

LONGEST = 240
"""Characters of the longest value; what is longer is content, not a value."""


class Kind(StrEnum):
    """What a value is.

    Example:
        >>> from agentctx.strategies import Kind
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
        >>> from agentctx.strategies import values_in
        >>> [value.text for value in values_in("open src/app.py at line 1742")]
        ['src/app.py', '1742']
    """

    text: str
    kind: Kind = Kind.OTHER


Extractor = Callable[[str], Iterable[str | Value]]
"""Finds values of one's own in a text."""

_WORD = lazy_pattern(
    r"(?P<url>\b[a-z][a-z0-9+]{1,9}://[^\s\"'`<>\\^{}|]++)|(?P<word>[^\s\"'`<>()\[\]{}|\\,;*!?=&^$\x00-\x1f]++)"
)
_KEY_ENDS = ('":', '\\":')
"""What stands behind a key in JSON: the name of a field is no value, and stands in every record of its kind."""
_LINE_NUMBER = lazy_pattern(r"(?::\d{1,7}){1,2}:?\Z|[:.]+\Z")
_UUID = lazy_pattern(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX = lazy_pattern(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}")
_DATE = lazy_pattern(
    r"\d{4}-\d\d-\d\d(?:T[\d:.]{4,15}(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}:\d\d(?::\d\d)?"
)
_EMAIL = lazy_pattern(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_FILE = lazy_pattern(
    r"[\w.@+-]{0,100}\.(?:bash|bat|c|cc|cfg|conf|cpp|cs|css|csv|diff|env|ex|exs|gif|go|gradle|h|hpp|html?|ini|ipynb|"
    r"java|jpe?g|jsx?|json|jsonl|kts?|lock|log|lua|m|md|mjs|mod|patch|pdf|php|png|pony|proto|pyi?|rb|rs|rst|scala|"
    r"sh|sql|sum|svelte|svg|swift|tar|tf|toml|tsx?|txt|vue|xml|ya?ml|zig|zip|zsh)"
)
_PIECE = lazy_pattern(r"#?[^\W_](?:[\w-]*\w)?|_[\w-]*\w")
_CODE = lazy_pattern(r"#?(?=[A-Z#-]*\d)[A-Z]{0,8}[A-Z0-9-]{3,23}|[A-Z]{2,10}-\d{1,7}")
_SYMBOL = lazy_pattern(r"_*[A-Za-z]\w*(?:_\w|(?<=[a-z0-9])[A-Z]|[A-Z][a-z])\w*")
_SAFE_PATH = lazy_pattern(r"(?:[A-Za-z]:)?[\w./@+~%-]*[A-Za-z][\w./@+~%-]*")


def values_in(text: str, extractors: Iterable[Extractor] = ()) -> Iterator[Value]:
    """The values in a text in their order, also those that stand there twice; then those of the extractors.

    The work grows with the text. Nothing is left out because it may be secret: give it text without secrets.

    Args:
        text: Any text.
        extractors: Callables that find values of one's own.

    Raises:
        ConfigError: If an extractor gives something else than texts and values.

    Example:
        >>> from agentctx.strategies import values_in
        >>> [(value.text, value.kind.value) for value in values_in("See src/app.py and #4711.")]
        [('src/app.py', 'path'), ('#4711', 'id')]
    """
    for found in _WORD.finditer(text):
        word = found[0]
        if word.islower() and word.isalpha() and word.isascii():
            continue  # most words of a text; no value is a plain one
        if len(word) <= LONGEST and not (text.startswith(_KEY_ENDS, found.end()) and _SYMBOL.fullmatch(word)):
            if found["url"]:
                url = word.rstrip(".,:;!?)]*")
                if len(url) > url.index("://") + 5:
                    yield Value(url, Kind.URL)
            else:
                yield from _of_word(word)
    for extractor in extractors:
        extracted: object = extractor(text)
        values = None if isinstance(extracted, (str, bytes)) or not isinstance(extracted, Iterable) else [*extracted]
        if values is None or not all(isinstance(each, (str, Value)) for each in values):
            msg = f"extractors: one gave {extracted!r}; expected a list of texts or values"
            raise ConfigError(msg)
        for value in values:
            if (value if isinstance(value, str) else value.text).strip():
                yield Value(value) if isinstance(value, str) else value


@lru_cache(maxsize=8_192)  # of all sessions, some megabytes: what tools print says the same few words again and again
def _of_word(word: str) -> tuple[Value, ...]:
    """The values in a run of characters without blanks, quotes and brackets."""
    return tuple(_in_word(word))


def _in_word(word: str) -> Iterator[Value]:
    bare = _LINE_NUMBER.sub("", word).lstrip(":+-%").rstrip("-+%:.,/" if word.endswith("//") else "-+%:.,")
    whole = _whole(bare)
    if whole is not None:
        if len(bare) > 3:
            yield Value(bare, whole)
    elif ":" in bare:
        for part in bare.split(":"):
            yield from _in_word(part)
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


_ERROR = lazy_pattern(r"(?:[A-Z]\w{0,60}(?:Error|Exception)|(?i:\berror|\bfatal|\bpanic|\bfailed|\bfailure))\b(?!s)")
_RULE = lazy_pattern(
    r"(?i)\b(?:never|must|mustn't|always|only|don't|do not|not before|not after|no later|at least|at most|before|"
    r"after|until|without|instead of|make sure|prefer|required?|deadline|budget|avoid|keep|decided?|agreed)\b"
)
_CLAUSE = lazy_pattern(r"[^\n.!?;]++(?:[.](?=\w)[^\n.!?;]++)*+")
_NAME = lazy_pattern(r"\b[A-Z][a-z]{1,20}(?:[ ][A-Z](?:[a-z]{1,20}|\.)){1,2}\b")
_AMOUNT = lazy_pattern(r"[$€£]\d[\d,]{0,12}(?:\.\d\d)?|\b\d{1,2}(?::\d\d)? ?[AaPp]\.?[Mm]\b")
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


@define
class Candidate:
    """What is known of a value that may be told.

    Args:
        kind: What it is.
        calls: In how many calls it was an argument.
        results: In how many results it stood.
        said: In how many messages of the model.
        asked: In how many messages of the user.
        age: How long ago it last stood somewhere: 0 for the last message that is gone, 1 for the first, more for what
            an earlier ledger told.
        called: The same of the last call that used it; None when none did.
        order: Its place among those that an earlier ledger told; 0 when none did.
    """

    kind: Kind
    calls: int = 0
    results: int = 0
    said: int = 0
    asked: int = 0
    age: float = 0.0
    called: float | None = None
    order: float = 0.0

    def features(self, text: str) -> tuple[float, ...]:
        """What its score is made of."""
        return (
            1.0,
            math.log1p(self.calls),
            0.0 if self.called is None else math.exp(-2 * self.called),
            math.exp(-2 * self.age),
            math.exp(-8 * self.age),
            math.log1p(self.said),
            min(self.asked, 2),
            math.log1p(self.results),
            float(self.calls > 0),
            math.log(len(text)),
            self.order,
        )


def candidate_of(found: dict[str, Candidate], value: Value, age: float) -> Candidate:
    """What is known of a value, which now stands somewhere of this age; it is one of those that were found then."""
    known = found.get(value.text)
    if known is None:
        known = found[value.text] = Candidate(value.kind)
    known.age = age
    return known


_WEIGHTS = (-4.53, 0.46, 1.53, 1.05, 0.32, 0.3, -0.45, -0.22, 0.94, -0.06, -0.26)

_KINDS: Mapping[Kind, float] = {
    Kind.FILE: 1.19,
    Kind.SYMBOL: 0.08,
    Kind.PATH: -0.08,
    Kind.URL: -0.02,
    Kind.DATE: -0.51,
    Kind.NAME: -0.63,
    Kind.NUMBER: -0.94,
    Kind.EMAIL: -1.02,
    Kind.ID: -2.6,
    Kind.RULE: 2.0,
    Kind.ERROR: -1.0,
}
"""Fitted to half of many recorded sessions: what makes a value be used again (``benchmarks/retention.py``)."""

_DEARER = 0.5
"""How much less a value counts that takes more characters: this power of their number."""


def score(text: str, known: Candidate) -> float:
    """How much is won, for what it costs, when a value is told."""
    sum_ = sum(weight * each for weight, each in zip(_WEIGHTS, known.features(text), strict=True))
    return math.pow(len(text), -_DEARER) / (1 + math.exp(-sum_ - _KINDS.get(known.kind, 0.0)))


USED, SEEN, SAID, ERRORS = "used", "seen", "said by the user", "errors"
"""The lines of a ledger: what calls used, what else was there, what the user said, what went wrong."""


def value_lines(
    found: Mapping[str, Candidate], shown: Callable[[str], bool], tokens: int, counter: TokenCounter, redact: Redactor
) -> str:
    """The lines that tell values, of those that were found as many as fit, the likeliest first."""
    lines: dict[str, dict[str, int]] = {USED: {}, SEEN: {}, SAID: {}, ERRORS: {}}
    left = {name: int(_PARTS.get(name, 1) * tokens) for name in lines}
    room = tokens - counter.count(": \n".join(lines))
    taken = ""
    likeliest = nsmallest(_LOOKED_AT * tokens, found.items(), key=lambda each: (-score(*each), each[0]))
    for text, known in likeliest:
        if room <= 1:
            break
        if text in taken or shown(text) or redact(text, "") != text:
            continue
        name = {Kind.RULE: SAID, Kind.ERROR: ERRORS}.get(known.kind, USED if known.calls else SEEN)
        term = quoted(text)
        cost = counter.count(f" {term}")
        if cost <= min(room, left[name]):
            lines[name][term] = cost
            room, left[name], taken = room - cost, left[name] - cost, f"{taken}\n{text}"
            end = term
            while end := end.partition("/")[2]:  # a path names the paths that it ends with
                room += sum(line.pop(end, 0) for line in lines.values())
    while True:  # tokens of terms do not add up exactly
        written = "\n".join(f"{name}: {' '.join(terms)}" for name, terms in lines.items() if terms)
        if not written or counter.count(written) <= tokens:
            return written
        max(lines.values(), key=len).popitem()


_PARTS = {SAID: 0.25, ERRORS: 0.1}
"""The most of the room that sentences take: of the user, and of what went wrong."""

_LOOKED_AT = 8
"""So many values are looked at for each token of the room, so that many that are shown anyway cost little."""


def carried(text: str) -> Iterator[tuple[str, Candidate]]:
    """The values that a ledger tells, the likeliest first."""
    for line in text.splitlines():
        if (found := _LINE.fullmatch(line)) is not None:
            terms = [unquoted(each["term"]) for each in _TERM.finditer(found["terms"]) if each["term"]]
            for place, term in enumerate(terms):
                name, order = found["name"], (place + 1) / len(terms)
                if name in (SAID, ERRORS):
                    yield term, Candidate(Kind.RULE if name == SAID else Kind.ERROR, age=_CARRIED, order=order)
                    continue
                kind = next((value.kind for value in values_in(term) if value.text == term), Kind.OTHER)
                called = _CARRIED if name == USED else None
                yield term, Candidate(kind, calls=int(name == USED), age=_CARRIED, called=called, order=order)


_LINE = lazy_pattern(rf"(?P<name>{USED}|{SEEN}|{SAID}|{ERRORS}): (?P<terms>.+)")

_TERM = lazy_pattern(rf"(?P<term>{TERM})|{OPEN_QUOTE}")

_CARRIED = 1.3
"""The age of what an earlier ledger told."""


_READ = 1_000
"""So many characters of a text are read for each token that is told of it."""


def told_of(text: str, staying: str, tokens: int, counter: TokenCounter) -> str:
    """Exact values in a text that is cut, those first that are likeliest to be needed, in at most so many tokens.

    Args:
        text: The text.
        staying: What stays of it: what stands there is not told again.
        tokens: The room.
        counter: Counts tokens.

    Example:
        >>> from agentctx.strategies import told_of
        >>> from agentctx.tokens import TiktokenCounter
        >>> told_of("saved as src/app.py, commit 4c1f09d", "saved as ...", 30, TiktokenCounter())
        'src/app.py 4c1f09d'
    """
    found: dict[str, Candidate] = {}
    for value in values_in(redact_secrets(text[: _READ * tokens], "")):
        candidate_of(found, value, 0).results = 1
    told = value_lines(found, lambda value: value in staying, tokens, counter, redact_secrets)
    return told.removeprefix(f"{SEEN}: ")
