"""What users implement, what a stage says of itself, and what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from typing import Protocol, TypeVar, cast, runtime_checkable

from attrs import define, evolve, field, frozen

from agentctx.budget import Budget
from agentctx.changes import Outcome
from agentctx.characters import head_of, tail_of
from agentctx.marks import Unsaid, recaps
from agentctx.message import Context, Message, Native, Part, ToolResult
from agentctx.models.profile import ModelProfile
from agentctx.reports import Compaction, Event
from agentctx.unit import (
    Preferred,
    ProtectRule,
    ThinkingPolicy,
    always,
    leading_thought,
    places_of,
    unread,
)
from agentctx.users_code import is_much, offload
from agentctx.wire_format import USUAL, WireFormat

T = TypeVar("T")


class When(Enum):
    """When a session runs a strategy; a stateless ``prepare`` runs all.

    Example:
        >>> from agentctx import ClearToolResults, TruncateToolOutputs, When
        >>> TruncateToolOutputs.when is When.ON_ARRIVAL, ClearToolResults.when is When.UNDER_PRESSURE
        (True, True)
    """

    ON_ARRIVAL = "on arrival"
    """On new messages: the decision about one message never depends on the others.

    New messages are seen once, but for the tail, such as a call that waits for its results: a session shows the tail
    again at each step until it is final, as the caller passed it, and throws away what was done to it before. Until
    then the placeholder of repair stands where a result is missing.
    """
    UNDER_PRESSURE = "under pressure"
    """On the whole context, when it has passed the trigger of the budget; at every step when there is no budget."""
    ALWAYS = "always"
    """On the whole context, at every step."""


class Phase(Enum):
    """A part of a step, in which strategies run; those within others run in the phases in which they would alone."""

    ONCE = frozenset(When)
    """A stateless ``prepare``, on the whole context: every strategy."""
    ARRIVALS = frozenset({When.ON_ARRIVAL})
    """The new messages of a session."""
    EVERY_STEP = frozenset({When.ALWAYS})
    """The whole context of a session that has room."""
    PRESSURE = frozenset({When.UNDER_PRESSURE, When.ALWAYS})
    """The whole context of a session that has grown too large, or that has no budget."""


class ContextStrategy:
    """One transformation of a request: derive from it to say when it runs, and which options it has.

    A plain or async function ``(context, call) -> context`` is one, too, and runs at every step: the pipeline wraps
    it. A plain one is a function of values: for a large context it is called in a worker thread, where it holds up
    nobody, and where steps of other conversations may call it at the same time. An async one waits, such as for a call
    of a model. The same object out means "nothing changed".

    A strategy that comes down to a budget has an attribute ``budget``: the one that it carries itself, or None, and
    then the pipeline's holds, or the model's.

    Example:
        >>> from typing import ClassVar
        >>> from attrs import frozen
        >>> from agentctx import Call, Context, ContextStrategy, Pipeline, When
        >>> @frozen
        ... class WithoutWord(ContextStrategy):
        ...     word: str
        ...     when: ClassVar[When] = When.UNDER_PRESSURE  # in a session only when the context has grown too large
        ...
        ...     def apply(self, context: Context, call: Call, /) -> Context:
        ...         stays, places = call.protected(context), enumerate(context.messages)
        ...         kept = [each for place, each in places if place in stays or self.word not in each.text]
        ...         return context.with_messages(tuple(kept))
        >>> messages = [{"role": "assistant", "content": "Hello, I am a bot."}, {"role": "user", "content": "Hi"}]
        >>> (await Pipeline(WithoutWord("bot")).prepare(messages)).messages
        [{'role': 'user', 'content': 'Hi'}]
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """Its name in reports and errors."""
        return type(self).__name__

    @property
    def when(self) -> When:
        """When a session runs it."""
        return When.ALWAYS

    @property
    def stages(self) -> tuple[ContextStrategy, ...]:
        """The strategies that it holds, which run in its place, each under its own name; none for most."""
        return ()

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context that the model shall see instead of this one: the one that ``apply`` returns.

        A strategy that waits, such as for a call of a model, has this method instead of ``apply``.
        """
        return await run_plain(self.apply, context, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the same as a plain function of values; a large request is passed to it in a worker thread."""
        msg = f"{self.name} has neither a plain apply nor an async __call__"
        raise NotImplementedError(msg)

    def reserves(self, call: Call, /) -> int:
        """Return the tokens that it may add for what stands for what is gone: strategies that cut leave them free.

        Only a strategy that has this method may write the recap, or put one in the place of another.
        """
        return sum(stage.reserves(call) for stage in self.stages)

    def after_cut(self, before: Context, after: Context, call: Call, /) -> Context:  # noqa: ARG002 - the contract
        """Return the context in which no text of this strategy refers to a message that is not there any more.

        It is called after each strategy that changed the context, also after a cut for the final fit. A text that
        refers to a message that is gone becomes the original text again where there is room (``Call.room``), else
        another that is no larger.

        Args:
            before: The context in which all that is referred to is there.
            after: The context that another strategy made of it.
            call: What strategies are told.
        """
        return after


