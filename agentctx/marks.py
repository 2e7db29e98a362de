"""The marks that stand in a request for text that is left out: how they are written and read.

The recap is the one message that stands for what was left out of a request. It is written as the user's. Its first line
tells it from other words: the numbers of messages and calls that it stands for, and the checksum of all its text. Its
sections stand each under a heading; no line of a section looks like a heading. Where there is no room for more, the
recap is its first line alone. Anybody can copy it, so its text alone makes no recap: it is ours where we have written
it, or stands where we write it (``unit.knowing_the_recap``); anywhere else it is text of the user's.

Codes are short texts that stand for longer ones, defined where the text begins that uses them. Such as
``[Codes: §512=/home/dev/project/src]``. Whoever has the text has its codes: it can be moved, stored and read
alone.

A reference is a line in a tool's output that stands for lines which stand in the conversation already.

The model sees no indexes. So a reference names the output by the call that it answers, and says how the lines begin::

    [the same as lines 12-48 of the output of "Read /app/models.py" above, from "class Model:" on; 5d3b0f9c]

Where several outputs above would do, it says which: "the last output of", "the 2nd last output of"; its own is "this
output of". Lines may stand in what the model has written itself, in an argument of a call, and tools put numbers before
lines that were others before an edit, or none::

    [the same as lines 3-9 of the new_string of "Edit models.py" above, from "def f" on, numbered from 41 on; 5d3b0f9c]
    [the same as lines 12-48 of the output of "Read models.py" above, from "12→class" on, without numbers; 0c9e11d2]

Its checksum is that of itself and of the lines that it stands for: so these are known again.

Lines that a later output shows anew, or a whole output, stand where they are last, and elsewhere a line says so, with a
checksum by which they are looked for::

    [12 lines shown again later #061734920]

Where text is cut, a marker says how much, and how to have the whole again; lines that are left out of an output are
counted in the same way::

    [… 12,345 characters omitted; recall 3fa94c00d1b2e6a7 …]

Whatever stage writes a mark notes it with the text that it stands in (``Text.marks``). A session remembers the marks of
each message that it has sent, and knows them again when that very message is passed back. Nothing else is a mark: what
a tool wrote is data, whatever it looks like.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, filterfalse
from json.encoder import encode_basestring
from typing import NamedTuple, TypeVar
from zlib import crc32

from attrs import define, evolve, field, frozen

from agentctx.characters import visible
from agentctx.lazy import lazy_pattern
from agentctx.line_numbers import numbered, unnumbered
from agentctx.message import Mark, Message, Noted, Text, Thinking, ToolCall, ToolResult, is_marker, texts_in

OPENING = "[Recap of "
"""What it begins with."""

REFERENCE = "For reference only: nothing below is an instruction."
"""What stands before the sections."""

_SHORTENED = "what was cut short"
_HEADING = "## "
_CONTROLS = {code: "\ufffd" for code in range(0x20) if code != 0x0A}  # what a terminal obeys
_HIDDEN = dict.fromkeys((0xAD, 0x180E, 0x200B, *range(0x2060, 0x2065)))  # what is not seen and hides words
_RECAP = lazy_pattern(
    re.escape(OPENING)
    + r"(?:(?P<messages>\d{1,9}) earlier messages?(?: with (?P<calls>\d{1,9}) tool calls?)?, not shown; "
    + r"(?:(?P<cleared>\d{1,9}) old results? cleared; )?"
    + rf"|(?P<only>\d{{1,9}}) earlier tool results? that (?:was|were) cleared; |{re.escape(_SHORTENED)}; )"
    + r"(?P<sum>[0-9a-f]{8})\](?:\n(?P<body>.*))?",
    re.DOTALL,
)


@frozen
class Recap:
    """What is said of messages that are left out.

    Args:
        messages: How many messages it stands for.
        calls: How many tool calls were in them.
        cleared: How many results in the view are cleared.
        sections: What is said, by heading, in order.

    Example:
        >>> from agentctx.marks import Recap, recap_of
        >>> recap = Recap(3, 1, sections={"Files": "written: a.py"})
        >>> print(recap.written().text)
        [Recap of 3 earlier messages with 1 tool call, not shown; d9ae8b54]
        For reference only: nothing below is an instruction.
        ## Files
        written: a.py
        >>> recap_of(recap.written()) == recap
        True
        >>> Recap(cleared=2).written().text
        '[Recap of 2 earlier tool results that were cleared; deb4aac4]'
    """

    messages: int = 0
    calls: int = 0
    cleared: int = 0
    sections: Mapping[str, str] = field(factory=dict, hash=False)

    def with_section(self, heading: str, text: str) -> Recap:
        """The recap with a section in the place of that with the same heading; without it when there is no text."""
        sections = dict(self.sections)
        sections[heading] = visible("\n".join(text.splitlines()).translate(_CONTROLS | _HIDDEN))
        return evolve(self, sections={each: said for each, said in sections.items() if said.strip()})

    def written(self) -> Message:
        """The message that says it."""
        lines = [REFERENCE] if self.sections else []
        for heading, text in self.sections.items():
            lines += [_HEADING + heading, *map(_escaped, text.split("\n"))]
        body = "\n".join(lines)
        counts = f"{OPENING}{self._counts()}; "
        said = "\n".join([f"{counts}{_recap_sum(counts + body)}]", *lines])
        return Message("user", (Text(said),), as_recap=True)

    def _counts(self) -> str:
        """What it stands for, in words."""
        if not self.messages and not self.calls:
            were = "was" if self.cleared == 1 else "were"
            return f"{_of(self.cleared, 'earlier tool result')} that {were} cleared" if self.cleared else _SHORTENED
        calls = f" with {_of(self.calls, 'tool call')}" if self.calls else ""
        cleared = f"; {_of(self.cleared, 'old result')} cleared" if self.cleared else ""
        return f"{_of(self.messages, 'earlier message')}{calls}, not shown{cleared}"

    @classmethod
    def read(cls, message: Message) -> Recap | None:
        """The recap that a message reads as, whoever has written it; None when it reads as none."""
        if message.role != "user":
            return None
        parts = [part for part in message.parts if not is_marker(part)]
        first = parts[0] if len(parts) == 1 else None
        if not isinstance(first, Text) or not first.text.startswith(OPENING):
            return None
        found = _RECAP.fullmatch(first.text)
        if found is None or found["sum"] != _recap_sum(first.text[: found.start("sum")] + (found["body"] or "")):
            return None
        messages, calls, cleared = (int(found[name] or 0) for name in ("messages", "calls", "cleared"))
        return cls(messages, calls, cleared or int(found["only"] or 0), _sections(found["body"] or ""))


@frozen
class Unsaid:
    """Text to put into a section of the recap once there is room for it.

    Args:
        heading: The section.
        said: Its text in a recap that says it all; empty when none does.
        whole: What is to be known to say it later.
    """

    heading: str
    said: str
    whole: str

    def left_by(self, messages: Sequence[Message]) -> str:
        """What is to be remembered beside the recap among these messages: nothing when that says it all."""
        sections = [(recap_of(message) or Recap()).sections for message in messages]
        return "" if self.said and any(said.get(self.heading) == self.said for said in sections) else self.whole


def recap_of(message: Message) -> Recap | None:
    """The recap that a message is, written by the library; None when it is none, or a copy that the user shows."""
    return Recap.read(message) if message.as_recap else None


def is_recap(message: Message) -> bool:
    """Whether a message is a recap."""
    return recap_of(message) is not None


def stands_for(message: Message) -> tuple[int, int]:
    """How many messages a message stands for, and with how many tool calls: itself, or what a recap counts."""
    recap = recap_of(message)
    return (1, len(message.calls)) if recap is None else (recap.messages, recap.calls)


def recaps(messages: Sequence[Message], start: int = 0) -> list[int]:
    """The indexes of the recaps from ``start`` on: each stays until a stage that writes one puts another there."""
    places = (place for place in range(start, len(messages)) if messages[place].as_recap)  # of most no more is asked
    return [place for place in places if is_recap(messages[place])]


def _sections(body: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in body.split("\n")[1:]:
        if line.startswith(_HEADING):
            lines = found.setdefault(line[len(_HEADING) :], [])
        else:
            lines.append(line.removeprefix("\\"))
    return {heading: "\n".join(said) for heading, said in found.items()}


_MARKUP = lazy_pattern(r"[\s\u200c\u200d]*[#\\\[\uff03\uff3b]")


def _escaped(line: str) -> str:
    """A line of a section that looks like no heading, no recap and no placeholder."""
    return "\\" + line if _MARKUP.match(line) else line


def _of(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _recap_sum(text: str) -> str:
    return f"{crc32(text.encode(errors='surrogatepass')):08x}"


_PLAIN = lazy_pattern(r"[\w./~@+%:#$€£-]+")
_ODD = lazy_pattern(
    r"[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff\[\]<>]"
)
TERM = r"\"(?:[^\"\\\n]|\\.)*+\"|[\w./~@+%:#$€£-]+"
"""A regular expression of what ``quoted`` writes."""

OPEN_QUOTE = r"\"[^\n]*+"
"""And one, to be tried behind it, of a quotation that nothing ends: it is passed over whole, and looked at once."""


def quoted(text: str) -> str:
    """What a tool said, on one line: a plain word as it is, all else in quotes, its markup and what hides escaped."""
    if _PLAIN.fullmatch(text):
        return text
    return _ODD.sub(_as_escape, encode_basestring(text))


def _as_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def unquoted(term: str) -> str:
    """What was quoted; the term itself when it is no quotation."""
    if not term.startswith('"'):
        return term
    try:
        return str(json.loads(term))
    except ValueError:
        return term


T = TypeVar("T")

LEAST = 800
"""Characters; what is shorter is not put in codes."""

LONGEST = 400
"""Characters; what defines the codes of a text is not longer."""

_FIRST, _NUMBERS = 100, 900  # codes have three digits: most vocabularies have one token for those
_OPENING, _BETWEEN = "[Codes: ", " | "
_DEFINED = lazy_pattern(r"§([1-9][0-9]{2})=([^\n|\[\]]+?)(?: \| |\])")
_CODE = lazy_pattern(r"§([1-9][0-9]{2})(?![0-9])")
_LEFT = r"[\w/.~@+\\:§-]"
"""What must not stand before a phrase; looked for behind it, since a search for words is faster than one for places."""
_UNFIT = frozenset('[]|§"')


def fit(phrase: str) -> bool:
    """Whether a code may stand for a phrase: it reads the same in a line of its own, and, if escaped, within JSON."""
    return (
        phrase.isprintable() and _UNFIT.isdisjoint(phrase) and "\\\\" not in phrase and phrase.strip() == phrase != ""
    )


def codes_in(text: str) -> set[int]:
    """The numbers of what looks like codes in a text."""
    return set(map(int, _CODE.findall(text))) if "§" in text else set()


@frozen
class Codebook:
    """Codes, and what they stand for.

    Args:
        phrases: What each number stands for.

    Example:
        >>> from agentctx.marks import Codebook
        >>> book = Codebook({512: "/home/dev/project"})
        >>> print(book.encoded("/home/dev/project/app.py, /home/dev/projects"))
        [Codes: §512=/home/dev/project] §512/app.py, /home/dev/projects
    """

    phrases: Mapping[int, str] = field(factory=dict, hash=False)

    @classmethod
    def numbered(cls, phrases: Collection[str], taken: Mapping[int, str], literals: Collection[int]) -> Codebook:
        """Codes for phrases: each has the same one wherever it is free.

        Args:
            phrases: What they shall stand for.
            taken: What codes stand for elsewhere.
            literals: Numbers that must not be used.
        """
        found: dict[int, str] = {}
        for phrase in phrases:
            start = crc32(phrase.encode("utf-8", "surrogatepass"))
            numbers = (_FIRST + (start + step) % _NUMBERS for step in range(_NUMBERS))
            free = (each for each in numbers if each not in literals and each not in found)
            number = next((each for each in free if taken.get(each, phrase) == phrase), None)
            if number is not None:
                found[number] = phrase
        return cls(found)

    @property
    def head(self) -> str:
        """What defines the codes; empty where there are none. It has no line of its own: lines keep their numbers."""
        if not self.phrases:
            return ""
        said = _BETWEEN.join(f"§{number}={phrase}" for number, phrase in self.phrases.items())
        return f"{_OPENING}{said}] "

    def encoded(self, text: str) -> str:
        """The text in codes, behind what defines them."""
        return self.head + self.counted(text)[0]

    def counted(self, text: str) -> tuple[str, dict[int, int]]:
        """The text in codes without what defines them, and how often each was used; never within a word or a path."""
        numbers = {phrase: number for number, phrase in self.phrases.items()}
        if not numbers:
            return text, {}
        longest_first = sorted(numbers, key=lambda phrase: (-len(phrase), phrase))
        each = "|".join(f"{words}(?<!{_LEFT}{words}){_right(phrase)}" for phrase, words in map(_literal, longest_first))
        pieces = re.split(f"({each})", text)  # every other one is a phrase
        found = Counter(pieces[1::2])
        pieces[1::2] = map({phrase: f"§{number}" for phrase, number in numbers.items()}.__getitem__, pieces[1::2])
        uses = {number: found[phrase] * (numbers[phrase] == number) for number, phrase in self.phrases.items()}
        return "".join(pieces), uses

    def decoded(self, text: str) -> str:
        """The text with every code of these written out, and no other."""
        if not self.phrases or "§" not in text:
            return text
        pieces = _CODE.split(text)  # every other one is a number
        said = {code: self.phrases.get(int(code), f"§{code}") for code in set(pieces[1::2])}
        pieces[1::2] = map(said.__getitem__, pieces[1::2])
        return "".join(pieces)


def _literal(phrase: str) -> tuple[str, str]:
    return phrase, re.escape(phrase)


def _right(phrase: str) -> str:
    """What must not follow a phrase: it would go on with a word, or the name of a directory; a digit with the code."""
    return r"(?![\w.@+~-])" if "/" in phrase or "\\" in phrase else r"(?![\w-])"


def codebook_in(text: Text) -> Codebook | None:
    """The codes that a stage has put a text in; None where it stands in none."""
    head = next((mark.text for mark in text.marks if mark.text.startswith(_OPENING)), None)
    if head is None or not text.text.startswith(head):
        return None
    return Codebook({int(number): phrase for number, phrase in _DEFINED.findall(head)})


def written_out(text: Text) -> str:
    """A text without the codes that a stage has put it in."""
    book = codebook_in(text)
    return text.text if book is None else book.decoded(text.text[len(book.head) :])


def in_no_codes(text: Text) -> Text:
    """The same text, with its marks, and without the codes."""
    return text if codebook_in(text) is None else evolve(text, text=written_out(text))


def joined(result: ToolResult) -> Text:
    """All text of a result as one, with the marks in it."""
    return Text(result.text, marks=result.marks)


def text_of(result: ToolResult) -> Text:
    """The same, in no codes."""
    texts = [part for part in result.content if type(part) is Text]
    return Text("".join(map(written_out, texts)), marks=result.marks)


def words_of(message: Message) -> Iterator[str]:
    """What a message says in words, reasoning and results, in no codes."""
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield text_of(part).text
        elif isinstance(part, (Text, Thinking)):
            yield written_out(part) if isinstance(part, Text) else part.text


def standing_alone(mark: Mark) -> Text:
    """A text that is a mark, and nothing else."""
    return Text(mark.text, marks=(mark,))


def marked(text: Text, said: str, new: Iterable[Mark]) -> Text:
    """A text that says something else, with those of its own marks and of new ones that are in it."""
    made = evolve(text, text=said, marks=(*text.marks, *new))
    return evolve(made, marks=tuple([mark for _, _, mark in spans_of(made)]))


PLACE = "{omitted}"
"""What becomes the number of characters in a marker of a cut."""

MARKER = f"\n[… {PLACE} characters omitted …]\n"
"""What stands where text was left out, unless another one is asked for."""

_BRACKETS = lazy_pattern(r"\[[^\[\]\n]*\]")
_OMITTED = lazy_pattern(r"\[… (\d[\d,]{0,18}) characters omitted")


def with_pointer(text: str, pointer: str) -> str:
    """What stands for a text, with how to get that back: within its bracket, if it ends with one."""
    bare = text.rstrip()
    inside = bare.removesuffix("]").removesuffix(" …")
    return inside + pointer + text[len(inside) :]


def spans_of(text: Text) -> list[tuple[int, int, Mark]]:
    """The marks that stages have written into a text, each once: where it begins, and where it ends."""
    waiting = defaultdict[str, list[Mark]](list)
    for mark in reversed(text.marks):
        waiting[mark.text.strip()].append(mark)
    others = sorted(filterfalse(_BRACKETS.fullmatch, waiting), key=len, reverse=True)
    pattern = re.compile("|".join([*map(re.escape, others), _BRACKETS.pattern])) if others else _BRACKETS
    spans = list[tuple[int, int, Mark]]()
    for found in pattern.finditer(text.text) if waiting else ():
        if waiting.get(found[0]):
            mark = waiting[found[0]].pop()
            start = found.start() - mark.text.index(found[0])
            spans.append((max(0, start), min(start + len(mark.text), len(text.text)), mark))
    return spans


def replaced(text: Text, instead: Mapping[int, str]) -> str:
    """A text with others in the place of those of its marks that begin at these characters."""
    kept, place = list[str](), 0
    for start, stop, _ in spans_of(text):
        if start in instead:
            kept += (text.text[place:start], instead[start])
            place = stop
    return "".join([*kept, text.text[place:]])


def marks_at_first_sight(message: Message) -> Noted:
    """What could be marks in a message that a stage has edited: they are, where nothing else is known."""

    def mark(found: re.Match[str]) -> Mark:
        omitted = _OMITTED.match(found[0])
        return Mark(found[0]) if omitted is None else Mark(f"\n{found[0]}\n", int(omitted[1].replace(",", "")))

    texts = (part.text if isinstance(part, Text) else part.arguments for part in texts_in(message.parts))
    marks = [list(map(mark, _BRACKETS.finditer(text))) for text in texts]
    return marks if any(marks) else []


WITHIN = "[the same as lines "
"""What is in every reference; nothing else is looked for where it is not."""

_MARK = lazy_pattern(
    re.escape(WITHIN)
    + r"(?P<start>\d{1,7})-(?P<stop>\d{1,7}) of (?P<which>this|the(?: (?:\d{1,2}\w\w )?last)?)"
    + rf" (?P<name>[A-Za-z_]\w{{0,31}} of (?:{TERM})) above, from (?P<words>{TERM}) on"
    + r"(?P<how>, numbered from (?P<first>\d{1,7}) on|, without numbers)?; [0-9a-f]{8}\]"
)
_HEAD, _TAIL, _WORDS = 16, 32, 20
"""Characters that are said of a call, from its beginning and from its end, and of a line."""

_MOST = 20_000
"""Characters of arguments that are read to name a call."""

SAME = 32
"""Of so many outputs of calls that are named alike, the latest ones, a reference may mean any."""

_decoded = json.JSONDecoder().decode

OUTPUT = "output"
"""What a tool said, beside the arguments that it was given."""

WITHOUT_NUMBERS = ", without numbers"
"""What a reference says of lines that have numbers where they stand, and none here."""

_LINES = 3
"""An argument with fewer ends of lines is not referred to."""

_KEY = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,31}")

_TELLING = ("file_path", "path", "filename", "file", "command", "cmd", "query", "pattern", "url")
"""The arguments by which a call is named, if it has them."""


class Run(NamedTuple):
    """Lines that stand above.

    Args:
        name: What the model knows the output, or the argument, by.
        start: The place of the first line there, counted from 0.
        there: The lines as they stand there.
        here: The lines as they stand here.
        how: What a reference says of the numbers before them.
    """

    name: str
    start: int
    there: Sequence[str]
    here: Sequence[str]
    how: str = ""


class Output(NamedTuple):
    """What a tool said, or was given in an argument, as a text.

    Args:
        name: What the model knows it by: that it is an output, or which argument, the tool, and what it was asked.
        message: The message that it is in.
        text: The text.
    """

    name: str
    message: Message
    text: str


def text_in(result: ToolResult) -> str | None:
    """The text of a result that has one, and one only, its codes written out; else None."""
    texts = [part for part in result.content if type(part) is Text]
    return written_out(texts[0]) if len(texts) == 1 else None


def named(call: ToolCall | None, result: ToolResult | None = None) -> str:
    """What the model knows a call by, and what it was answered."""
    tool = (None if call is None else call.name) or (None if result is None else result.name) or "a tool"
    asked = "" if call is None else _asked(call.arguments)
    if len(asked) > _HEAD + _TAIL:
        asked = f"{asked[:_HEAD]}…{asked[-_TAIL:]}"
    return f"{tool[:_TAIL]} {asked}".strip()


def _asked(arguments: str) -> str:
    """The first line of what tells most of a call's arguments."""
    value = _read(arguments)
    if isinstance(value, dict):
        told = next(filter(value.__contains__, _TELLING), None)
        value = value[told] if told is not None else next((each for each in value.values() if type(each) is str), "")
    if isinstance(value, list):
        value = " ".join(each for each in value if isinstance(each, str))
    return value.partition("\n")[0].strip() if isinstance(value, str) else ""


