"""Keep the units that are worth most in the room there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Literal

import anyio.to_thread
from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message
from agentctx.engine.drop import shrink_open_round
from agentctx.engine.options import check_tokens, limits
from agentctx.engine.relevance import Relevance
from agentctx.errors import ConfigError
from agentctx.protocols import Call, Scope
from agentctx.strategies.packing.choose import Load, Packed, left_out, load, note_of, task_of, told, unit_tokens, unload
from agentctx.strategies.packing.scores import MANY, Weights, ranked, shortened, still_short

Strategy = Literal["recent", "relevance", "hybrid", "compression"]

STRATEGIES: Mapping[str, Weights] = MappingProxyType(
    {
        "recent": Weights(recency=1.0),
        "relevance": Weights(relevance=1.0),
        "hybrid": Weights(recency=0.4, relevance=0.3, role=0.1, tool=0.1, length=0.1),
        "compression": Weights(recency=1.0),
    }
)
"""What counts, by the name of the strategy."""

TRIES = 3
"""How often room is made for a note before it is left out."""


@frozen
class Pack:
    """Keep the units that are worth most, wherever they stand, in exactly the room there is.

    A unit is a model's turn with all its tool results, or one other message; it is kept or dropped as a whole.
    Protected messages and the round that the model is in stay; then the last messages, as far as they fit; what room
    is left goes to the other units so that the sum of score times tokens is as high as can be found: never below
    what taking them by score would give (see ``packing.choose``). A question counts at least as much as its answer.

    Scores are ctxmgr's, read as what one token is worth, so that small old messages do not push out large new ones:

    - ``"recent"``: the newer, the better.
    - ``"relevance"``: the more it has to do with the task; of what has nothing to do with it, the newer.
    - ``"hybrid"``: recency 0.4, relevance 0.3, and 0.1 each for who speaks, for errors, and for being short.
    - ``"compression"``: as recent, but tool results of old units are cut to 200 tokens first, so that more units
      stay; those that fit in full after all are not cut.

    Args:
        strategy: One of these, or ``Weights`` of your own.
        task: What the model is at, in words. Without it: the first task and the latest user message.
        relevance: How much texts have to do with the task; without it BM25. For an embedding model:
            ``Embedded(embed)``.
        keep_last: Units with one of so many last messages in them come first.
        note: Whether a user message says in one line what was left out, where that costs no more than as many tokens
            of the best unit are worth; the report says it anyway.
        max_tokens: The most tokens of the request; without it the pipeline's budget holds.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx import Pack, Pipeline
        >>> from agentctx.testing import assistant, transcript, user
        >>> messages = transcript(
        ...     "openai-chat", user("Why was order 7 refused?"), assistant("Order 7 had no address."),
        ...     user("Go on."), assistant("The weather is fine today. " * 40), user("So?"))
        >>> view = await Pipeline(Pack("recent", keep_last=1), budget=100).prepare(messages)
        >>> len(view.messages) < len(messages)
        True
    """

    strategy: Strategy | Weights = "hybrid"
    task: str | None = field(default=None, kw_only=True)
    relevance: Relevance | None = field(default=None, kw_only=True)
    keep_last: int = field(default=4, kw_only=True)
    note: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if not isinstance(self.strategy, Weights) and self.strategy not in tuple(STRATEGIES):
            msg = f"Pack: strategy must be Weights or one of {', '.join(STRATEGIES)}; got {self.strategy!r}"
            raise ConfigError(msg)
        if isinstance(self.keep_last, bool) or not isinstance(self.keep_last, int) or self.keep_last < 0:
            msg = f"Pack: keep_last must be a whole number of at least 0, got {self.keep_last!r}"
            raise ConfigError(msg)
        check_tokens("Pack: max_tokens", self.max_tokens)
        self._check_relevance()

    def _check_relevance(self) -> None:
        task: object = self.task
        if task is not None and not isinstance(task, str):
            msg = f"Pack: task must be text, or None for what the user said, got {task!r}"
            raise ConfigError(msg)
        if self.relevance is not None and (not callable(self.relevance) or isinstance(self.relevance, type)):
            msg = f"Pack: relevance must be an async function (task, texts) -> numbers, got {self.relevance!r}"
            raise ConfigError(msg)

    @property
    def own_budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return None if self.max_tokens is None else Budget(self.max_tokens)

    @property
    def weights(self) -> Weights:
        """What counts."""
        return self.strategy if isinstance(self.strategy, Weights) else STRATEGIES[self.strategy]

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the units that are worth most, at most the limit's tokens."""
        limit, aim = limits("Pack", self.max_tokens, call)
        if call.size(context) <= aim:
            return context
        context, room = shrink_open_round(context, limit, call)
        full = load(context, room, call, aim, self.keep_last)
        task = task_of(context.messages) if self.task is None else self.task
        scores = await ranked(context, full, self.weights, task, self.relevance)
        packed = await _aside(full, lambda: self._packed(context, full, scores, call))
        if packed.is_whole:
            return context
        name = self.strategy if isinstance(self.strategy, str) else "own weights"
        after = unload(context, packed, call, f"worth less than what stays in {aim:,} tokens ({name})")
        for line in told(context, packed, name, call.size(after)):
            call.remark(line)
        return after

    def _packed(self, context: Context, full: Load, scores: Sequence[int], call: Call) -> Packed:
        """Decide."""
        short = shortened(context, full, call) if self.strategy == "compression" else {}
        small = full.resized({index: unit_tokens(messages, call) for index, messages in short.items()})
        chosen, note = self._chosen(context, small, scores, call)
        spare = small.room - small.tokens(chosen) - (0 if note is None else call.count(note))
        growths = {index: full.sizes[index] - small.sizes[index] for index in short}
        cut = still_short(short, chosen, growths, spare)
        return Packed(full, chosen, {index: short[index] for index in cut}, note)

    def _chosen(
        self, context: Context, small: Load, scores: Sequence[int], call: Call
    ) -> tuple[tuple[int, ...], Message | None]:
        """The units to keep, and the note if it is wanted, has room, and is worth what goes for it."""
        chosen = best = small.pick(scores, small.room)
        for _ in range(TRIES if self.note else 0):
            gone = left_out(context, small, chosen)
            if not gone:
                break
            note = note_of(gone)
            cost = call.count(note)
            if small.tokens(chosen) + cost <= small.room:
                lost = small.worth(scores, best) - small.worth(scores, chosen)
                return (chosen, note) if lost <= cost * max(scores) else (best, None)
            chosen = small.pick(scores, small.room - cost)
        return best, None


async def _aside(full: Load, work: Callable[[], Packed]) -> Packed:
    """Do the work here when it is little, else in a worker thread."""
    return work() if len(full.units) <= MANY else await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
