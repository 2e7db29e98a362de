"""What later steps of a session still need, and how much of it the model can see or have back.

**Natural facts**: the values in the arguments of each tool call (paths, file names, URLs, hex ids, numbers of four
digits and more, identifiers with ``_`` or a capital inside) that occurred earlier in the history. Of each it is asked
whether it is visible in the request that the call answers, whether a handle that is visible there leads to it, or
whether a search in what was left out would find it.

**The user's messages** between the first and the last: of each it is asked whether its words stand in the request, and
where they do not, whether the request says that something is missing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from attrs import astuple, define, evolve, field, frozen

from agentctx.engine.originals import name_of_recall, text_of
from agentctx.engine.reading import as_list, reader
from agentctx.marks import is_recap, words_of
from agentctx.message import Context, Message
from agentctx.pipeline import Pipeline
from agentctx.recall import Recall
from agentctx.replay import Recording
from agentctx.stores import MemoryStore
from agentctx.unit import has_user_words


@frozen
class Retention:
    """What was looked for in requests, and what was found; sums of requests are added.

    Args:
        values: Values that the calls took from what stood before them.
        visible: Of these, those that the request shows.
        recallable: Of the others, those that a handle leads to which the request shows.
        searchable: Of the others, those that a search in what was left out finds.
        said: Messages of the user between the first and the last.
        kept: Of these, those whose words the request shows.
        silent: Of the others, those of which the request does not say that anything is missing.

    Example:
        >>> from agentctx.retention import Retention
        >>> found = Retention(values=40, visible=38, recallable=2) + Retention(values=10, visible=10)
        >>> found.visible_share, found.lost
        (0.96, 0)
    """

    values: int = 0
    visible: int = 0
    recallable: int = 0
    searchable: int = 0
    said: int = 0
    kept: int = 0
    silent: int = 0

    def __add__(self, other: Retention) -> Retention:
        """Both together."""
        return Retention(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def visible_share(self) -> float:
        """The part of the values, 0 to 1, that is visible; 1 where there are none."""
        return self.visible / self.values if self.values else 1.0

    @property
    def reachable_share(self) -> float:
        """The part of the values, 0 to 1, that is visible or that a visible handle leads to; 1 where there are none."""
        return (self.visible + self.recallable) / self.values if self.values else 1.0

    @property
    def lost(self) -> int:
        """Values that cannot be had back."""
        return self.values - self.visible - self.recallable - self.searchable


_VALUE = re.compile(
    r"(?P<url>https?://[^\s\"'<>`)\]}]+)|"
    r"(?P<path>(?:~|\.{1,2}|[\w.@+-]*+)(?:/[\w.@+-]+)+)|"
    r"(?P<file>[\w+-][\w.+-]*\.(?:c|cc|cfg|cpp|css|csv|diff|env|go|h|hpp|html?|ini|ipynb|java|jsx?|jsonl?|lock|log|md|"
    r"mod|patch|php|pony|proto|pyi?|rb|rs|rst|sh|sql|sum|toml|tsx?|txt|xml|ya?ml)\b)|"
    r"(?P<hex>\b(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,64}\b)|(?P<number>\b\d{4,}\b)|"
    r"(?P<name>\b(?=\w*\w_\w|\w*[a-z0-9][A-Z])[A-Za-z_]\w{4,}\b)"
)


def values_of(text: str) -> list[str]:
    """The values in a text, each once, in order; found by other rules than those of the ledger, which is measured."""
    found = ((each[0].rstrip(".,:"), each.lastgroup) for each in _VALUE.finditer(text))
    return list(dict.fromkeys(value for value, kind in found if 5 <= len(value) <= 200 or kind == "number"))


def said_by(message: Message) -> str:
    """All that a message says, the arguments of its calls among it."""
    return "\n".join((*words_of(message), *_arguments(message)))


def _arguments(message: Message) -> Iterator[str]:
    for call in message.calls:
        try:
            yield from _leaves(json.loads(call.arguments))
        except (ValueError, RecursionError):
            yield call.arguments


def _leaves(value: object) -> Iterator[str]:
    """The texts and numbers in a value of JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each)
    elif value is not None:
        yield str(value)