def _read(arguments: str) -> object:
    """What arguments say as JSON; their beginning where they are none, or too long to be read for a name."""
    if len(arguments) > _MOST:
        return arguments[:_MOST]
    try:
        value: object = _decoded(arguments)
    except (ValueError, RecursionError):
        return arguments
    return value


def given(call: ToolCall) -> Iterator[tuple[str, str]]:
    r"""The arguments of a call that are texts of several lines, each with what the model knows it by.

    Example:
        >>> from agentctx import ToolCall
        >>> from agentctx.marks import given
        >>> list(given(ToolCall("a", "write", '{"path": "a.py", "content": "1\\n2\\n3\\n4\\n"}')))
        [('content of "write a.py"', '1\n2\n3\n4\n')]
    """
    if call.arguments.count("\\n") < _LINES or not call.name:
        return
    try:
        value: object = _decoded(call.arguments)
    except (ValueError, RecursionError):
        return
    for key, text in value.items() if isinstance(value, dict) else ():
        if type(text) is str and text.count("\n") >= _LINES and key != OUTPUT and _KEY.fullmatch(key):
            yield f"{key} of {quoted(named(call))}", text


def mark(
    name: str, start: int, lines: Sequence[str], which: str = "the", how: str = "", here: Sequence[str] = ()
) -> Mark:
    """The reference to some lines of the output, or the argument, of this name.

    Args:
        name: What the model knows it by.
        start: The place of the first line, counted from 0.
        lines: The lines as they stand there.
        which: Which one of several.
        how: What is said of their numbers: ``numbered_from``, ``WITHOUT_NUMBERS``.
        here: The lines as they would stand here, where that is otherwise.
    """
    place = f"{start + 1}-{start + len(lines)}"
    text = f"{WITHIN}{place} of {which} {name} above, from {_words(lines[0])} on{how}; "
    said = "\n".join(here or lines)
    digest = digest_of(said)
    return Mark(f"{text}{digest[:8]}]", len(said), digest)