Strategy = ContextStrategy | Callable[[Context, "Call"], Context | Awaitable[Context]]
"""What a pipeline takes as a stage: a strategy, or a plain or async function."""


async def run_plain(work: Callable[[Context, Call], T], context: Context, call: Call) -> T:
    """Return the result of a plain function for a context; it runs in a worker thread when the request is large."""
    start = call.internals.start
    messages = context.messages if start is None else start.messages  # a stage may search what went
    if call.internals.known is not None:  # to add up what all messages weigh would be more work the longer they get
        characters = _CHARACTERS_PER_TOKEN * call.internals.known[1]
    else:
        characters = 0 if is_much(len(messages)) else sum(map(call.meter.weight, messages))
    # a stage may search the text, which takes longer than to count it
    return await offload(partial(work, context, call), len(messages), 2 * characters)


_CHARACTERS_PER_TOKEN = 4


RunInner = Callable[[ContextStrategy, Context, "Call"], Awaitable[Context]]
"""Runs a strategy that another one holds, and returns the context that it returns."""


def name_of(function: object) -> str:
    """What a function or an object of the user's is called in reports and errors."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return name if isinstance(name, str) else type(function).__name__


class TokenCounter(Protocol):
    """Counts the tokens of a text. What a whole message costs is worked out by ``tokens.meter``.

    Example:
        >>> from agentctx import count
        >>> class Words:
        ...     def count(self, text):
        ...         return len(text.split())
        >>> count([{"role": "user", "content": "Why does the build fail?"}], counter=Words()) < 13
        True
    """

    def count(self, text: str, /) -> int:
        """The tokens of ``text``; 0 for the empty text. Must not raise for any text."""
        ...


class TextCutter(Protocol):
    """A counter that can also cut text at a number of tokens, in time that grows with what is kept.

    Example:
        >>> from agentctx.tokens import HeuristicCounter
        >>> HeuristicCounter(4).head("Why does the build fail?", 2)
        'Why do'
    """

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens; counts no more of it than it must."""
        ...

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        ...

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        ...


def as_cutter(counter: TokenCounter) -> TextCutter | None:
    """The counter as one that cuts text, or None when it only counts."""
    return cast("TextCutter", counter) if _can_cut(type(counter)) else None


@cache
def _can_cut(kind: type) -> bool:
    return all(callable(getattr(kind, name, None)) for name in ("exceeds", "head", "tail"))


@runtime_checkable
class MessageCounter(Protocol):
    """A counter that says itself what a message costs; then nothing is added to it, nor to the request."""

    def count_message(self, message: Message, /) -> int:
        """The tokens of ``message``."""
        ...


@runtime_checkable
class PartCounter(Protocol):
    """A counter that says itself what some parts cost, such as media and calls."""

    def count_part(self, part: Part, /) -> int | None:
        """The tokens of ``part``; None: what its text and the provider's formulas say."""
        ...


