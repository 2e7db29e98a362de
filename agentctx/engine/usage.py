"""What a provider's answers teach: how large a prompt was by its own count, and how much room its models have.

A report of usage is read (``prompt_tokens``), judged (``judge``), and learned from, and so is a refusal
(``LearnedLimits``): it is the budget of each model of a session, corrected by what its answers taught.

How far our count is off (``Calibration``): the size of the last real prompt is the anchor, and only what was appended
since then has to be estimated, so the error is the ratio's error times the tokens since the last report. The ratio is
learned from differences between reports, in which everything that never changes (tools, system prompt) cancels.

One refusal may be of one request alone: a gateway that fell back to a smaller deployment, a proxy set up wrongly for an
hour. So a limit (``OverflowLimit``) holds only as long as the provider does not take larger prompts, by its own count.
What it took before the refusal speaks against the limit, too; where the same is refused again, it does not any more.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Annotated

from attrs import define, evolve, field, frozen
from attrs.validators import and_, deep_iterable, ge, le, max_len

from agentctx.budget import Budget
from agentctx.economics import SHARE, Suspicion, leaves_out_cached, suspect_truncation
from agentctx.engine.plan import Plan, logger
from agentctx.engine.reading import Reader, known_profile
from agentctx.errors import InvalidInput
from agentctx.formats.registry import usage_keys
from agentctx.json_text import serialise
from agentctx.message import Context, Media, Native, Opaque, Part, Thinking, ToolResult
from agentctx.protocols import Meter
from agentctx.reports import SilentTruncationSuspected, StageReport
from agentctx.wire_format import UsageKeys

if TYPE_CHECKING:
    from agentctx.formats.overflow import Overflow
    from agentctx.models.profile import ModelProfile


def prompt_tokens(usage: Native) -> int | None:
    """The tokens of the whole prompt, cached parts included, from any provider's ``usage``; None when it is not told.

    Some report the whole prompt, others its parts, which are added up. It is not told where there is no usage at all or
    an empty one, where the field is empty or 0, and where only the answer was counted, as Ollama does when the prompt
    was cached. One that raises when it is read tells nothing, either; that is said in the log, once for each kind.

    Raises:
        InvalidInput: If it is no usage, or has a number that no prompt can have.
    """
    if usage is None or not _is_readable(usage) or (isinstance(usage, Mapping) and not usage):
        return None
    total = _total(usage)
    if total is None and not _leaves_it_out(usage):
        shown = serialise(usage)[:200]
        raise InvalidInput("usage", f"no prompt token count in it; pass the response's usage, not {shown}")
    return total or None


def output_tokens(usage: Native) -> int | None:
    """The tokens of the answer, as the provider calls them; None when it does not say."""
    return next((amount for name in _keys().answer if (amount := _field(usage, name)) is not None), None)


def cleared_tokens(applied_edits: Native) -> int:
    """The tokens that a provider says it cleared of a prompt, in all of its edits.

    Raises:
        InvalidInput: If these are no edits, or one has a number that no prompt can have.
    """
    edits = applied_edits if isinstance(applied_edits, Sequence) and not isinstance(applied_edits, str) else None
    amounts = [None] if edits is None else [_field(edit, "cleared_input_tokens") for edit in edits]
    if None in amounts:
        what = "expected context_management.applied_edits of the response, each with its cleared_input_tokens"
        raise InvalidInput("applied_edits", what)
    return sum(amount or 0 for amount in amounts)


def is_one_prompt(usage: Native) -> bool:
    """Whether ``usage`` is that of one prompt: with server tools or compaction, some sum several rounds."""
    return all(_is_one(usage, keys) for keys in _keys().summing)


MOST = 2**32 - 1
"""The largest number of tokens that is believed."""

Tokens = Annotated[int, range(1, MOST + 1)]
"""The size of a prompt, or of the room for one."""


@frozen
class _Keys:
    """The keys of all providers.

    Args:
        prompt: Those of prompts, each with the parts to add; with none it is the whole prompt.
        answer: Those of answers.
        summing: Those of the providers that may sum several prompts.
    """

    prompt: Mapping[str, tuple[str, ...]]
    answer: tuple[str, ...]
    summing: tuple[UsageKeys, ...]


def _keys() -> _Keys:
    return _merged(usage_keys())


@cache
def _merged(every: tuple[UsageKeys, ...]) -> _Keys:
    """The keys of several formats, those that tell of a whole prompt first."""
    parts: dict[str, tuple[str, ...]] = {name: () for keys in every for name in keys.prompt}
    parts |= {name: keys.parts for keys in every if keys.parts for name in keys.prompt}
    whole_first = dict(sorted(parts.items(), key=lambda one: bool(one[1])))
    answer = tuple(dict.fromkeys(name for keys in every for name in keys.answer))
    return _Keys(whole_first, answer, tuple(keys for keys in every if keys.rounds))


def _is_readable(usage: Native) -> bool:
    """Whether everything that is looked at can be: the properties of an object are somebody's own code."""
    try:
        known = _keys()
        for name in (*known.prompt, *(part for parts in known.prompt.values() for part in parts), *known.answer):
            _value(usage, name)
        for keys in known.summing:
            _value(usage, keys.rounds)
            tools = _value(usage, keys.server_tools[0])
            for name in keys.server_tools[1]:
                _value(tools, name)
    except Exception as error:  # noqa: BLE001 - the answer is paid for: it must not be lost over its bill
        _say_unreadable(f"{type(usage).__module__}.{type(usage).__qualname__}", type(error).__name__)
        return False
    return True