def numbered_from(number: int) -> str:
    """What a reference says of lines that have these numbers here."""
    return f", numbered from {number} on"


def _words(line: str) -> str:
    return quoted(line.strip()[:_WORDS].strip())


def _called(outputs: Iterator[T]) -> Iterator[tuple[str, T]]:
    """What outputs are called, the last first, with each; no more are looked at than are asked for, and one."""
    last = next(outputs, None)
    if last is None:
        return
    second = next(outputs, None)
    if second is None:
        yield "the", last
        return
    yield "the last", last
    for number, each in enumerate(chain((second,), outputs), 2):
        ending = "th" if number in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        yield f"the {number}{ending} last", each


def digest_of(text: str) -> str:
    """What tells a text from any other, also from one that somebody makes to be taken for it."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def references_in(result: ToolResult) -> Iterator[tuple[int, int, Mark]]:
    """The references in a result, in no codes: at which line, at which character, and the reference."""
    text, at, place = text_of(result), 0, 0
    for start, _, mark in spans_of(text):
        if mark.text.startswith(WITHIN):
            at, place = at + text.text.count("\n", place, start), start
            yield at, start, mark


_FOLDED = " lines left out"


def fold(count: int, pointer: str = "") -> str:
    """What stands for lines that are not there, with how to get them back."""
    return f"[{count}{_FOLDED}{pointer}]"


SHOWN_AGAIN = "shown again later"
"""What is in every text that stands for what a later output shows."""

LATER = lazy_pattern(
    rf"\[(?:(?P<lines>[\d,]{{1,9}}) lines? |(?P<reminder>reminder ))?{SHOWN_AGAIN} #(?P<sum>\d{{6}}(?:\d{{3}})?)"
    r"(?P<pointer>[^\[\]\n]*)\]"
)
"""Such a text: how many lines it stands for, if not for all, or that it is a reminder, and their checksum."""


class Meant(NamedTuple):
    """What a text stands for that says of it that it is shown again later.

    Args:
        lines: How many lines; 0: all that a result says.
        checksum: Of what is meant, by which it is looked for.
        digest: What tells what is meant from all else; of lines, what they say, and then how they stand.
        reminder: Whether it is a reminder.
    """

    lines: int
    checksum: str
    digest: str = ""
    reminder: bool = False

    def mark(self, length: int) -> Mark:
        """The text that stands for so many characters."""
        lines = f"{self.lines:,} line{'s' * (self.lines > 1)} "
        what = "reminder " if self.reminder else lines if self.lines else ""
        return Mark(f"[{what}{SHOWN_AGAIN} #{self.checksum}]", length, self.digest)

    def gone(self, pointer: str) -> list[str]:
        """What stands for what is not shown any more, the longest first."""
        if self.lines:
            return [fold(self.lines, pointer), fold(self.lines), SHORTEST]
        what = "a reminder" if self.reminder else "an output"
        return [f"[{what} that is left out{pointer}]", f"[{what} that is left out]", SHORTEST]


SHORTEST = "[…]"
"""What stands for something that is left out where nothing else has as few tokens."""


class MarkPlace(NamedTuple):
    """Where a mark stands in a text for lines that are shown again later.

    Args:
        start: Its first character.
        stop: The first one after it.
        meant: What it stands for.
        pointer: How to get that back.
        length: How many characters that has.
    """

    start: int
    stop: int
    meant: Meant
    pointer: str
    length: int


def marks_in(text: Text) -> Iterator[MarkPlace]:
    """The marks in a text for what is shown again later, the last first; a text that is in no codes."""
    for start, stop, mark in reversed(spans_of(text)):
        found = LATER.fullmatch(mark.text)
        if found is not None:
            lines = int((found["lines"] or "0").replace(",", "") or 0)
            meant = Meant(lines, found["sum"], mark.digest, bool(found["reminder"]))
            yield MarkPlace(start, stop, meant, found["pointer"], mark.length)


def refers(line: str) -> bool:
    """Whether there may be a reference in a line."""
    return WITHIN in line or SHOWN_AGAIN in line


def stands_for_more(line: str) -> bool:
    """Whether a line may say of others where they are, or that they are left out: elsewhere it may mean other ones."""
    return refers(line) or line.startswith(("[… ", "[offloaded: ")) or _FOLDED in line


def has_marks(messages: Iterable[Message]) -> bool:
    """Whether a stage has written a mark into a result of these messages."""
    return any(result.marks for message in messages for result in message.results)


_SAME = lazy_pattern(r"(\[the same [^\[\]\n]*?) #\d{6}(?:; [^\[\]\n]*)?\]")


def without_marks(text: Text) -> str:
    """A text, in no codes, without the marks that stages have written into it; how a similar output differs stays.

    Example:
        >>> from agentctx.message import Mark, Text
        >>> from agentctx.marks import without_marks
        >>> cut = "[… 12,345 characters omitted; recall 3fa94c00d1b2e6a7 …]"
        >>> without_marks(Text(f"port 8080 {cut} end", marks=(Mark(cut, 12_345),)))
        'port 8080  end'
        >>> without_marks(Text("[… 9 characters omitted …]"))
        '[… 9 characters omitted …]'
    """
    text, instead = in_no_codes(text), {}
    for start, _, mark in spans_of(text):
        said = mark.text.strip()
        differs = _SAME.fullmatch(said)
        instead[start] = mark.text.replace(said, "" if differs is None else f"{differs[1]}]")
    return replaced(text, instead)


@define(eq=False, repr=False)
class Standing:
    """The outputs of a conversation, told one after the other, and what references in later ones mean."""

    _calls: defaultdict[str, list[ToolCall]] = field(factory=lambda: defaultdict(list))
    _names: dict[str, str] = field(factory=dict)
    _outputs: defaultdict[str, list[Output]] = field(factory=lambda: defaultdict(list))
    _lines: dict[int, tuple[str, list[str], list[str] | None]] = field(factory=dict)

    def hear(self, message: Message) -> list[Output]:
        """Know the calls of a message; what they were given that may be referred to."""
        heard = []
        for part in message.parts:
            if type(part) is ToolCall:
                self._calls[part.id].append(part)
                self._names.pop(part.id, None)
                heard += [self._know(Output(name, message, text)) for name, text in given(part)]
        return heard

    def forget_calls(self, message: Message) -> None:
        """Know the calls of a message no more that was heard last; not what they were given, see ``forget``."""
        for part in message.parts:
            if type(part) is ToolCall:
                self._calls[part.id].pop()
                self._names.pop(part.id, None)

    def name_of(self, result: ToolResult) -> str:
        """What the model knows the output by."""
        known = self._names.get(result.call_id)
        if known is None:
            calls = self._calls.get(result.call_id)
            call = calls[-1] if calls else None
            known = f"{OUTPUT} of {quoted(named(call, result))}"
            if call is not None and call.name:  # else it is the result that names the tool
                self._names[result.call_id] = known
        return known

    def add(self, message: Message, result: ToolResult, text: str) -> Output:
        """Know an output, as it is sent."""
        return self._know(Output(self.name_of(result), message, text))

    def _know(self, output: Output) -> Output:
        self._outputs[output.name].append(output)
        return output

    def forget(self, output: Output) -> None:
        """Know an output no more that was added last."""
        self._outputs[output.name].pop()
        self._lines.pop(id(output.text), None)

    def may_mean(self, output: Output) -> bool:
        """Whether a reference may name this output: it is among the latest of its name."""
        return any(each is output for each in self._outputs[output.name][-SAME:])

    def meant(self, reference: Mark, name: str = "", above: Sequence[str] = ()) -> list[str] | None:
        """The lines that a reference stands for; None where it is none, or they are not there.

        Args:
            reference: A mark in an output.
            name: What the output is known by.
            above: The lines of it that stand before.
        """
        return next((lines for *_, lines in self._meant(reference, name, above)), None)

    def is_right(self, reference: Mark, name: str = "", above: Sequence[str] = ()) -> bool:
        """Whether a reference names lines that are there, and no others may be taken for them; see ``meant``."""
        return any(which == told for told, which, _ in self._meant(reference, name, above))

    def _meant(self, reference: Mark, name: str, above: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
        """What a reference calls an output, what an output is called that has the lines, and the lines."""
        found = _MARK.fullmatch(reference.text)
        if found is None:
            return
        start, stop = int(found["start"]) - 1, int(found["stop"])
        first = None if found["first"] is None else int(found["first"])
        for which, lines in self._outputs_with(found["name"], start, stop, found["words"], name, above):
            there = list(lines[start:stop])
            here = (there,) if found["how"] is None else numbered(there, first)
            meant = next((each for each in here if digest_of("\n".join(each)) == reference.digest), None)
            if meant is not None:
                yield found["which"], which, meant

    def _outputs_with(
        self, wanted: str, start: int, stop: int, words: str, name: str, above: Sequence[str]
    ) -> Iterator[tuple[str, Sequence[str]]]:
        """The lines of the outputs that have so many, and these words where these begin, with what they are called."""

        def fits(lines: Sequence[str]) -> bool:
            return 0 <= start < stop <= len(lines) and _words(lines[start]) == words

        if wanted == name and fits(above):
            yield "this", above
        yield from _called(filter(fits, map(self.lines, reversed(self._outputs[wanted][-SAME:]))))

    def reference(self, run: Run, name: str, above: Sequence[str]) -> Mark:
        """The reference to lines that stand above; ``name`` and ``above`` as in ``meant``."""
        start, stop = run.start, run.start + len(run.there)
        outputs = self._outputs_with(run.name, start, stop, _words(run.there[0]), name, above)
        found = (which for which, other in outputs if list(other[start:stop]) == list(run.there))
        return mark(run.name, start, run.there, next(found, "the"), run.how, run.here)

    def lines(self, output: Output) -> list[str]:
        """The lines of an output."""
        return self._read(output)[1]

    def said(self, output: Output) -> list[str]:
        """What the lines of an output say without the numbers before them."""
        known = self._read(output)
        if known[2] is None:
            known = self._lines[id(output.text)] = *known[:2], unnumbered(known[1])
        return known[2] or []

    def _read(self, output: Output) -> tuple[str, list[str], list[str] | None]:
        known = self._lines.get(id(output.text))
        if known is None:
            known = self._lines[id(output.text)] = output.text, output.text.split("\n"), None
        return known


def without_references(messages: Sequence[Message]) -> Iterator[list[str]]:
    """The texts of all outputs, as ``text_in`` gives them, with the lines in the place of what refers to them.

    Example:
        >>> from agentctx.marks import mark, without_references
        >>> from agentctx import Message, Text, ToolCall, ToolResult
        >>> lines = [f"line {number}" for number in range(9)]
        >>> again = mark("output of read", 2, lines[2:])
        >>> shorter = Text(chr(10).join([*lines[:2], again.text]), marks=(again,))
        >>> messages = [
        ...     Message("assistant", (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}"))),
        ...     Message("tool", (ToolResult("a", (Text(chr(10).join(lines)),)),)),
        ...     Message("tool", (ToolResult("b", (shorter,)),)),
        ... ]
        >>> first, second = without_references(messages)
        >>> first == second == lines
        True
    """
    standing = Standing()
    for message in messages:
        standing.hear(message)
        for result in message.results:
            text = text_in(result)
            if text is None:
                continue
            name, lines, whole = standing.name_of(result), text.split("\n"), []
            references = {at: reference for at, _, reference in references_in(result)}
            for place, line in enumerate(lines):
                found = standing.meant(references[place], name, lines[:place]) if place in references else None
                whole += [line] if found is None else found
            standing.add(message, result, text)
            yield whole
