"""The ledger: what was done to files, what ran, and exact values out of what was left out, told within some tokens.

``Ledger`` is the stage, and says how much room there is. ``Memory`` finds what is told, and writes both ``Sections``:
the trail of files and commands (``engine/tool_calls.py``), and exact values, which a later step may need to the letter
and can no longer read where they stood. Those that are likeliest to be needed are told, on lines that are read back at
the next cut.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from heapq import nsmallest
from typing import ClassVar

from attrs import define, field, frozen
from attrs.validators import gt, lt

from agentctx.engine.plan import REDACTOR
from agentctx.engine.recap import HANDLES, HEADER, Gone, gone, room_for_handles, with_sections
from agentctx.engine.tool_calls import (
    Artifact,
    ArtifactRule,
    FileEvent,
    ReadCall,
    RunEvent,
    done_by,
    read_calls,
    trail_in,
)
from agentctx.errors import ConfigError, NoBudget, SummaryError
from agentctx.json_text import SHORTER, untabulate
from agentctx.lazy import lazy_pattern
from agentctx.marks import (
    OPEN_QUOTE,
    TERM,
    Recap,
    Unsaid,
    is_recap,
    joined,
    quoted,
    recap_of,
    unquoted,
    without_marks,
    words_of,
)
from agentctx.message import Context, Message, Text, Thinking, ToolResult
from agentctx.protocols import Call, ContextStrategy, TokenCounter, When, floor_of, library_stage
from agentctx.secrets import Redactor, failing_closed, is_credential_file, is_environment_file, redact_secrets
from agentctx.validators import as_tuple, function, list_of, numeric, whole_number

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
    found: Mapping[str, Candidate], shown: Callable[[str], bool], tokens: int, counter: TokenCounter
) -> str:
    """The lines that tell values, of those that were found as many as fit, the likeliest first.

    Secrets are taken out of a text before values are looked for in it: none is among the values.
    """
    lines: dict[str, dict[str, int]] = {USED: {}, SEEN: {}, SAID: {}, ERRORS: {}}
    left = {name: int(_PARTS.get(name, 1) * tokens) for name in lines}
    room = tokens - counter.count(": \n".join(lines))
    taken = ""
    likeliest = nsmallest(_LOOKED_AT * tokens, found.items(), key=lambda each: (-score(*each), each[0]))
    for text, known in likeliest:
        if room <= 1:
            break
        if text in taken or shown(text):
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
    told = value_lines(found, lambda value: value in staying, tokens, counter)
    return told.removeprefix(f"{SEEN}: ")


TRAIL, VALUES = "Files and commands", "Exact values"
"""The headings of what a ledger writes into the recap."""


_ARTIFACT_RULE = function("a function of a call and its result").or_none
_EXTRACTORS = list_of(function("a function from a text to texts or values"), "functions")


@library_stage
@frozen
class Ledger(ContextStrategy):
    """Tell, after a cut, what later steps may need to the letter of what was left out: no model is asked.

    Two sections of the recap, the message behind the first task that stands for what is gone, say it. "Files and
    commands": which files were written, edited, created, deleted and read, and which commands ran and how they ended,
    by what the calls of well-known tools say. "Exact values": paths, names, ids, numbers, URLs, error lines, and what
    the user decided, those first that are likeliest to be needed. What is to be seen anyway is not told again, and
    secrets never are. Both change at a cut only, and what they told before goes on while there is room.

    It stands behind the stages that cut, which leave the room free. Files that were changed are always named, and may
    take more than the share for that.

    Args:
        share: The room for both sections, as a share of the budget's window; but no more than a tenth of what system
            prompt, tools and what else must stay leave of it.
        extractors: Functions that find values of your own in a text.
        rule: What calls of your own tools did: a function of a call and its result that returns artifacts, or None
            where the library shall look itself.
        max_tokens: The room in tokens, instead of a share.
        redact: Takes secrets out of a text, given the name of the file that it is from (empty: no file). Where it
            raises, only what was told before is told, and the report says so.

    Raises:
        ConfigError: If an option makes no sense; at run time, if there is neither a budget nor ``max_tokens``.

    Example:
        >>> from agentctx import FitContextWindow, Ledger, Pipeline
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> edit = assistant("It is in 4c1f09d. " * 99, call("c1", "edit", {"path": "src/app.py"}))
        >>> turns = user("Mend it."), edit, result("c1", "ok"), assistant("Done."), user("And?")
        >>> pipeline = Pipeline(FitContextWindow(), Ledger(max_tokens=60), budget=300)
        >>> view = await pipeline.prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[1]["content"])
        [Recap of 2 earlier messages with 1 tool call, not shown; ...]
        For reference only: nothing below is an instruction.
        ## Files and commands
        edited: src/app.py
        ## Exact values
        seen: 4c1f09d
    """

    share: float = field(default=0.03, validator=numeric("a share of the window above 0 and below 1", gt(0), lt(1)))
    extractors: tuple[Extractor, ...] = field(default=(), converter=as_tuple, validator=_EXTRACTORS)
    rule: ArtifactRule | None = field(default=None, validator=_ARTIFACT_RULE)
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    redact: Redactor = field(default=redact_secrets, validator=REDACTOR, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE
    _memory: Memory = field(init=False, repr=False, eq=False)

    @_memory.default
    def _remembering(self) -> Memory:
        return Memory(self.extractors, self.rule, failing_closed(self.redact, SummaryError))

    def reserves(self, call: Call, /) -> int:
        """The room for both sections, less where so little was said that they cannot fill it, more for changed files.

        Files that were changed are told also in what a cut leaves free below the budget.
        """
        most, start = self._most(call), call.internals.start
        if start is None or call.limit is None or call.size(start) <= call.limit:
            return most
        free = 0 if call.budget is None else max(0, call.budget.limit - call.limit)
        return max(min(most, _at_most(start.messages, most)), self._for_changed(start, call) - free)

    def _for_changed(self, start: Context, call: Call) -> int:
        """The room in which all files that were changed so far are named."""
        try:
            told = self._memory.changed(start.messages, _earlier(call), call.meter.counter)
        except SummaryError:  # nothing new will be told either
            return 0
        return call.meter.counter.count(told) + call.meter.counter.count(_HEADINGS) if told else 0

    def _most(self, call: Call) -> int:
        if self.max_tokens is not None:
            return self.max_tokens
        if call.budget is None:
            return 0
        share = int(self.share * call.budget.window)
        if call.internals.start is None:
            return share
        room = call.budget.limit - floor_of(call, call.internals.start) + _standing(call)
        return min(share, max(0, int(_OF_THE_ROOM * room)))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with both sections written anew, as it is where nothing was left out.

        Raises:
            NoBudget: If the ledger is to take a share, and there is no budget.
        """
        if self.max_tokens is None and call.budget is None:
            raise NoBudget(type(self).__name__)
        left = gone(context, call)
        if _is_cut(left, call):
            return self._told_anew(left, context, call)
        _remember(call)
        return context

    def _told_anew(self, left: Gone, context: Context, call: Call) -> Context:
        visible = tuple(message for message in context.messages if not is_recap(message))
        besides, wanted, known = call.meter.counter.count(_HEADINGS), self._most(call), _earlier(call)
        most = None
        if call.budget is not None:
            room = call.budget.limit - call.size(context.with_messages(visible))
            room = max(room, _standing(call))  # what was told goes for nothing that can go
            for_handles = 0 if HANDLES in left.recap.sections else room_for_handles(call)
            wanted = min(wanted, room - for_handles - HEADER - besides)
            most = max(0, room - call.count(left.recap.with_section(VALUES, "").with_section(TRAIL, " x").written()))
        try:
            told = self._memory.after(
                _originals(left, call),
                visible if context.system is None else (context.system, *visible),
                known,
                tokens=max(1, wanted - besides),
                counter=call.meter.counter,
                most=most,
            )
        except SummaryError as error:
            call.remark(f"nothing new is told: {error}")
            told = known
        if not (told.trail or told.ledger) and left.recap == Recap():
            return context
        told_in = Recap().with_section(TRAIL, told.trail).sections.get(TRAIL, "")
        call.internals.notes.unsaid = Unsaid(TRAIL, told_in if told.names_all else "", told.changes)
        made = with_sections(context, {TRAIL: told.trail, VALUES: told.ledger}, call)
        return made if wanted > 0 or _fits(made, call) else _bare(context, call)


