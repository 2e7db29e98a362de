"""The layers by which other systems compress, each only where it saves tokens and loses nothing unsaid.

What a result says often may have a code: directories that many paths begin with, phrases of a dictionary, and words
that stand in the text again and again.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain, islice

from attrs import evolve, field, frozen

from agentctx.engine.shrink import edit_results
from agentctx.json_text import compact, is_json, may_be_json
from agentctx.lazy import lazy_pattern
from agentctx.marks import LEAST, LONGEST, Codebook, codebook_in, codes_in, fit, marked, with_pointer, written_out
from agentctx.message import Context, Mark, Message, Part, Text, ToolResult, texts_in
from agentctx.protocols import Call, TokenCounter, library_stage
from agentctx.reports import View
from agentctx.strategies.fit import RewriteResults
from agentctx.validators import TEXTS, TRUTH, whole_number

DICTIONARY = (
    "parameters",
    "content",
    "successfully",
    "error",
    "null",
    "string",
    "object",
    '"additionalProperties": false',
    "No such file or directory",
    "Permission denied",
    "Traceback (most recent call last):",
    "During handling of the above exception, another exception occurred:",
)
"""Words and phrases that tools often say. A code costs more tokens than most of them, and is not used then."""

_FEWEST = 10
"""Lines; ``observation`` leaves no fewer."""

JSON_LAYER = "JSON without blanks (not reversible)"


@library_stage
@frozen
class CompressLayers(RewriteResults):
    r"""Say what tools said in fewer tokens, by any of the layers of systems that compress whole requests.

    A layer is used on a result only where the counter says that the message has fewer tokens then, all that explains
    it included. Code, diffs, YAML, Markdown tables and base64 are left alone. Results that come in several texts, and
    what others have cut, stay. Put it before stages that cut: they write the codes out.

    Three layers put in codes what a result says often: ``[Codes: §512=/home/dev/project/src]`` stands at
    the beginning of the result that uses them, so it needs nothing else to be read and never moves the prefix. They
    lose nothing: ``decompress`` gives back the very text, and decodes what a model writes in codes.

    Args:
        json: Whether JSON is said without blanks between its tokens, as ``CompactJson`` does. Not reversible from the
            text, and the same values: the original is in the store.
        dictionary: Phrases that may have a code wherever they stand; none: ``()``.
        paths: Whether directories may have one that many paths begin with.
        codebook: Whether words may that are repeated within a result.
        whitespace: Whether blanks at the ends of lines go, and empty lines beyond one. Not reversible from the text:
            the original is in the store.
        observation: The most lines of a result: both ends stay, and between them lines that tell of errors. Not
            reversible from the text.
        deduplicate: Whether a message of the assistant goes that says, without calls or reasoning, exactly what one
            before it said, where it stands right behind a message of the assistant. Not reversible from the text.
        exclude: Names of tools whose results stay, such as one by which the model reads a file that it then edits.

    Raises:
        ConfigError: If ``dictionary`` holds no texts, or ``observation`` is no whole number of at least 10.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import CompressLayers
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> hits = "".join(f"/home/dev/projects/compiler/src/part{n}.py:{n}: unused\n" for n in range(30))
        >>> turns = user("Find it."), assistant(call("a", "grep")), result("a", hits)
        >>> view = await Pipeline(CompressLayers()).prepare(transcript("openai-chat", *turns))
        >>> print("\n".join(view.messages[2]["content"].splitlines()[:2]))
        [Codes: §385=/home/dev/projects/compiler/src] §385/part0.py:0: unused
        §385/part1.py:1: unused
    """

    json: bool = field(default=True, validator=TRUTH, kw_only=True)
    dictionary: Collection[str] = field(default=DICTIONARY, validator=TEXTS, kw_only=True)
    paths: bool = field(default=True, validator=TRUTH, kw_only=True)
    codebook: bool = field(default=True, validator=TRUTH, kw_only=True)
    whitespace: bool = field(default=False, validator=TRUTH, kw_only=True)
    observation: int | None = field(default=None, validator=whole_number(_FEWEST).or_none, kw_only=True)
    deduplicate: bool = field(default=False, validator=TRUTH, kw_only=True)

    def concerns_text(self, text: str, /) -> bool:
        """Whether it is long enough for codes, or another layer might find something."""
        return (
            len(text) >= LEAST or (self.json and may_be_json(text)) or self.whitespace or self.observation is not None
        )

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with results in fewer tokens."""
        frozen, stay = call.frozen(context), self.excluded(context)
        whole = call.internals.whole(context).messages
        taken = defined_in(whole[: len(whole) - len(context.messages)])
        messages = list(context.messages)
        for at, message in enumerate(context.messages):
            if at not in frozen and message.results:
                messages[at] = self._message(message, stay, call, taken)
                taken |= defined_in((messages[at],))
        after = context.with_messages(tuple(messages))
        return self._said_once(after, whole, call) if self.deduplicate else after

    def _message(self, message: Message, stay: Collection[int], call: Call, taken: Mapping[int, str]) -> Message:
        used: dict[str, None] = {}

        def shorter(result: ToolResult) -> ToolResult:
            only = result.content[0] if len(result.content) == 1 else None
            if id(result) in stay or not isinstance(only, Text) or not self.concerns_text(only.text):
                return result
            made, layers = self._layered(only, lambda: call.pointer(message, result), call, taken)
            used.update(dict.fromkeys(layers))
            if layers == [JSON_LAYER] and call.wire is not None and call.wire.is_object(only):
                return result  # the blanks are not sent
            return result.with_content((made,)) if layers else result

        made = edit_results(message, shorter)
        if made is message or call.count(made) >= call.count(message):
            return message
        call.note(message, f"said in fewer tokens: {', '.join(used)}")
        return made

    def _layered(
        self, part: Text, pointer: Callable[[], str], call: Call, taken: Mapping[int, str]
    ) -> tuple[Text, list[str]]:
        """A text by each layer that saves, and what these are called."""
        text = part.text
        if not text or codebook_in(part) is not None:
            return part, []
        used: list[str] = []
        new: list[Mark] = []

        def tried(layer: str, made: str) -> str:
            if made == text or not made.strip() or call.meter.counter.count(made) >= call.meter.counter.count(text):
                return text
            used.append(layer)
            return made

        if may_be_json(text):
            text = tried(JSON_LAYER, compact(text) if self.json else text)
        elif (self.whitespace or self.observation is not None) and not left_alone(text):
            text = tried("whitespace (not reversible)", tidied(text) if self.whitespace else text)
            if self.observation is not None and text.count("\n") >= self.observation:
                shorter, marks = folded(text, self.observation, pointer())
                text = tried("observation (not reversible)", shorter)
                new += marks
        options = {"paths": self.paths, "codebook": self.codebook}
        coded = compress(
            marked(part, text, new), call.meter.counter, dictionary=self.dictionary, taken=taken, **options
        )
        tried("codes", coded.text)
        return coded, used

    def _said_once(self, context: Context, whole: Sequence[Message], call: Call) -> Context:
        """The context without what the assistant said before, where a message of its own stands right before."""
        protected, hidden = call.protected(context), len(whole) - len(context.messages)
        said: set[tuple[Part, ...]] = set()
        kept: list[Message] = []
        last: Message | None = None
        for index, message in enumerate(chain(whole[:hidden], context.messages), -hidden):
            plain = _is_plain(message)
            behind = plain and last is not None and _is_plain(last)
            if behind and index >= 0 and index not in protected and message.parts in said:
                call.note(message, "the assistant has said it before")
                continue
            if plain:
                said.add(message.parts)
            last = message
            if index >= 0:
                kept.append(message)
        return context.with_messages(tuple(kept))