@cache
def _say_unreadable(kind: str, error: str) -> None:
    logger.warning("a usage teaches nothing: reading %s raised %s; pass the usage of the response itself", kind, error)


def _total(usage: Native) -> int | None:
    for name, parts in _keys().prompt.items():
        if (amount := _field(usage, name)) is not None:
            return amount + sum(_field(usage, part) or 0 for part in parts)
    return None


def _leaves_it_out(usage: Native) -> bool:
    """Whether it is a usage that does not say how large the prompt was, and says nothing impossible of it either."""
    known = _keys().prompt
    empty = all(_value(usage, name) is None for name in known)
    named = isinstance(usage, Mapping) and any(name in usage for name in known)
    return empty and (named or output_tokens(usage) is not None or any(hasattr(usage, name) for name in known))


def _is_one(usage: Native, keys: UsageKeys) -> bool:
    rounds, tools = _value(usage, keys.rounds), _value(usage, keys.server_tools[0])
    if tools is not None and any(_field(tools, name) for name in keys.server_tools[1]):
        return False
    return not isinstance(rounds, Sequence) or len(rounds) < 2


def _field(usage: Native, name: str) -> int | None:
    value = _value(usage, name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON knows one kind of number
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _value(usage: Native, name: str) -> Native:
    return usage.get(name) if isinstance(usage, Mapping) else getattr(usage, name, None)


@frozen
class Judgement:
    """What a report of usage is worth.

    Args:
        doubt: Why the prompt was probably cut; None when it was not.
        whole: Whether the whole prompt is billed, so that something can be learned from its size.
    """

    doubt: Suspicion | None = None
    whole: bool = True


def judge(
    usage: Native,
    billed: int,
    limits: LearnedLimits,
    reader: Reader,
    context: Context,
    *,
    sent: int,
    new_tokens: int,
    cleared: int = 0,
) -> Judgement:
    """Whether the provider seems to have cut the prompt that ``usage`` bills, or left a part out of the bill.

    Args:
        usage: The response's usage.
        billed: The size of the prompt in it, in tokens.
        limits: How the provider counts, compared to us.
        reader: What has read and counted the prompt.
        context: The prompt as it was sent.
        sent: The prompt by our own count, in tokens.
        new_tokens: Tokens of it that the prompt before did not have.
        cleared: Tokens that the provider has cleared of it, as it was asked to: they are billed to nobody.
    """
    billed += cleared
    calibration, profile = limits.calibration, reader.profile
    expected = calibration.expected(sent)
    output = output_tokens(usage)
    window = None if profile is None or cleared else profile.window
    calibrated = calibration.anchor is not None
    uncertain = 0
    if billed < SHARE * expected:  # rare: only then it is worth the look at all messages
        uncertain = sum(_uncertain(message.parts, reader.meter) for message in context.messages)
        uncertain += (
            0 if calibrated else reader.meter.fixed(context)
        )  # tools may be deferred, and schemas are written in many ways
    new = round(new_tokens * expected / max(1, sent))
    doubt = suspect_truncation(
        billed,
        expected,
        fresh=new,
        uncertain=round(uncertain * expected / max(1, sent)),
        calibrated=calibrated,
        window=window,
        output=output,
        stopped_by_length=output == 0,
    )
    return Judgement(doubt, doubt is None and not leaves_out_cached(billed, expected, new))


def suspected(
    doubt: Suspicion, profile: ModelProfile | None, messages: int, session: str | None, step: int
) -> SilentTruncationSuspected:
    """The event that tells of a suspicion.

    Args:
        doubt: The suspicion.
        profile: What is known of the model.
        messages: How many messages were sent.
        session: The session's id.
        step: The number of the step whose prompt was cut.
    """
    said = StageReport("server", (), doubt.sent, doubt.billed, 0.0, (doubt.why,))
    window = None if profile is None else profile.window
    return SilentTruncationSuspected(
        (said,), messages, messages, doubt.sent, doubt.billed, session, step, why=doubt.why, window=window
    )


def _uncertain(parts: Iterable[Part], meter: Meter) -> int:
    """Tokens of parts that providers count in ways of their own, or drop: media, reasoning, what we cannot read."""
    unclear = [part for part in parts if isinstance(part, (Media, Opaque, Thinking))]
    within = sum(_uncertain(part.content, meter) for part in parts if isinstance(part, ToolResult))
    return within + (meter.parts(unclear) if unclear else 0)


SAMPLES = 16
"""How many differences the ratio is the median of."""

LEAST_DIFFERENCE = 300
"""Tokens; smaller differences say more about rounding than about the ratio, and are added up."""

LEAST_SHARE = 0.08
"""Differences of a smaller share of the prompt are added up as well: what is off by little in all of it hides them."""

UNKNOWN = 4_000
"""Tokens; a first prompt of this size owes as much of its difference to wrapping and tools as to the tokenizer."""

TOO_FAR = 0.5
"""A prompt billed with so much more than ours, as a share of it, owes that rather to what we were not shown, as tools
and instructions that a client adds, than to the tokenizer; the farther, the more."""

ENOUGH_SAMPLES = 3
"""So many samples speak for themselves; fewer are joined by what the last prompt as a whole says."""

AGREE = 1.4
"""Two samples, or one and what the last prompt as a whole says, agree when the larger is at most so many times the
smaller: then the samples speak for themselves, too."""

BELIEVABLE = (0.6, 2.5)
"""Ratios outside of this are taken for a mistake in the report."""

FOLLOWS = 0.3
"""Where what is billed grows by less than this share of what we count, it does not follow the prompt at all."""


@define
class Calibration:
    """How a provider's count of a conversation relates to ours.

    One bad report does no harm: a size that no believable ratio explains becomes the anchor only when the next
    report confirms it.

    Args:
        anchor: The last believed report: (our count, the provider's count), in tokens; None before the first.
        reports: How many reports were believed.
        samples: The last ratios that were learned from differences.
        doubtful: A report that was not believed and waits to be confirmed.
        base: The report that the next difference is taken from.
        sound: The last report whose size followed ours from the sound one before it. Reports that are each off by
            little may be off by much together, as those of a server that cuts what is too long for it.
    """

    anchor: tuple[Tokens, Tokens] | None = None
    reports: int = 0
    samples: list[float] = field(
        factory=list, validator=[max_len(SAMPLES), deep_iterable(and_(ge(BELIEVABLE[0]), le(BELIEVABLE[1])))]
    )
    doubtful: tuple[Tokens, Tokens] | None = None
    sound: tuple[Tokens, Tokens] | None = None
    base: tuple[Tokens, Tokens] | None = None

    @property
    def ratio(self) -> float:
        """The provider's tokens for one of ours, for what is appended."""
        known = self.samples
        if len(known) >= ENOUGH_SAMPLES or (known and _agree([*known, self._guess()][:2])):
            return _median(known)
        return _median([*known, self._guess()])

    def _guess(self) -> float:
        """What the last prompt as a whole says of the ratio; the smaller it was, the less."""
        if self.anchor is None:
            return 1.0
        local, billed = self.anchor
        off = _clamped(billed / max(1, local)) - 1.0
        return 1.0 + off * local / (local + UNKNOWN) / (1 + (off / TOO_FAR) ** 4)

    def learn(self, local: int, billed: int) -> None:
        """Take in a report: what we counted for a prompt, and what the provider billed, in tokens."""
        if local < 1 or billed < 1:
            return
        if self.doubtful is not None and _explains(self.doubtful, local, billed):
            self.anchor = self.base = self.doubtful
        elif not self._believes(local, billed):
            self.doubtful = (local, billed)
            return
        self.doubtful = None
        self._sample(local, billed)
        if self.sound is None or _follows(self.sound, local, billed):
            self.sound = (local, billed)
        self.anchor, self.reports = (local, billed), self.reports + 1

    def estimate(self, local: int) -> int:
        """What the provider will count for a prompt that we count ``local`` tokens for."""
        if self.anchor is None:
            return local
        return self._from(self.anchor, local)

    def expected(self, local: int) -> int:
        """What a provider that reads all of the prompt counts at least, whatever was billed since the sound report."""
        ratio = _median(self.samples) if self.samples else 1.0
        alone = max(1, round(ratio * local))
        return alone if self.sound is None else min(alone, self._from(self.sound, local))

    def go_back(self) -> None:
        """Forget the reports since the last sound one."""
        self.anchor = self.base = self.sound
        self.doubtful = None

    def _from(self, report: tuple[int, int], local: int) -> int:
        known, billed = report
        return max(1, round(billed + self.ratio * (local - known)))

    def local(self, billed: int) -> int:
        """The largest count of ours that the provider will count as at most ``billed`` tokens; at least 1."""
        if self.anchor is None:
            return billed
        known, last = self.anchor
        return max(1, int(known + (billed - last) / self.ratio))

    def _believes(self, local: int, billed: int) -> bool:
        if self.anchor is None:
            low, high = BELIEVABLE
            return low * local - LEAST_DIFFERENCE <= billed <= high * local + 20 * LEAST_DIFFERENCE
        return _explains(self.anchor, local, billed)

    def _sample(self, local: int, billed: int) -> None:
        if self.base is None:
            self.base = (local, billed)
        difference = local - self.base[0]
        if abs(difference) < max(LEAST_DIFFERENCE, local * LEAST_SHARE):
            return
        ratio = (billed - self.base[1]) / difference
        if ratio >= FOLLOWS:
            self.samples = [*self.samples, _clamped(ratio)][-SAMPLES:]
        self.base = (local, billed)


def _agree(ratios: Sequence[float]) -> bool:
    return max(ratios) <= AGREE * min(ratios)


def _clamped(ratio: float) -> float:
    low, high = BELIEVABLE
    return min(high, max(low, ratio))


def _explains(anchor: tuple[int, int], local: int, billed: int) -> bool:
    """Whether some believable ratio leads from the anchor to this report."""
    difference = local - anchor[0]
    ends = sorted(anchor[1] + ratio * difference for ratio in BELIEVABLE)
    slack = LEAST_DIFFERENCE + anchor[1] // 10
    return ends[0] - slack <= billed <= ends[1] + slack


def _follows(sound: tuple[int, int], local: int, billed: int) -> bool:
    """Whether a report's size has followed ours from a sound one: a prompt that grew was billed for it."""
    low, high = BELIEVABLE
    grown = local - sound[0]
    return billed >= sound[1] + (low if grown >= 0 else high) * grown - LEAST_DIFFERENCE


def _median(values: Sequence[float]) -> float:
    """As that of ``statistics``, which takes longer to import than all of the counting."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


CONTRADICTED = 10
"""So many accepted prompts that were larger than a limit say that it is none. A few may be sums of several prompts,
which some providers report when tools ran on the server."""

OBEYED = 64
"""So many accepted prompts after the one error that named a limit, the room of before is tried once more: whoever obeys
a limit never contradicts it. Refused again, it is believed."""

FEW = 16
"""So many are enough where larger ones were accepted."""

REMEMBERED = 32
"""The sizes of so many accepted prompts are remembered."""


@define(eq=False, repr=False)
class OverflowLimit:
    """The most that a provider takes, as far as its errors and its answers tell.

    Args:
        tokens: The most by our count, in tokens; None when no error taught any, or it was given up.
        stated: The same by the provider's count: a larger prompt that it takes contradicts the limit.
        accepted: The sizes of the last prompts that it took, by its count, in tokens.
        given_up: The limit, by the provider's count, that was given up last; None once a larger prompt was taken.
        obeyed: So many prompts were accepted since one error named the limit; None where it is believed, or guessed.
    """

    tokens: Tokens | None = None
    stated: Tokens | None = None
    accepted: list[Tokens] = field(factory=list, validator=max_len(REMEMBERED))
    given_up: Tokens | None = None
    obeyed: int | None = None

    def taken(self, billed: int) -> bool:
        """Take in that the provider took a prompt of this size, by its count, and say whether a limit was given up."""
        self.accepted = [*self.accepted, billed][-REMEMBERED:]
        if self.given_up is not None and billed > self.given_up:
            self.given_up = None
        if self.stated is None:
            return False
        larger = sum(size > self.stated for size in self.accepted)
        if self.obeyed is not None:
            self.obeyed += 1
        if larger < CONTRADICTED and (self.obeyed or 0) < (FEW if larger else OBEYED):
            return False
        self.given_up = self.stated
        self.reset()
        return True

    def refused(self, tokens: int, stated: int, *, named: bool = False) -> None:
        """Take in that the provider takes no more than this; of two limits the smaller one holds.

        Args:
            tokens: The most by our count.
            stated: The most by the provider's count, as it says or as far as it can be told.
            named: Whether it says so.
        """
        if self.given_up is not None and stated <= self.given_up:
            self.accepted.clear()  # refused again, and nothing larger was taken in between
            self.obeyed = None
        elif self.stated is None or stated < self.stated:
            self.obeyed = 0 if named else None
        self.given_up = None
        self.tokens = tokens if self.tokens is None else min(tokens, self.tokens)
        self.stated = stated if self.stated is None else min(stated, self.stated)

    def reset(self) -> None:
        """Forget the limit; what was accepted stays known."""
        self.tokens = self.stated = self.obeyed = None


WORTH_IT = 0.99
"""A correction that leaves this share of the budget or more is not made: it would move the cut for nothing."""

SAFE = 0.98
"""Share of a limit that an error named which is used from then on."""

STRICTLY = 0.95
"""The next view has at most this share of the one that was refused."""

BLIND = 0.75
"""Share of the refused view when the error names no number."""

MOST_RESERVED = 0.5
"""Share of a limit that an error named which is kept free for the answer at most: the reserve was set for another."""


@define(eq=False, repr=False)
class LearnedLimits:
    """The budget in force.

    Args:
        given: The budget as it was configured; None when there is none.
        calibration: How the provider counts, compared to us.
        learned: The most that the provider takes, as an error taught.
        truncation: Why the provider is suspected of cutting prompts silently; None when it is not.
        in_force: The budget to keep now; None when there is none.
    """

    given: Budget | None
    calibration: Calibration = field(factory=Calibration)
    learned: OverflowLimit = field(factory=OverflowLimit)
    truncation: Suspicion | None = None
    in_force: Budget | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Work out what is in force."""
        self._renew()

    def learn(self, sent: int, billed: int, cleared: int = 0) -> None:
        """Take in a report of usage, in tokens: what we counted, what was billed, what the provider cleared of it."""
        self.calibration.learn(sent, billed + cleared)
        self.learned.taken(billed)
        self._renew()

    def suspects(self, doubt: Suspicion) -> bool:
        """Take in that a prompt was probably cut, take back what was learned on the way, and say whether it is new."""
        self.calibration.go_back()
        self._renew()
        new = self.truncation is None
        self.truncation = doubt if new else self.truncation
        return new

    def refused(self, overflow: Overflow, sent: int) -> None:
        """Take in that a view which we counted as ``sent`` tokens was too large."""
        says = overflow.limit if overflow.kind in ("window", "rate") else None
        stated = self.calibration.estimate(sent) if says is None else says
        most = max(1, min(int(sent * STRICTLY), self._taken(overflow, sent)))
        self.learned.refused(most, max(1, stated), named=says is not None)
        self._renew()

    def taught(self) -> OverflowLimit:
        """What errors have taught up to now, to go back to."""
        return deepcopy(self.learned)

    def forget(self, before: OverflowLimit | None = None) -> None:
        """Take back what errors taught.

        Args:
            before: What they had taught before the one of which nothing smaller could be made; None: nothing.
        """
        self.learned = OverflowLimit() if before is None else before
        self._renew()

    def _taken(self, overflow: Overflow, sent: int) -> int:
        """The largest view that the provider would have taken, by our count, as far as its error tells."""
        limit, requested, prompt = overflow.limit, overflow.requested, overflow.prompt
        size = requested if prompt is None or prompt < 1 else prompt
        if limit is not None and size is not None and size > 0:
            answer = 0 if prompt is None or requested is None else max(0, requested - prompt)
            return int(sent * max(0, limit - max(answer, self._reserve(overflow, limit))) / size * SAFE)
        if overflow.excess is not None and overflow.kind == "window":
            return int((sent - overflow.excess) * SAFE)
        if limit is not None and overflow.kind == "window":
            most = self.calibration.local(limit - self._reserve(overflow, limit))
            if most < sent:
                return int(most * SAFE)
        return int(sent * BLIND)

    def _reserve(self, overflow: Overflow, limit: int) -> int:
        """Tokens of the limit to keep free for the answer: most providers count both together, and few say so."""
        if self.given is None or overflow.kind not in ("window", "rate"):
            return 0
        return min(self.given.reserved, int(limit * MOST_RESERVED))

    def local(self, limit: int) -> int:
        """A limit in the provider's tokens by our count, and at most what an error taught."""
        limit = self.calibration.local(limit)
        return limit if self.learned.tokens is None else min(limit, self.learned.tokens)

    def _renew(self) -> None:
        given = self.given
        if given is None:
            self.in_force = None if self.learned.tokens is None else Budget(self.learned.tokens)
            return
        share = self.local(given.limit) / given.limit
        self.in_force = given if share >= WORTH_IT else given.scaled(share)


MOST_MODELS = 16
"""So many models of one conversation are remembered; the one that was called longest ago is forgotten first."""


@define(eq=False, repr=False)
class LimitsByModel:
    """The limits of each model: what its provider's answers taught holds for it alone.

    Args:
        plan: Has the budget, or says that it is the model's.
        home: The model that the budget was made for, if it is known.
        own: The conversation's own budget, instead of the plan's.
        known: What was learned of each model, the current model last.
    """

    plan: Plan
    home: str | None = None
    own: Budget | None = None
    known: OrderedDict[str | None, LearnedLimits] = field(init=False, factory=OrderedDict)

    def of(self, model: str | None) -> LearnedLimits:
        """What is known of a model.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        known = self.known.get(model)
        return LearnedLimits(self._given(model)) if known is None else evolve(known, given=self._given(model))

    def keep(self, model: str | None, limits: LearnedLimits) -> None:
        """Remember what is known of the model that is called now."""
        if self.home is None:
            self.home = model
        self.known[model] = limits
        self.known.move_to_end(model)
        if len(self.known) > MOST_MODELS:
            self.known.popitem(last=False)

    def _given(self, model: str | None) -> Budget | None:
        """The budget for a model; smaller in proportion when it was made for another one with a larger window."""
        given = self.plan.budget_for(model) if self.own is None else self.own
        profile = None if model == self.home or self.home is None else known_profile(model)
        if (
            given is None
            or profile is None
            or (room := profile.max_input or profile.window) is None
            or room >= given.window
        ):
            return given
        return given.scaled(room / given.window)

    def for_child(self, own: Budget | None, model: str | None) -> LimitsByModel:
        """Those of a child with a budget of its own, which begins with what is known by now.

        Args:
            own: The child's budget.
            model: The model that the child begins with.
        """
        made = LimitsByModel(self.plan, model, own)
        made.known = deepcopy(self.known)
        return made