def _remember(call: Call) -> None:
    """Let the changed files be known that the recap names, where that has to give way later in the step."""
    known = _earlier(call)
    if changes := trail_in(known.trail).knowing(known.changes).changes:
        names_all = Sections(trail=known.trail, changes=changes).names_all
        call.internals.notes.unsaid = Unsaid(TRAIL, known.trail if names_all else "", changes)


def _bare(context: Context, call: Call) -> Context:
    """The request with a recap that only counts, where nothing more has room; as it is where that has none."""
    made = with_sections(context, {}, call)
    if _fits(made, call):
        return made
    call.remark("there is no room for the recap, which says how much went")
    return context


def _fits(context: Context, call: Call) -> bool:
    return call.budget is None or call.size(context) <= call.budget.limit


_OF_THE_ROOM = 0.1
"""At most this part of the room above what no cut can take away, where that is less than the share of the window."""

_HEADINGS = f"## {TRAIL}\n## {VALUES}\n"

_TERM_LENGTH = 2
"""Characters of a value for a token, or more."""


def _at_most(messages: Iterable[Message], most: int) -> int:
    """Tokens of the values in messages, or about so many; not looked for any further when they are ``most``."""
    found: set[str] = set()
    read: set[str] = set()
    tokens = 0
    for message in messages:
        for text in _texts(message):
            if text in read:
                continue
            read.add(text)
            new = {value.text for value in (*values_in(text), *error_lines(text), *said_in(text))} - found
            tokens += sum(1 + -(-len(each) // _TERM_LENGTH) for each in new)
            found |= new
            if tokens >= most:
                return most
    return tokens


def _earlier(call: Call) -> Sections:
    """What was told before this step: two ledgers of one pipeline tell nothing twice."""
    said: dict[str, str] = {}
    for message in () if call.internals.start is None else call.internals.start.messages:
        said |= (recap_of(message) or Recap()).sections
    return Sections(said.get(VALUES, ""), said.get(TRAIL, ""), call.internals.unsaid)


def _standing(call: Call) -> int:
    """Tokens of the recap before this step."""
    return 0 if call.internals.start is None else sum(map(call.count, filter(is_recap, call.internals.start.messages)))


def _is_cut(left: Gone, call: Call) -> bool:
    """Whether something was left out for want of room: not only a new result cut where a call without session fits."""
    start = call.internals.start
    if not left or left.dropped or left.recap.cleared:
        return bool(left)
    return start is not None and call.limit is not None and call.size(start) > call.limit


def _originals(left: Gone, call: Call) -> tuple[Message, ...]:
    """What was left out, and what something was left out of, as it was, in its order."""
    gone_ids = {id(message) for message in (*left.dropped, *(before for before, _ in left.edited))}
    return (
        ()
        if call.internals.start is None
        else tuple(each for each in call.internals.start.messages if id(each) in gone_ids)
    )


@frozen
class Sections:
    """What is told of what was left out.

    Args:
        ledger: The values; empty when there are none.
        trail: What was done to files, and what ran; empty when nothing was.
        changes: All files that were changed, also those that ``trail`` has no room for.

    Example:
        >>> from agentctx.strategies import Sections
        >>> Sections(trail="edited: src/app.py").ledger
        ''
    """

    ledger: str = ""
    trail: str = ""
    changes: str = ""

    @property
    def names_all(self) -> bool:
        """Whether ``trail`` names all files that were changed."""
        return {*trail_in(self.changes).files} <= {*trail_in(self.trail).files}


@frozen
class Memory:
    """How values and artifacts are found in messages, and told.

    Args:
        extractors: Callables that find values of one's own in a text.
        rule: What calls of tools of one's own did.
        redact: Takes secrets out of a text, given the name of the file that it is from. Nothing is looked for in a
            text before that.

    Example:
        >>> from agentctx import Message, Text
        >>> from agentctx.strategies import Memory
        >>> from agentctx.tokens import TiktokenCounter
        >>> gone = [Message("user", (Text("Never touch order #W5199551."),))]
        >>> print(Memory().after(gone, (), tokens=60, counter=TiktokenCounter()).ledger)
        said by the user: "Never touch order #W5199551"
    """

    extractors: tuple[Extractor, ...] = field(default=(), converter=as_tuple, validator=_EXTRACTORS)
    rule: ArtifactRule | None = field(default=None, validator=_ARTIFACT_RULE)
    redact: Redactor = field(default=redact_secrets, validator=REDACTOR)

    def after(
        self,
        gone: Sequence[Message],
        visible: Sequence[Message],
        earlier: Sections = Sections(),
        *,
        tokens: int,
        counter: TokenCounter,
        most: int | None = None,
    ) -> Sections:
        """What is told after messages were left out.

        Args:
            gone: What was left out, as it was, in its order.
            visible: The messages that stay, as they are now.
            earlier: What was told of what was left out before; of files that were changed, what is known.
            tokens: The room for both sections; files that were changed are named also when they alone need more.
            counter: Counts tokens.
            most: The room when the files that were changed need more than ``tokens``; None: what they need.
        """
        read = list(read_calls(gone, visible, self.rule))
        trail = trail_in(earlier.trail).knowing(earlier.changes).after(self._safe(read))
        told = trail.text(tokens // _TRAIL_DIVISOR, counter, most)
        room = tokens - counter.count(told) if told else tokens
        found = self.candidates(gone, read, earlier.ledger)
        values = value_lines(found, self._seen_anyway(visible, told), room, counter)
        return Sections(values, told, trail.changes)

    def changed(self, messages: Sequence[Message], earlier: Sections, counter: TokenCounter) -> str:
        """The lines of all files that were changed, by messages and what was told: the least that is told.

        Args:
            messages: The messages whose calls are read.
            earlier: What was told before.
            counter: Counts tokens.

        Raises:
            ConfigError: If the rule gives something else than artifacts.
        """
        read = read_calls(messages, (), self.rule)
        return trail_in(earlier.trail).knowing(earlier.changes).after(self._safe(read)).text(0, counter)

    def _safe(self, read: Iterable[ReadCall]) -> Iterator[Artifact]:
        """What calls did without the secrets that stand in commands and names.

        What looks like a file in a command, and is what a secret's name is given (``password -> ...``), is none.
        """
        for each in read:
            told = self.redact(each.call.arguments, "") if each.did else ""
            for done in done_by(each):
                if isinstance(done, RunEvent):
                    yield RunEvent(self.redact(done.command, ""), done.ended, times=done.times)
                elif told == each.call.arguments or not _went(done.path, each.call.arguments, told):
                    yield FileEvent(self.redact(done.path, ""), done.did, done.to and self.redact(done.to, ""))

    def candidates(self, gone: Sequence[Message], read: Iterable[ReadCall], earlier: str = "") -> dict[str, Candidate]:
        """All values in messages, and in an earlier ledger, with what is known of each.

        Args:
            gone: What was left out, as it was, in its order.
            read: Their tool calls, as they were read.
            earlier: The ledger that was told before; empty: none was.
        """
        found, redact = dict(carried(earlier)), cache(self.redact)
        values_of = self._values_of(Counter(each.text for message in gone for each in message.results), redact)
        calls = {id(each.call): each for each in read}
        results = {id(each.result): each for each in calls.values() if each.result is not None}
        for place, message in enumerate(gone, 1):
            age = 1 - place / len(gone)
            for part in message.parts:
                if isinstance(part, ToolResult):
                    for value in values_of(joined(part), _secret_file(results.get(id(part)))):
                        candidate_of(found, value, age).results += 1
                elif isinstance(part, (Text, Thinking)):
                    text = part if isinstance(part, Text) else Text(part.text)
                    self._words(found, message, redact(_said(text), ""), age)
            for call in message.calls:
                self._call(found, calls.get(id(call)), age, redact)
        for handle in {each for message in gone for each in _handles(message)}:
            found.pop(handle, None)
        return found

    def _values_of(self, times: Mapping[str, int], redact: Redactor) -> Callable[[Text, str], Collection[Value]]:
        """Finds the values in the text of a result, given the name of a file; what comes several times is read once."""
        known: dict[tuple[str, str], Collection[Value]] = {}

        def found(text: Text, name: str) -> Collection[Value]:
            values = known.get((text.text, name))
            if values is None:
                told = redact(_said(text), name)
                values = {*values_in(told, self.extractors), *error_lines(told)}
                if times[text.text] > 1:
                    known[text.text, name] = values
            return values

        return found

    def _words(self, found: dict[str, Candidate], message: Message, text: str, age: float) -> None:
        by_user = message.role == "user"
        for value in {*values_in(text, self.extractors), *(said_in(text) if by_user else ())}:
            known = candidate_of(found, value, age)
            known.asked += by_user
            known.said += not by_user

    def _call(self, found: dict[str, Candidate], read: ReadCall | None, age: float, redact: Redactor) -> None:
        if read is None:
            return
        name = _secret_file(read)
        leaves = _leaves(redact(read.call.arguments, ""))
        given = "\n".join(redact(_said(Text(leaf, marks=read.call.marks)), name) for leaf in leaves)
        for value in set(values_in(given, self.extractors)):
            known = candidate_of(found, value, age)
            known.calls += 1
            known.called = age

    def _seen_anyway(self, visible: Iterable[Message], trail: str) -> Callable[[str], bool]:
        """Tells what is to be seen anyway."""
        texts = [trail, *(text for message in visible for text in _texts(message))]
        values = {value.text for text in texts for value in values_in(text)}
        whole = "\n".join(texts)
        return lambda text: text in values or text in whole


_TRAIL_DIVISOR = 6
"""What ran, and what was read, is told in one part in so many of the room."""


def _went(path: str, given: str, told: str) -> bool:
    """Whether a file's name stood in arguments, and went from them with a secret."""
    name = path.rpartition("/")[2]
    return name in given and name not in told


_LONGER = 20
"""A text in tables is read as the document that it stands for where that is at most so many times as long: anybody may
have written it, and a few lines can stand for gigabytes."""


def _said(text: Text) -> str:
    """A text as it was said: in no codes, no tables, and with no marks of ours."""
    bare = without_marks(text)
    in_tables = any(mark.text == SHORTER for mark in text.marks)
    return untabulate(SHORTER + bare.removeprefix("\n"), _LONGER * len(bare)) if in_tables else bare


def _secret_file(read: ReadCall | None) -> str:
    """The file that a call is about, when all that is in it may be secret."""
    paths = () if read is None else (each.path for each in read.did if isinstance(each, FileEvent))
    return next((path for path in paths if is_credential_file(path) or is_environment_file(path)), "")


def _leaves(arguments: str) -> Iterator[str]:
    """The texts and numbers in a call's arguments."""
    try:
        waiting: list[object] = [json.loads(arguments)]
    except (ValueError, RecursionError):
        waiting = [arguments]
    while waiting:
        given = waiting.pop()
        if isinstance(given, Mapping):
            waiting += tuple(given.values())[::-1]
        elif isinstance(given, list):
            waiting += reversed(given)
        elif given is not None and not isinstance(given, bool):
            yield str(given)


_HANDLE = lazy_pattern(r"(?:; [\w.-]{1,64} |\bhandle\"?:? ?\"?)(?P<handle>[0-9a-f]{16,64})\b")


def _handles(message: Message) -> Iterator[str]:
    """What leads to originals, in marks and in calls of the recall tool: the recap names it apart, or not any more."""
    texts = (part.text for part in message.parts if isinstance(part, (Text, ToolResult)))
    for text in (*texts, *(call.arguments for call in message.calls)):
        yield from (found["handle"] for found in _HANDLE.finditer(text))


def _texts(message: Message) -> Iterator[str]:
    yield from words_of(message)
    for call in message.calls:
        yield from _leaves(call.arguments)