def _is_plain(message: Message) -> bool:
    """Whether the assistant says something in words only."""
    return message.role == "assistant" and all(isinstance(part, Text) for part in message.parts)


_EMPTY = lazy_pattern(r"\n{3,}")


def tidied(text: str) -> str:
    """A text without blanks at the ends of lines, but for two, which break a line in Markdown; at most one empty line.

    What stands before a word or between words stays: it may be what matters.
    """
    bare = "\n".join(map(_without_end, text.split("\n")))
    return _EMPTY.sub("\n\n", bare)


def _without_end(line: str) -> str:
    bare = line.rstrip(" \t\r")
    return line if line[len(bare) :] == "  " else bare


_TELLING = 5
"""Of so many lines that stay one may be from between the ends."""

_MARKER = "[… {omitted} lines omitted …]"
_TELLS = lazy_pattern(r"(?i)error|exception|fail|fatal|denied|refused|timed? ?out|invalid|panic|exit (?:code|status)")


def folded(text: str, most: int, pointer: str = "") -> tuple[str, list[Mark]]:
    """A text in at most so many lines, and the marks in it: both its ends, and lines between that tell of errors."""
    lines = text.split("\n")
    if len(lines) <= most:
        return text, []
    telling = most // _TELLING
    tail = (most - 2 * telling - 1) // 2
    head = most - 2 * telling - 1 - tail
    between = range(head, len(lines) - tail)
    kept = {*_telling(lines, between, telling - telling // 2), *_telling(lines, between[::-1], telling // 2)}
    said, gap, marks = lines[:head], 0, list[Mark]()
    for at in (*range(head, len(lines) - tail), None):
        if at is not None and at not in kept:
            gap += 1
            continue
        if gap:
            said.append(with_pointer(_MARKER.replace("{omitted}", f"{gap:,}"), pointer))
            marks.append(Mark(said[-1]))
            gap, pointer = 0, ""
        if at is not None:
            said.append(lines[at])
    return "\n".join([*said, *lines[len(lines) - tail :]]), marks


def _telling(lines: Sequence[str], places: Iterable[int], most: int) -> Iterator[int]:
    """The first of these places, at most so many, of lines that tell of errors."""
    return islice((at for at in places if _TELLS.search(lines[at]) is not None), most)


SAVES = 0.05
"""The least share of a text's tokens that codes must save: they cost the model attention."""

_MOST, _WEIGHED = 8, 48  # codes in a text, and how many candidates are counted in tokens
_SHORTEST, _LONGEST_PHRASE = 8, 160
_DEEPEST = 12
_PIECES, _PIECE = 32, 4_000  # of a very long text, in characters: there it is looked for what is worth a code
_DIRECTORY = lazy_pattern(
    r"(?<![\w/.~@+\\:§-])(?:(?:[A-Za-z][A-Za-z0-9+.-]{1,9}://|[A-Za-z]:/|/)?(?:[\w.@+~-]+/){2,}"
    r"|[A-Za-z]:\\(?:[\w.@+~-]+\\(?!\\))+)"
)
_SEPARATOR = lazy_pattern(r"(?<=[^/:])/|\\")
_RUN = lazy_pattern(r"(?<!\S)\S++(?: \S++)+")
_WORDS = (3, 5, 8)


def compress(
    text: Text,
    counter: TokenCounter,
    *,
    dictionary: Collection[str] = DICTIONARY,
    paths: bool = True,
    codebook: bool = True,
    taken: Mapping[int, str] | None = None,
) -> Text:
    r"""A text in codes, behind what defines them, where ``counter`` says that this saves; else the text itself.

    ``marks.written_out`` gives back the very text. Code, diffs, YAML, Markdown tables and base64 are left alone, and so
    is a text in codes: it stands for what it says when they are written out.

    Args:
        text: The text.
        counter: Counts tokens; what defines the codes counts, too.
        dictionary: Phrases that may have a code wherever they stand.
        paths: Whether directories may that many paths begin with.
        codebook: Whether words may that are repeated.
        taken: What codes stand for elsewhere: none of these means anything else here.

    Example:
        >>> from agentctx import Text
        >>> from agentctx.marks import written_out
        >>> from agentctx.strategies.compress_layers import compress
        >>> from agentctx.tokens import TiktokenCounter
        >>> hits = "".join(f"/home/dev/projects/compiler/src/part{n}.py:{n}: unused\n" for n in range(30))
        >>> coded = compress(Text(hits), TiktokenCounter())
        >>> print("\n".join(coded.text.splitlines()[:2]))
        [Codes: §385=/home/dev/projects/compiler/src] §385/part0.py:0: unused
        §385/part1.py:1: unused
        >>> written_out(coded) == hits
        True
    """
    said = text.text
    if len(said) < LEAST or codebook_in(text) is not None:
        return text
    sample = _sample(said)
    phrases = list(_worth(_candidates(sample, dictionary, paths=paths, codebook=codebook), counter))
    taken = taken or {}
    if phrases and sample is not said:
        coded, book = _coded(sample, phrases, taken, counter)
        phrases = [] if coded is sample else list(book.phrases.values())
    if not phrases or left_alone(said):
        return text
    coded, book = _coded(said, phrases, taken, counter)
    return text if coded is said else evolve(text, text=coded, marks=(Mark(book.head.strip()), *text.marks))


def _sample(text: str) -> str:
    """A text, or pieces of a very long one: what is worth a code is said all over it."""
    if len(text) <= 2 * _PIECES * _PIECE:
        return text
    apart = len(text) // _PIECES
    return "\n".join([text[start : start + _PIECE] for start in range(0, apart * _PIECES, apart)])


def _coded(
    text: str, phrases: Collection[str], taken: Mapping[int, str], counter: TokenCounter
) -> tuple[str, Codebook]:
    """A text with codes for those of the phrases that pay, where that saves enough, else itself; and these codes."""
    book = Codebook.numbered(phrases, taken, codes_in(text))
    coded, uses = book.counted(text)
    for _ in range(_MOST):
        paying = {
            number: phrase for number, phrase in book.phrases.items() if _saves(phrase, uses[number], counter) > 0
        }
        if len(paying) == len(uses):
            break
        book = Codebook(paying)
        coded, uses = book.counted(text)
    shorter = book.head + coded
    if not book.phrases or counter.count(shorter) > (1 - SAVES) * counter.count(text):
        return text, book
    return shorter if book.decoded(coded) == text else text, book


def _saves(phrase: str, uses: int, counter: TokenCounter) -> int:
    """Tokens that a code saves where a phrase is said so often, beside its definition."""
    return uses * (counter.count(phrase) - counter.count("§100")) - counter.count(f" | §100={phrase}")


def _worth(found: Mapping[str, int], counter: TokenCounter) -> Iterator[str]:
    """The phrases that are worth a code, none of which stands in another."""

    def characters(item: tuple[str, int]) -> tuple[int, str]:
        phrase, uses = item
        return uses * (len(phrase) - 4) - len(phrase) - 7, phrase

    rough = nlargest(_WEIGHED, ((phrase, uses) for phrase, uses in found.items() if uses > 1), key=characters)
    weighed = [(_saves(phrase, uses, counter), phrase) for phrase, uses in rough]
    chosen: list[str] = []
    room = LONGEST - len("[Codes: ] ")
    for saved, phrase in sorted(weighed, key=lambda each: (-each[0], each[1])):
        apart = not any(phrase in other or other in phrase for other in chosen)
        if saved > 0 and apart and len(phrase) + 8 <= room and len(chosen) < _MOST:
            chosen.append(phrase)
            room -= len(phrase) + 8
            yield phrase


def _candidates(text: str, dictionary: Collection[str], *, paths: bool, codebook: bool) -> dict[str, int]:
    """What a code might stand for, and about how often it is said."""
    found: Counter[str] = Counter()
    if paths:
        in_json = may_be_json(text)  # where a backslash is the first half of something
        named = (directory.group()[:_LONGEST_PHRASE] for directory in _DIRECTORY.finditer(text))
        directories = Counter(each for each in named if not (in_json and "\\" in each))
        for directory, uses in directories.items():
            for phrase in _leading(directory):
                found[phrase] += uses
    if codebook:
        found.update(_repeated(text))
    found.update({phrase: text.count(phrase) for phrase in dictionary if len(phrase) > len("§100")})
    return {phrase: uses for phrase, uses in found.items() if uses > 1 and fit(phrase)}


def _leading(directory: str) -> Iterator[str]:
    """A directory and those above it, without the separators at their ends; none that is very short."""
    for depth, end in enumerate(_SEPARATOR.finditer(directory)):
        if depth == _DEEPEST:
            return
        if end.start() >= _SHORTEST:
            yield directory[: end.start()]


def _repeated(text: str) -> Counter[str]:
    """Runs of words within a line that are said more than once, of so many words, and whole lines."""
    found: Counter[str] = Counter()
    for run, uses in Counter(_RUN.findall(text)).items():
        words = run.split(" ")
        pieces = [" ".join(words[at : at + many]) for many in _WORDS for at in range(len(words) - many + 1)]
        whole = [run] if len(words) not in _WORDS else []
        for piece in (*pieces, *whole):
            if _SHORTEST <= len(piece) <= _LONGEST_PHRASE and "\\" not in piece:
                found[piece] += uses
    return found


_DIFF = lazy_pattern(r"\n(?:@@ -\d|diff --git |--- \S.*\n\+\+\+ |\*\*\* (?:Begin Patch|Update File))")
_TABLE = lazy_pattern(r"\n[ \t]*+\|.*\|[ \t]*\n[ \t]*+\|[ \t:|-]*-{3}")
_OF_BASE64 = 60  # characters of a line of base64, at least; of one that stands alone twice as many
_AS_BASE64 = bytes([ord("x") if re.match(rb"[\w+/-]", bytes([each])) else 32 for each in range(256)])
_BASE64 = lazy_pattern(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{120,}={0,2}(?![A-Za-z0-9+/_-])")
_LINES_BASE64 = lazy_pattern(r"(?:^[A-Za-z0-9+/]{60,76}\n){3}", 8)
_NESTED = lazy_pattern(r"\n( *+)(?:- )?[\w.\"'/-]++:[ \t]*+\n\1 *(?:- |[\w\"'])")
_OPENS = lazy_pattern(r":[ \t]*+\n")
_SCALAR = lazy_pattern(r"\n[ \t]*+(?:- )?[\w.\"'/-]++:[ \t]++[|>][+-]?\d?[ \t]*+$", 8)
_LISTED = lazy_pattern(r"^- \S", 8)
_SECTION = lazy_pattern(r"^\[\[?[\w.\" -]+\]\]?[ \t]*\n[\w.\"-]+[ \t]*=", 8)
_SET = lazy_pattern(r"^[\w.\"-]+[ \t]*=|^\[", 8)
_RULE = lazy_pattern(r"\n[\w./%$(){}-]+ ?:(?:[ \t]+[\w./%$(){}-]+)*[ \t]*\n\t\S")
_PROGRAM = lazy_pattern(r"\A\s*(?:\d+(?:\t| ?[→|:-])[ \t]*)?(?:#!|package [\w.]+;?[ \t]*$|<\?php)", 8)
_KEY = lazy_pattern(r"^[ \t]*(?:- )?[\w.\"'/-]+:(?: .*)?$|^[ \t]*- ", 8)
_CODE_LINE = lazy_pattern(
    r"\n[ \t]*+(?:\d++(?:\t| ?[→|:-])[ \t]*+)?(?:(?:async )?def |class |import |from \w[\w.]* import|return\b|"
    r"if |elif |else:|for |while "
    r"|try:|except\b|with |func |function |const |let |var |public |private |package |type |struct |#include|@\w+"
    r"|require(?:_relative)?[ (]+['\"]|[})\]]+[;,]?$|//|/\*|\*/"
    r"|(?=.*+(?<=[{;])$)(?!\S[^\s:]*+(?::(?!\d+[:-])[^\s:]*+)*+:\d))",
    8,
)
_FILLED = lazy_pattern(r"^.*\S", 8)
_CODE_SHARE, _KEY_SHARE = 0.25, 0.6

_SURELY: Sequence[tuple[re.Pattern[str], Callable[[str], bool]]] = (
    (_PROGRAM, lambda _text: True),
    (_RULE, lambda text: "\n\t" in text),
    (_SCALAR, lambda text: "|" in text or ">" in text),
    (_DIFF, lambda text: "@@ -" in text or "diff --git " in text or "\n+++ " in text or "*** " in text),
    (_TABLE, lambda text: "---" in text),
)
"""What is left alone wherever it is found, each with a glance that may rule it out, in a fraction of the time."""


def _has_base64(text: str) -> bool:
    runs = text.encode("utf-8", "surrogatepass").translate(_AS_BASE64)  # two passes that take a fraction of a search
    if b"x" * _OF_BASE64 not in runs:
        return False
    return _LINES_BASE64.search(text) is not None or (
        b"x" * 2 * _OF_BASE64 in runs and _BASE64.search(text) is not None
    )


def left_alone(text: str) -> bool:
    """Whether a text is, or has in it, what must stay as it is: code, a diff, YAML, a Markdown table, base64, a cut."""
    if "```" in text or "characters omitted" in text or "lines omitted" in text:
        return True
    behind = f"\n{text}"  # each line has an end before it: that is looked for faster than where a line begins
    if any(may_be(text) and found.search(behind) is not None for found, may_be in _SURELY) or _has_base64(text):
        return True
    lines = sum(map(bool, map(str.strip, text.split("\n"))))
    if len(_CODE_LINE.findall(behind)) > _CODE_SHARE * lines:
        return True
    if _OPENS.search(text) and _NESTED.search(behind) and len(_KEY.findall(text)) > _KEY_SHARE * lines:
        return True
    is_in_sections = (text.startswith("[") or "\n[" in text) and _SECTION.search(text) is not None
    if is_in_sections and len(_SET.findall(text)) > _KEY_SHARE * lines:
        return True
    first = _FILLED.search(text)
    is_listed = first is None or _LISTED.match(text, first.start()) is not None
    return is_listed and len(_LISTED.findall(text)) == lines


def decompress(text: str, view: View | Context) -> str:
    r"""A text with its codes written out, as a view defines them.

    It is what a tool said, as the view has it, or what a model writes that was sent the view. In that, a code that the
    view defines in two ways, or that also stands there for itself, is left as it is; within JSON what is written in is
    escaped as JSON wants it.

    Args:
        text: A result of the view, or what the model has written: words, or the arguments of a call.
        view: What the model was sent.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import CompressLayers, decompress
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> hits = "".join(f"/home/dev/projects/compiler/src/part{n}.py:{n}: unused\n" for n in range(30))
        >>> turns = user("Find it."), assistant(call("a", "grep")), result("a", hits)
        >>> view = await Pipeline(CompressLayers()).prepare(transcript("openai-chat", *turns))
        >>> decompress('{"path": "§385/part7.py"}', view)
        '{"path": "/home/dev/projects/compiler/src/part7.py"}'
        >>> decompress(view.messages[2]["content"], view) == hits
        True
    """
    if "§" not in text and "\\u00" not in text:
        return text
    messages = (view.context if isinstance(view, View) else view).messages
    for each in _texts(messages):
        if each.text == text and codebook_in(each) is not None:
            return written_out(each)
    book = _book_of(messages)
    if may_be_json(text) and is_json(text):
        text = _ESCAPED.sub(lambda code: f"§{code[1]}" if int(code[1]) in book.phrases else code[0], text)
        book = Codebook({each: json.dumps(said, ensure_ascii=False)[1:-1] for each, said in book.phrases.items()})
    return book.decoded(text)


_ESCAPED = lazy_pattern(r"(?<!\\)\\u00[aA]7([1-9][0-9]{2})(?![0-9])")


def _book_of(messages: Iterable[Message]) -> Codebook:
    """The codes that messages define, and not in two ways."""
    phrases: dict[int, str] = {}
    unclear: set[int] = set()
    for text in _texts(message for message in messages if message.role != "assistant"):
        book = codebook_in(text)
        own: Mapping[int, str] = {} if book is None else book.phrases
        unclear.update(codes_in(text.text) - own.keys())
        unclear.update(number for number, phrase in own.items() if phrases.setdefault(number, phrase) != phrase)
    return Codebook({number: phrase for number, phrase in phrases.items() if number not in unclear})


def defined_in(messages: Iterable[Message]) -> dict[int, str]:
    """What codes stand for in messages."""
    books = filter(None, map(codebook_in, _texts(messages)))
    return {number: phrase for book in books for number, phrase in book.phrases.items()}


def _texts(messages: Iterable[Message]) -> Iterator[Text]:
    return (part for message in messages for part in texts_in(message.parts) if isinstance(part, Text))