class Summarizer(Protocol):
    """Puts messages into fewer words.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> async def in_one_line(messages, max_tokens):
        ...     return f"{len(messages)} messages about the build"  # ask a model for it
        >>> pipeline = Pipeline(FitContextWindow(), budget=8_000, summarizer=in_one_line)
    """

    async def __call__(self, messages: Sequence[Message], max_tokens: int, /) -> str:
        """A text of at most ``max_tokens`` tokens that stands for ``messages``."""
        ...


class Store(Protocol):
    """Keeps what was left out, so that it can be had back byte for byte.

    What a store may have besides: ``for_conversation(name)`` gives the store as one conversation sees it, through which
    a session puts contents in; ``async handles()`` lists what is kept; ``async conversations()`` lists whose that is
    (None among them: nobody's); ``async search(query, limit)`` gives the handles of what words are found in, best
    first. The recall tool searches by these. ``without_secrets(content)`` gives what shall be put of a content: a step
    asks for it in a worker thread, before the time in which a store has to answer.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.stores import MemoryStore
        >>> pipeline = Pipeline(FitContextWindow(), budget=8_000, store=MemoryStore())
    """

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` and return the handle to get it back with. The same content has the same handle.

        A handle is a word of 1 to 64 ASCII letters, digits and ``_ ~ / = + @ % : . -`` that does not end with ``:`` or
        ``.``: the model reads it in every mark, and writes it. Another one is not shown: it counts as a failure of the
        store, which the report names.
        """
        ...

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``.

        Raises:
            StoreError: If there is nothing under it.
        """
        ...


@frozen
class HistorySnapshot:
    """A history as it was when it was loaded.

    Args:
        messages: All messages of the conversation, oldest first, in the shape in which they were appended.
        version: To be passed when it is written; 0: nothing is there, as nothing was written, or all of it was purged
            or has expired. What a write gives grows and never goes back, also beyond a purge, and a store that has lost
            what it had gives none again that it has given before: who goes on from one is refused.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> (await MemoryStore().load("thread-42")).version
        0
    """

    messages: Sequence[Native]
    version: int


class HistoryStore(Protocol):
    """Keeps histories of conversations that many workers share.

    Each write names the version that it goes on from, and raises ``StoreConflict`` where another one was first. With
    a ``key`` it may be repeated after an error that leaves open whether it was done: nothing is stored twice.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> version = await store.append("thread-42", [{"role": "user", "content": "Hi"}], 0, key="message-1")
        >>> version == await store.append("thread-42", [{"role": "user", "content": "Hi"}], 0, key="message-1")
        True
        >>> len((await store.load("thread-42")).messages)
        1
    """

    async def load(self, name: str, /) -> HistorySnapshot:
        """The history of a conversation; of one that was never written an empty one.

        Args:
            name: The conversation.

        Raises:
            StoreUnavailable: If the store does not answer.
            StoreError: If what it has is damaged.
        """
        ...

    async def append(
        self, name: str, messages: Sequence[Native], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Put messages behind the others, and return the new version; no messages: nothing is done or checked.

        Args:
            name: The conversation.
            messages: JSON values; bytes and SDK objects in them are written as such values.
            version: The version that was loaded, 0 for a conversation that begins; None: whatever it is now.
            key: What tells this write from any other of the conversation.

        Raises:
            StoreConflict: If the history has another version.
            StoreUnavailable: If the store does not answer; the write may be done or not: repeat it with the same key.
        """
        ...

    async def save(
        self, name: str, messages: Sequence[Native], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Put messages in the place of all that are there, and return the new version.

        Args:
            name: The conversation.
            messages: JSON values; bytes and SDK objects in them are written as such values.
            version: The version that was loaded, 0 for a conversation that begins; None: whatever it is now.
            key: What tells this write from any other of the conversation: repeated with the same key it is done once.

        Raises:
            StoreConflict: If the history has another version.
            StoreUnavailable: If the store does not answer; as for ``append``.
        """
        ...

    async def clear(self, name: str, version: int | None = None, /, *, key: str | None = None) -> int:
        """Take all messages away, and return the new version.

        Args:
            name: The conversation.
            version: The version that was loaded, 0 for a conversation that begins; None: whatever it is now.
            key: What tells this write from any other of the conversation: repeated with the same key it is done once.

        Raises:
            StoreConflict: If the history has another version.
            StoreUnavailable: If the store does not answer; as for ``append``.
        """
        ...


@frozen
class StateSnapshot:
    """A session's state in pieces, as it was when it was loaded.

    Args:
        pieces: Each piece by its name; none where nothing was saved.
        version: To be passed when it is saved; as for a history.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> (await MemoryStore().load_state("thread-42")).pieces
        {}
    """

    pieces: Mapping[str, bytes]
    version: int


class StateStore(Protocol):
    """Keeps the states of sessions in pieces, so that saving one costs what has changed of it.

    It may have ``async state_version(name)`` besides, the version alone: a session that is opened again where it was
    saved last is then not loaded.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> version = await store.save_state("thread-42", {"head": b"1", "view": b"2"}, 0)
        >>> version = await store.save_state("thread-42", {"head": b"3", "view": None}, version)
        >>> (await store.load_state("thread-42")).pieces
        {'head': b'3'}
    """

    async def load_state(self, name: str, /) -> StateSnapshot:
        """The state of a session; of one that was never saved no pieces.

        Args:
            name: The session's conversation.

        Raises:
            StoreUnavailable: If the store does not answer.
            StoreError: If what it has is damaged.
        """
        ...

    async def save_state(
        self, name: str, changed: Mapping[str, bytes | None], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Keep those pieces that have changed, and return the new version.

        Args:
            name: The session's conversation.
            changed: The pieces to put in the place of those of the same name; None takes one away. A name is a text of
                1 to 1,000 bytes without NUL and lone surrogates; others are a ``StoreError``.
            version: The version that was loaded, or saved last; None: whatever it is now.
            key: What tells this write from any other of the session.

        Raises:
            StoreConflict: If the state has another version.
            StoreUnavailable: If the store does not answer; as for ``HistoryStore.append``.
        """
        ...


Listener = Callable[[Compaction], Awaitable[object] | object]
"""Told of every compaction, and of a ``SilentTruncationSuspected``; may be plain or async.

A plain one is called in a worker thread. One that raises, or takes more than a few seconds, is logged and costs
nothing.
"""

Listeners = Listener | Sequence[Listener]
"""One listener or several."""


class Subscriber(Protocol):
    """Told of every step, answer and session, there and then, in the task and the context of the caller.

    A plain function that does not wait. One that raises is logged and costs nothing. It is told of ``StepPrepared``,
    ``StepRefused``, ``UsageRecorded``, ``OverflowMet``, ``SilentTruncationSuspected``, ``SessionOpened``,
    ``SessionSaved`` and ``SessionClosed``, and later maybe of more: pass over what you do not know.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.events import StepPrepared
        >>> def tell(event):
        ...     if isinstance(event, StepPrepared):
        ...         print(event.report.tokens_after)
        >>> view = await Pipeline(subscribers=[tell]).prepare([{"role": "user", "content": "Hello"}])
        8
    """

    def __call__(self, event: Event, /) -> object:
        """Take note of the event."""
        ...


class Meter(Protocol):
    """What whole messages and requests cost.

    Example:
        >>> from agentctx import Pipeline
        >>> async def says_sizes(context, call):
        ...     call.remark(", ".join(str(call.meter.message(message)) for message in context.messages))
        ...     return context
        >>> (await Pipeline(says_sizes).prepare([{"role": "user", "content": "Hi"}])).report.stages[0].notes
        ('5',)
    """

    counter: TokenCounter

    def message(self, message: Message, /) -> int:
        """Tokens of one message, with role, names, calls, media; counted once and remembered."""
        ...

    def weight(self, message: Message, /) -> int:
        """Bytes of one message; worked out once and remembered."""
        ...

    def parts(self, parts: Sequence[Part], /) -> int:
        """Tokens of parts, without a message around them."""
        ...

    def fixed(self, context: Context, /) -> int:
        """Tokens of system prompt and tools, and what every request costs."""
        ...

    def size(self, context: Context, /) -> int:
        """Tokens of a whole request: ``fixed`` and all its messages."""
        ...

    def bytes(self, context: Context, /) -> int:
        """Bytes of text and inline media of a whole request."""
        ...

    async def settle(self, messages: Sequence[Message], /) -> None:
        """Count what was not counted yet, in a worker thread when it is much.

        Args:
            messages: The messages to count.
        """
        ...


@frozen(eq=False, repr=False)
class Reason:
    """Why a stage did something to messages.

    Args:
        why: The reason, in a few words.
        outcome: What became of them, when "dropped" or "edited" says too little.
    """

    why: str
    outcome: Outcome | None = None


_NONE_GIVEN = Reason("")


@define(eq=False, repr=False)
class Notes:
    """Reasons and remarks of the stages of one step; emptied by the pipeline after each stage.

    Args:
        reasons: By the identity of the message; of thousands that go for one reason it is one object.
        remarks: What was said about the step as a whole.
        asked: The options of the request that ask the provider for something.
        unsaid: What a section of the recap says in whole, where the recap has no room for that; ``Call.unsaid`` has it
            at later steps. None: nothing is known of that.
    """

    reasons: dict[int, Reason] = field(factory=dict)
    remarks: list[str] = field(factory=list)
    asked: Mapping[str, Native] | None = None
    unsaid: Unsaid | None = None
    _messages: list[Message] = field(factory=list)  # whose identities these are: none may be that of a later one
    _said: list[Reason] = field(factory=list)  # of each of these
    _last: Reason = _NONE_GIVEN

    def note(self, message: Message, why: str, outcome: Outcome | None = None) -> None:
        """Write down why something is done to a message, and what that is called if not so; see ``Call.note``."""
        if self._last.why != why or self._last.outcome is not outcome:
            self._last = Reason(why, outcome)
        self.reasons[id(message)] = self._last
        self._messages.append(message)
        self._said.append(self._last)

    def why(self, message: Message) -> Reason:
        """The reason given for a message, or an empty one."""
        return self.reasons.get(id(message), _NONE_GIVEN)

    def by_identity(self) -> dict[int, str]:
        """All that was said of a message and of what was made of it on the way, by what it is known by."""
        said: dict[int, str] = {}
        again: dict[int, list[str]] = {}
        for message, reason in zip(self._messages, self._said, strict=True):
            identity, why = message.identity, reason.why
            if said.setdefault(identity, why) is not why:
                again.setdefault(identity, [said[identity]]).append(why)
        return said | {identity: "; ".join(dict.fromkeys(reasons)) for identity, reasons in again.items()}

    def copy(self) -> Notes:
        """What was said so far, to be restored."""
        said = list(self._messages), list(self._said)
        return Notes(dict(self.reasons), list(self.remarks), self.asked, self.unsaid, *said)

    def restore(self, known: Notes) -> None:
        """Forget everything said since the copy was made."""
        self.reasons, self.remarks, self.asked = known.reasons, known.remarks, known.asked
        self.unsaid = known.unsaid
        self._messages, self._said = known._messages, known._said

    def clear(self) -> None:
        """Forget everything said."""
        self.reasons.clear()
        self.remarks.clear()
        self.asked = self.unsaid = None
        self._messages.clear()
        self._said.clear()


class Shelf(Protocol):
    """What a stage can have kept in the store so that the model can get it back with the recall tool."""

    @property
    def tool(self) -> str | None:
        """The name of the recall tool in the request; None where there is none."""
        ...

    def pointer(self, message: Message, result: ToolResult | None = None) -> str:
        """What a text says of where the original is, for a plain stage; see ``Call.pointer``."""
        ...

    async def keep(self, content: bytes) -> str | None:
        """The handle of a content; see ``Call.keep``."""
        ...

    async def keep_message(self, message: Message, result: ToolResult | None = None) -> str | None:
        """By which handle a message, or a result in it, can be had back; None where nothing is kept."""
        ...

    async def keep_messages(self, messages: Sequence[Message]) -> list[str | None]:
        """By which handle each message can be had back; None for what is not kept."""
        ...

    def unnamed(self) -> Shelf:
        """The same, of which no text names a handle."""
        ...

    async def settled(self, before: Context, after: Context) -> Context:
        """What a stage returned, with the handles that the store has given."""
        ...


@frozen(eq=False, repr=False)
class CallInternals:
    """What the library's own stages are told of a call besides; nothing here is for a user.

    Args:
        protect: The caller's own rules of what must survive; the rules that always hold come on top.
        thinking: What to do where an edit would part reasoning from the prefix that it is bound to.
        notes: Where stages leave their reasons; read by the pipeline.
        reserved: Tokens below the call's limit that a cut leaves free for the recap, which says what went.
        before: Gives the messages that stand before the context where a stage is shown only what is new.
        known: A request whose size is known, with its tokens; None when there is none.
        late: Gives the identities of the messages that came after the model's last one, wherever they stand now.
        given: Gives the identities of the messages that the caller passed, wherever they stand now; None: all are.
        start: The request as it was before any stage of this step saw all of it; None: it is not known.
        left_out: Gives how many messages of the history were left out before that, and how many tool calls in them;
            None: it is not known.
        shelf: What puts contents into the store in this step; see ``Call.keep``.
        unsaid: What the recap of the steps before had no room for; see ``Notes.unsaid``.
        phase: The part of the step.
        governing: The budget, as it was configured, that holds for the stages; ``Call.budget`` has what was learned.
        stays: Of a block of a request: gives the indexes of what must stay of it. None: the context is a request, of
            which the library's own rules say what stays.
        mending: The stages that mend what they have written where another stage takes away what that refers to.
        growth: Whether a request may grow by that, as far as there is room.
        memo: What a stage has worked out of the messages before, to have it again at the next step; it may be lost at
            any time.
    """

    protect: tuple[ProtectRule, ...] = ()
    thinking: ThinkingPolicy = "postpone"
    notes: Notes = field(factory=Notes)
    reserved: int = 0
    before: Callable[[], tuple[Message, ...]] | None = None
    known: tuple[Context, int] | None = None
    late: Callable[[], frozenset[int]] | None = None
    given: Callable[[], frozenset[int]] | None = None
    start: Context | None = None
    left_out: Callable[[], tuple[int, int]] | None = None
    shelf: Shelf | None = None
    unsaid: str = ""
    phase: Phase = Phase.ONCE
    governing: Budget | None = None
    stays: ProtectRule | None = None
    mending: tuple[ContextStrategy, ...] = ()
    growth: bool = True
    memo: dict[object, object] = field(factory=dict)

    def whole(self, context: Context) -> Context:
        """Return the whole request, of which a stage may be shown only what is new."""
        earlier = () if self.before is None else self.before()
        return context.with_messages((*earlier, *context.messages)) if earlier else context


@frozen(eq=False)
class Call:
    """What a stage is told about the model call that it prepares.

    Args:
        meter: Counts messages and requests.
        format: Name of the provider's format.
        budget: The budget in force; None when there is none, neither given nor the model's.
        limit: What a cut aims at, in tokens; not ``budget.limit``, the most: it is that, or a session's target. None
            without a budget, and for a stage of ``When.ON_ARRIVAL`` in a session, which has no size to come down to.
        profile: The model's profile; None when no model was named.
        warmth: The believed share of the last request that the provider's cache still holds, 0 to 1.
        store: Where originals are kept; None means that they are not.
        summarizer: Puts messages into fewer words; None when the caller gave none.
        wire: The caller's own format; None when the context was built by hand.
        internals: For the library's own stages.

    Example:
        >>> from agentctx import Call, Context, Pipeline
        >>> async def says_how_large(context: Context, call: Call) -> Context:
        ...     call.remark(f"{call.size(context)} tokens, {len(call.protected(context))} protected")
        ...     return context
        >>> view = await Pipeline(says_how_large).prepare([{"role": "user", "content": "Hi"}])
        >>> view.report.stages[0].notes
        ('8 tokens, 1 protected',)
    """

    meter: Meter
    format: str = USUAL
    budget: Budget | None = None
    limit: int | None = None
    profile: ModelProfile | None = None
    warmth: float = 0.0
    store: Store | None = None
    summarizer: Summarizer | None = None
    wire: WireFormat | None = None
    internals: CallInternals = field(factory=CallInternals, repr=False)

    def count(self, message: Message) -> int:
        """Tokens of one message."""
        return self.meter.message(message)

    def size(self, context: Context) -> int:
        """Tokens of a whole request."""
        if self.internals.known is not None and self.internals.known[0] is context:
            return self.internals.known[1]
        return self.meter.size(context)

    def protected(self, context: Context) -> frozenset[int]:
        """Indexes of the messages that must not be dropped.

        They are ``always`` (the library's own rules), ``frozen`` (the caller's), recaps, and the leading thought of
        the open tool round, where the model must not be without it; of a block, ``frozen`` and what ``stays``.
        """
        messages = context.messages
        if self.internals.stays is not None:
            return self.frozen(context).union(self.internals.stays(messages))
        return always(messages).union(self._leading(context), self.frozen(context), recaps(messages))

    def _leading(self, context: Context) -> frozenset[int]:
        """What the open tool round begins with on models that think when they are told to, and must not be without."""
        adaptive = self.profile is not None and self.profile.adaptive_thinking
        if adaptive or self.wire is None or not self.wire.rounds.reasoning_back:
            return frozenset()
        return leading_thought(context.messages)

    def frozen(self, context: Context) -> frozenset[int]:
        """Indexes of the messages that the caller's rules protect: not even their tool results may change."""
        return self._named(self.internals.protect, context)

    def preferred(self, context: Context) -> frozenset[int]:
        """Indexes of the messages that go last by the caller's soft rules; see ``Protect.prefer``."""
        return self._named([rule.rule for rule in self.internals.protect if isinstance(rule, Preferred)], context)

    def _named(self, rules: Sequence[ProtectRule], context: Context) -> frozenset[int]:
        if not rules:
            return frozenset()
        messages = self.internals.whole(context).messages
        hidden = len(messages) - len(context.messages)
        places = (index - hidden for rule in rules for index in places_of(rule, messages))
        return frozenset(place for place in places if place >= 0)

    def unread(self, context: Context) -> list[int]:
        """Indexes of the messages with results that the model has not read, latest first.

        They stand after its last message, or where repair has put them: behind a call before it.
        """
        found, late = unread(context.messages), frozenset() if self.internals.late is None else self.internals.late()
        places = enumerate(context.messages)
        moved = [index for index, message in places if message.identity in late and message.results] if late else []
        return sorted({*found, *moved}, reverse=True)

    def note(self, message: Message, why: str, outcome: Outcome | None = None) -> None:
        """Say why a message is dropped, edited or added, and what that is called if not so; it is put into the report.

        Args:
            message: The one that the stage was given; of one that it adds, that one. For an edit either will do.
            why: The reason, in a few words.
            outcome: What the report calls it; None: dropped, edited or added, as the views show.
        """
        self.internals.notes.note(message, why, outcome)

    def remark(self, text: str) -> None:
        """Say something about the step as a whole; it is put into the stage's report.

        Args:
            text: The remark, one line.
        """
        self.internals.notes.remarks.append(text)

    async def keep(self, content: bytes | str) -> str | None:
        """Put a content into the store, and give the handle by which the model gets it back with the recall tool.

        None where there is no store, where the request has no recall tool, and where the store fails: then the report
        says so, and nothing else happens.
        """
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        handle = None if self.internals.shelf is None else await self.internals.shelf.keep(data)
        return f"{handle}#0" if handle is not None and data.startswith(b"{") else handle

    def pointer(self, message: Message, result: ToolResult | None = None) -> str:
        """What a text that stands for a message, or a result in it, says of how to get the original back.

        Such as ``"; recall 3fa94c00d1b2e6a7"``; empty without a store or the recall tool. For a plain stage, which
        cannot wait: once the stage is done, what its messages name this way is put into the store.
        """
        return "" if self.internals.shelf is None else self.internals.shelf.pointer(message, result)


def inside(call: Call, **changes: object) -> Call:
    """Return the call of which stages are told other internals."""
    return evolve(call, internals=evolve(call.internals, **changes))  # type: ignore[arg-type]  # by their names


def floor_of(call: Call, context: Context) -> int:
    """Return the tokens of a request that no cut can take away: system prompt, tools, and what is protected."""
    messages = context.messages
    return call.meter.fixed(context) + sum(call.count(messages[index]) for index in call.protected(context))


def room_to_grow(call: Call, context: Context) -> int | None:
    """Return the tokens by which texts that are put back may let a request grow; None: by any number.

    At most halfway from where a cut came down to up to where the next one begins.
    """
    if not call.internals.growth:
        return 0
    if call.budget is None or call.limit is None:
        return None
    most = min(max(call.limit, (call.limit + call.budget.trigger_tokens) // 2), call.budget.limit)
    return max(0, most - call.internals.reserved - call.size(call.internals.whole(context)))


def aiming_lower(call: Call, context: Context, floor: int | None = None) -> Call:
    """Return the call for stages that run although a request fits: it aims at the budget's target.

    Args:
        call: The call as it is.
        context: The request.
        floor: Tokens of it that no cut can take away; without it they are counted.
    """
    if call.budget is None or call.limit is None or call.size(context) > call.limit:
        return call
    aim = call.budget.target_above(floor_of(call, context) if floor is None else floor)
    return evolve(call, limit=min(call.limit, aim))


_OF_THE_LIBRARY: set[type] = set()


Kind = TypeVar("Kind", bound=type)


def library_stage(kind: Kind) -> Kind:
    """Mark a class of stages as the library's own: the engine does not repair the result of such a stage.

    A class that derives from it does not have the mark.
    """
    _OF_THE_LIBRARY.add(kind)
    return kind


def is_ours(stage: ContextStrategy) -> bool:
    """Whether a stage is the library's own (``library_stage``)."""
    return type(stage) in _OF_THE_LIBRARY


def cutter_of(counter: TokenCounter) -> TextCutter:
    """The counter itself when it can cut, else one that cuts by counting ever shorter ends."""
    return as_cutter(counter) or _Halving(counter)


@frozen(eq=False, repr=False)
class _Halving:
    """Ends of a text by bisection, for a counter that can only count."""

    counter: TokenCounter

    def exceeds(self, text: str, tokens: int) -> bool:
        return self.counter.count(text) > tokens

    def head(self, text: str, tokens: int) -> str:
        return head_of(text, self._longest(text, tokens, from_end=False))

    def tail(self, text: str, tokens: int) -> str:
        return tail_of(text, self._longest(text, tokens, from_end=True))

    def _longest(self, text: str, tokens: int, *, from_end: bool) -> int:
        low, high = 0, len(text)
        while low < high:
            middle = (low + high + 1) // 2
            piece = tail_of(text, middle) if from_end else head_of(text, middle)
            if self.counter.count(piece) <= tokens:
                low = middle
            else:
                high = middle - 1
        return low
