"""The layers by which other systems compress, each only where it saves tokens and loses nothing unsaid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from attrs import evolve, field, frozen

from agentctx.core.json_text import compact, may_be_json
from agentctx.core.message import Context, Message, Part, Text, ToolResult
from agentctx.core.references import LEAST, codebook_in
from agentctx.engine.shrink import edit_results, with_pointer
from agentctx.errors import ConfigError
from agentctx.lazy import lazy_pattern
from agentctx.protocols import Call
from agentctx.strategies.compress.codes import DICTIONARY, compress, defined_in, left_alone
from agentctx.strategies.rewrite_results import RewriteResults

_FEWEST, _TELLING = 10, 5
_MARKER = "[… {omitted} lines omitted …]"
_TELLS = lazy_pattern(r"(?i)error|exception|fail|fatal|denied|refused|timed? ?out|invalid|panic|exit (?:code|status)")
_EMPTY = lazy_pattern(r"\n{3,}")


JSON_LAYER = "JSON without blanks (not reversible)"


@frozen
class CompressLayers(RewriteResults):
    r"""Say what tools said in fewer tokens, by any of the layers of systems that compress whole requests.

    A layer is used on a result only where the counter says that the message has fewer tokens then, all that explains
    it included. Code, diffs, YAML, Markdown tables and base64 are left alone. Results that come in several texts, and
    what others have cut, stay. Put it before stages that cut: they keep what explains the codes, or write them out.

    Three layers put in codes what a result says often: ``[Codes fb60: §512=/home/dev/project/src]`` stands at
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
        [Codes e42a: §385=/home/dev/projects/compiler/src] §385/part0.py:0: unused
        §385/part1.py:1: unused
    """

    json: bool = field(default=True, kw_only=True)
    dictionary: Collection[str] = field(default=DICTIONARY, kw_only=True)
    paths: bool = field(default=True, kw_only=True)
    codebook: bool = field(default=True, kw_only=True)
    whitespace: bool = field(default=False, kw_only=True)
    observation: int | None = field(default=None, kw_only=True)
    deduplicate: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        words: object = self.dictionary
        if (
            isinstance(words, str)
            or not isinstance(words, Collection)
            or not all(isinstance(each, str) for each in words)
        ):
            msg = f"CompressLayers: dictionary must be a list of texts, got {words!r:.80}"
            raise ConfigError(msg)
        lines: object = self.observation
        if lines is not None and (isinstance(lines, bool) or not isinstance(lines, int) or lines < _FEWEST):
            msg = f"CompressLayers: observation must be a whole number of lines, at least {_FEWEST}, got {lines!r}"
            raise ConfigError(msg)

    def concerns_text(self, text: str, /) -> bool:
        """Whether it is long enough for codes, or another layer might find something."""
        return (
            len(text) >= LEAST or (self.json and may_be_json(text)) or self.whitespace or self.observation is not None
        )

    def leaves_alone(self, messages: Sequence[Message], call: Call, /) -> bool:
        """Whether no result concerns it, and the assistant says nothing."""
        said = self.deduplicate and any(map(_is_plain, messages))
        return not said and super(CompressLayers, self).leaves_alone(messages, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with results in fewer tokens."""
        frozen, stay = call.frozen(context), self.excluded(context)
        whole = call.whole(context).messages
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
            said, layers = self._layered(only.text, lambda: call.pointer(message, result), call, taken)
            used.update(dict.fromkeys(layers))
            if layers == [JSON_LAYER] and call.wire is not None and call.wire.is_object(only):
                return result  # the blanks are not sent
            return result.with_content((evolve(only, text=said),)) if layers else result

        made = edit_results(message, shorter)
        if made is message or call.count(made) >= call.count(message):
            return message
        call.note(message, f"said in fewer tokens: {', '.join(used)}")
        return made

    def _layered(
        self, text: str, pointer: Callable[[], str], call: Call, taken: Mapping[int, str]
    ) -> tuple[str, list[str]]:
        """A text by each layer that saves, and what these are called."""
        if not text or codebook_in(text) is not None:
            return text, []
        used: list[str] = []

        def tried(layer: str, made: str) -> str:
            if made == text or not made.strip() or call.counter.count(made) >= call.counter.count(text):
                return text
            used.append(layer)
            return made

        if may_be_json(text):
            text = tried(JSON_LAYER, compact(text) if self.json else text)
        elif (self.whitespace or self.observation is not None) and not left_alone(text):
            text = tried("whitespace (not reversible)", tidied(text) if self.whitespace else text)
            if self.observation is not None and text.count("\n") >= self.observation:
                text = tried("observation (not reversible)", folded(text, self.observation, pointer()))
        text = tried("codes", self._coded(text, call, taken))
        return text, used

    def _coded(self, text: str, call: Call, taken: Mapping[int, str]) -> str:
        if not self.dictionary and not self.paths and not self.codebook:
            return text
        options = {"paths": self.paths, "codebook": self.codebook}
        return compress(text, call.counter, dictionary=self.dictionary, taken=taken, **options)

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


def tidied(text: str) -> str:
    """A text without blanks at the ends of lines, but for two, which break a line in Markdown; at most one empty line.

    What stands before a word or between words stays: it may be what matters.
    """
    bare = "\n".join(map(_without_end, text.split("\n")))
    return _EMPTY.sub("\n\n", bare)


def _without_end(line: str) -> str:
    bare = line.rstrip(" \t\r")
    return line if line[len(bare) :] == "  " else bare


def folded(text: str, most: int, pointer: str = "") -> str:
    """A text in at most so many lines: both its ends, and lines between them that tell of errors."""
    lines = text.split("\n")
    if len(lines) <= most:
        return text
    telling = most // _TELLING
    tail = (most - 2 * telling - 1) // 2
    head = most - 2 * telling - 1 - tail
    between = range(head, len(lines) - tail)
    kept = {*_telling(lines, between, telling - telling // 2), *_telling(lines, between[::-1], telling // 2)}
    said, gap = lines[:head], 0
    for at in (*range(head, len(lines) - tail), None):
        if at is not None and at not in kept:
            gap += 1
            continue
        if gap:
            said.append(with_pointer(_MARKER.replace("{omitted}", f"{gap:,}"), pointer))
            gap, pointer = 0, ""
        if at is not None:
            said.append(lines[at])
    return "\n".join([*said, *lines[len(lines) - tail :]])


def _telling(lines: Sequence[str], places: Iterable[int], most: int) -> Iterator[int]:
    """The first of these places, at most so many, of lines that tell of errors."""
    return islice((at for at in places if _TELLS.search(lines[at]) is not None), most)