def needs(messages: Sequence[Message], calls: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """For each model call, what its answer takes from what stood before it.

    Args:
        messages: The whole session.
        calls: How many messages each call saw, as ``agentctx.replay.calls_of`` gives it.

    Example:
        >>> from agentctx import Message, Text, ToolCall
        >>> from agentctx.retention import needs
        >>> asked = Message("user", (Text("Look at src/app.py."),))
        >>> needs([asked, Message("assistant", (ToolCall("1", "read", '{"path": "src/app.py"}'),))], [1])
        {1: ('src/app.py',)}
    """
    texts = [said_by(message) for message in messages]
    whole, ends = "\n".join(texts), [0, *accumulate(len(text) + 1 for text in texts)]
    found = {}
    for at, end in pairwise((*calls, len(messages))):
        answer = (message for message in messages[at:end] if message.role == "assistant")
        given = "\n".join(text for message in answer for text in _arguments(message))
        found[at] = tuple(value for value in values_of(given) if whole.find(value, 0, ends[at]) >= 0)
    return found


@frozen
class Reach:
    """What the model can read where it is shown a request.

    Args:
        shown: The text of the request.
        recallable: The texts that handles in it lead to.
        searchable: All texts that a search looks through.
    """

    shown: str = field(repr=False)
    recallable: Sequence[str] = field(default=(), repr=False)
    searchable: Sequence[str] = field(default=(), repr=False)

    def of(self, values: Iterable[str]) -> Retention:
        """Where values are found."""
        found = Counter(map(self._place, values))
        return Retention(found.total(), found["visible"], found["recallable"], found["searchable"])

    def _place(self, value: str) -> str:
        if value in self.shown:
            return "visible"
        if any(value in text for text in self.recallable):
            return "recallable"
        return "searchable" if any(value in text for text in self.searchable) else ""


_HANDLE = re.compile(r"\b[0-9a-f]{16,64}\b")


@define(eq=False)
class Library:
    """A store, and what stands in it and in requests: each content and each message is read once.

    Args:
        store: The store that the pipeline keeps originals in.
    """

    store: MemoryStore = field(factory=MemoryStore)
    _texts: dict[str, str] = field(factory=dict, init=False, repr=False)
    _said: dict[int, tuple[Message, str]] = field(factory=dict, init=False, repr=False)

    def shown(self, context: Context) -> str:
        """All that a request says, its tools left out."""
        system = () if context.system is None else (context.system,)
        return "\n".join(map(self._say, (*system, *context.messages)))

    async def reach(self, context: Context) -> Reach:
        """What the model can read where it is shown this request; handles lead nowhere without the recall tool."""
        shown = self.shown(context)
        if name_of_recall(context.tools) is None:
            return Reach(shown)
        for handle in await self.store.handles():
            if handle not in self._texts:
                content = await self.store.get(handle)
                self._texts[handle] = f"{text_of(content)}\n{text_of(content, '0')}"
        return Reach(shown, self._reached(shown), list(self._texts.values()))

    def _say(self, message: Message) -> str:
        known = self._said.get(id(message))
        if known is None:
            known = self._said[id(message)] = message, said_by(message)
        return known[1]

    def _reached(self, shown: str) -> list[str]:
        """What the handles in a text lead to, and the handles in that."""
        found: dict[str, str] = {}
        waiting = [shown]
        while waiting:
            for handle in _HANDLE.findall(waiting.pop()):
                if handle in self._texts and handle not in found:
                    found[handle] = self._texts[handle]
                    waiting.append(found[handle])
        return list(found.values())


def user_words(history: Sequence[Message], view: Sequence[Message]) -> Retention:
    """What became of the messages of the user between the first and the last.

    Args:
        history: The messages as the loop had them.
        view: Those of the request.
    """
    said = _words(history)
    there = Counter(_words(view)) - Counter((said[0], said[-1]) if said else ())
    lost = Counter(said[1:-1]) - there
    openings = {words[:_OPENING] for words in there - Counter(said)}
    told = any(map(is_recap, view))
    silent = 0 if told else sum(count for words, count in lost.items() if words[:_OPENING] not in openings)
    middle = max(0, len(said) - 2)
    return Retention(said=middle, kept=middle - lost.total(), silent=silent)


_OPENING = 24
"""A message that begins with so many characters of another is that one, cut; a mark in it says so."""


def _words(messages: Iterable[Message]) -> list[str]:
    """What the user said, message by message."""
    said = (message.text for message in messages if has_user_words(message))
    return [words for words in said if words.strip()]


@define(eq=False)
class Watch:
    """Looks at the requests of a recorded session, one after another.

    Args:
        messages: The whole session.
        needed: For each model call, by how many messages it saw, the values to look for; see ``needs``.
        library: With the store that the pipeline keeps originals in.

    Example:
        >>> from agentctx import Context, Message, Text, ToolCall
        >>> from agentctx.retention import Watch, needs
        >>> asked = Message("user", (Text("Look at src/app.py."),))
        >>> session = [asked, Message("assistant", (ToolCall("1", "read", '{"path": "src/app.py"}'),))]
        >>> watch = Watch(session, needs(session, [1]))
        >>> await watch.see(1, Context((asked,)))
        >>> watch.found.values, watch.found.visible
        (1, 1)
    """

    messages: Sequence[Message] = field(repr=False)
    needed: Mapping[int, Sequence[str]] = field(repr=False)
    library: Library = field(factory=Library, repr=False)
    _values: Retention = field(factory=Retention, init=False)
    _last: tuple[int, Sequence[Message]] = field(default=(0, ()), init=False, repr=False)

    async def see(self, index: int, context: Context) -> None:
        """Look at the request of the call that saw ``index`` messages."""
        shown = self.library.shown(context)
        seen = all(value in shown for value in self.needed.get(index, ()))
        self.look(index, Reach(shown) if seen else await self.library.reach(context), context.messages)

    def look(self, index: int, reach: Reach, view: Sequence[Message]) -> None:
        """As ``see``, where what the model can read is known.

        Args:
            index: How many messages the call saw.
            reach: What the model can read in its request, or through handles in it.
            view: The messages of the request.
        """
        self._values += reach.of(self.needed.get(index, ()))
        self._last = index, view

    @property
    def found(self) -> Retention:
        """The values of all requests that were looked at, and the user's messages in the last of them."""
        index, view = self._last
        return self._values + user_words(self.messages[:index], view)


def watched(
    recording: Recording, pipeline: Pipeline, store: MemoryStore, *, model: str | None = None
) -> tuple[Recording, Pipeline]:
    """The recording as if the loop had offered the recall tool, and the pipeline with a store for what it leaves out.

    Args:
        recording: The recording.
        pipeline: What is put between the loop and the model.
        store: Keeps the originals.
        model: The model, when it is not the recorded one.
    """
    tools = () if recording.tools is None else as_list(recording.tools)
    wire = recording.format or reader(recording.messages, model=model or recording.model).wire.name
    kept = Pipeline(
        *pipeline.stages,
        budget=pipeline.budget,
        counter=pipeline.counter,
        store=store,
        protect=pipeline.protect,
        summarizer=pipeline.summarizer,
        thinking=pipeline.thinking,
        subscribers=pipeline.subscribers,
    )
    return evolve(recording, tools=[*tools, Recall(store).definition(wire)]), kept
