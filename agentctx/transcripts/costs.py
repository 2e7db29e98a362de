"""What the calls of a recording cost as they were billed, and what they would cost: with a pipeline, and without.

What tools and providers write of tokens is read as one value; what was billed is taken as it stands. What would
be billed is reckoned by the provider's cache rules and the price table: for the requests as the loop had them and for
those that would have been sent, with the same answers at the same times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import inf

from attrs import evolve, field, frozen

from agentctx.economics import Usage, cost
from agentctx.engine.reading import as_list
from agentctx.errors import ConfigError
from agentctx.message import Native
from agentctx.models.profile import ModelProfile, cache_rules
from agentctx.models.table import find
from agentctx.replay import Billed, Recording, Step, calls_of, reader_of

_WHOLE = ("input_tokens", "prompt_tokens", "promptTokenCount", "prompt_token_count", "inputTokens")
_ANSWER = ("output_tokens", "completion_tokens", "candidatesTokenCount", "candidates_token_count", "outputTokens")
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_APART = ("cache_read_input_tokens", "cache_creation_input_tokens", "cacheReadInputTokens", "cacheWriteInputTokens")
_READ = (
    *("cache_read_input_tokens", "cacheReadInputTokens", "cached_input_tokens", "cache_read_tokens"),
    *("cachedContentTokenCount", "cached_content_token_count", "input_tokens_cache_read"),
)
_WRITTEN = (
    *("cache_creation_input_tokens", "cacheWriteInputTokens", "cache_write_tokens", "input_tokens_cache_write"),
    "cache_write_input_tokens",
)
_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_DETAILS_READ = ("cached_tokens", "cache_read")
_DETAILS_WRITTEN = ("cache_creation", "cache_creation_tokens", "cache_write_tokens")
_MOST = 2**50


def usage_of(native: Native) -> Usage | None:
    """The tokens of one call as a provider, or a framework, writes them; None when it says none.

    Anthropic and Bedrock write what the cache held beside the input, all others as a part of it.
    """
    if not isinstance(native, Mapping):
        return None
    whole, output = _first(native, _WHOLE), _first(native, _ANSWER)
    if whole is None and output is None:
        return None
    details: Mapping[str, Native] = next((native[key] for key in _DETAILS if isinstance(native.get(key), Mapping)), {})
    cached = _first(native, _READ) or _first(details, _DETAILS_READ) or 0
    written = _first(native, _WRITTEN) or _first(details, _DETAILS_WRITTEN) or 0
    held = cached + written
    in_total = held > 0 and _first(native, ("total_tokens",)) == (whole or 0) + (output or 0) + held
    apart = in_total or any(key in native for key in _APART)
    fresh = (whole or 0) if apart else max(0, (whole or 0) - cached - written)
    writes = native.get("cache_creation")
    long = _first(writes, ("ephemeral_1h_input_tokens",)) if isinstance(writes, Mapping) else None
    long = min(written, long or 0)
    answer = (output or 0) + (_first(native, _THOUGHTS) or 0)
    return Usage(fresh, cached, written - long, long, answer)


def _first(native: Mapping[str, Native], keys: tuple[str, ...]) -> int | None:
    return next((int(amount) for key in keys if (amount := number(native.get(key))) is not None), None)


def number(value: Native) -> float | None:
    """A number of tokens, dollars or seconds, as a log has it; None when it is none."""
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if known else None


def seconds(stamp: Native) -> float | None:
    """A date as logs write it (``2026-01-31T12:00:00.000Z``), in seconds since 1970; None when it is none."""
    if not isinstance(stamp, str):
        return None
    try:
        moment = datetime.fromisoformat(stamp)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


PAUSE = 20.0
"""How long after the call before one is taken to be made, in seconds, where the recording does not say when."""


@frozen
class Cost:
    """What calls cost.

    Args:
        calls: How many.
        usage: Their tokens together.
        usd: Their price in USD; of those whose price is known.
        unpriced: How many have no price that is known.
    """

    calls: int = 0
    usage: Usage = field(factory=Usage)
    usd: float = 0.0
    unpriced: int = 0

    def plus(self, usage: Usage, usd: float | None) -> Cost:
        """With one call more, whose price is not known when it is None."""
        missing = usd is None
        return Cost(self.calls + 1, self.usage + usage, self.usd + (usd or 0.0), self.unpriced + missing)

    def __str__(self) -> str:
        """One phrase: ``1,204,000 tokens in, 93% of them from the cache, 20,100 out: $1.24``."""
        tokens = f"{self.usage.prompt:,} tokens in, {self.usage.cached_share:.0%} of them from the cache"
        return f"{tokens}, {self.usage.output:,} out: {self.price}"

    @property
    def price(self) -> str:
        """The price, and what of it is not known."""
        if self.unpriced == self.calls:
            return "no price known"
        rest = f", without {self.unpriced} calls whose price is not known" if self.unpriced else ""
        return f"${self.usd:,.2f}{rest}"


@frozen
class Costs:
    """What a replay costs, three times.

    Args:
        billed: As the recording says that it was billed; None where it says nothing.
        without: Reckoned for the requests as the loop had them; None where the model has no price that is known.
        sent: Reckoned for the requests that would have been sent.
        unlogged: Tokens of the system prompt and the tools that were billed and are not in the recording: reckoned as a
            part of each request.
    """

    billed: Cost | None
    without: Cost | None
    sent: Cost | None
    unlogged: int = 0

    def rows(self) -> list[tuple[str, str]]:
        """The costs as pairs of a label and what there is to say."""
        rows = [] if self.billed is None else [("as it was billed", str(self.billed))]
        if self.without is None or self.sent is None:
            return rows
        share = f" ({self.sent.usd / self.without.usd - 1:+.0%})" if self.without.usd else ""
        rows += [("reckoned without", str(self.without)), ("reckoned with", f"{self.sent}{share}")]
        if self.unlogged:
            rows.append(("", f"{self.unlogged:,} tokens that the log does not hold (system prompt, tools) included"))
        return rows


def billed_cost(billed: Iterable[Billed]) -> Cost:
    """What calls cost by what was billed: the recorded price, else what the price table says."""
    total = Cost()
    for one in billed:
        total = total.plus(one.usage, one.cost if one.cost is not None else _price(one.usage, one.model))
    return total


def _price(usage: Usage, model: str | None) -> float | None:
    profile = None if model is None else find(model)
    if profile is None:
        return None
    try:
        return cost(usage, profile)
    except ConfigError:
        return None


def reckoned(recording: Recording, steps: Sequence[Step], model: str | None = None) -> Costs:
    """What the calls of a replay cost: as billed, and reckoned for both kinds of requests.

    Args:
        recording: What was replayed.
        steps: Its calls.
        model: The model, when it is not the recorded one.
    """
    billed = billed_cost(recording.billed) if recording.billed else None
    model = model or recording.model
    profile = None if model is None else find(model)
    if profile is None or not steps or _price(Usage(1), model) is None:
        return Costs(billed, None, None)
    before = [0, *(step.tokens_given for step in steps)]
    given = [(step.tokens_given, shared) for step, shared in zip(steps, before, strict=False)]
    prepared = [(0 if step.overflow else step.tokens_sent, step.prefix_tokens) for step in steps]
    without, sent = (way[-1] for way in _sums((given, prepared), recording, steps, profile, model))
    return Costs(billed, without, sent, unlogged(recording, model))


def unlogged(recording: Recording, model: str | None = None) -> int:
    """The tokens that were billed for the first call and are not in the recording: system prompt and tools.

    0 where nothing was billed, and where half of the model's window is missing: then the recording begins later
    than the conversation.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.
    """
    calls = calls_of(recording, model=model) if recording.billed else []
    first = next((bill for bill in recording.billed if calls and calls[0] <= bill.index), None)
    if first is None or (len(calls) > 1 and first.index >= calls[1]):
        return 0
    given = as_list(recording.messages)[: calls[0]]
    model = model or recording.model
    source = reader_of(evolve(recording, messages=given), model)
    missing = first.usage.prompt - source.meter.size(source.context(given, recording.system, recording.tools))
    profile = None if model is None else find(model)
    window = None if profile is None else profile.window
    return max(0, missing) if window is None or missing <= window // 2 else 0


def spent(
    recording: Recording, steps: Sequence[Step], ways: Sequence[Sequence[tuple[int, int]]], model: str | None = None
) -> tuple[tuple[float, ...], ...] | None:
    """What the calls up to each one cost, in USD, reckoned as by ``reckoned``; None where no price is known.

    Args:
        recording: What was replayed.
        steps: Its calls.
        ways: For each way of sending, the requests: the tokens of each, and of the start that it shares with the one
            before. One without tokens was not sent, and costs nothing.
        model: The model, when it is not the recorded one.
    """
    model = model or recording.model
    profile = None if model is None else find(model)
    if profile is None or _price(Usage(1), model) is None:
        return None
    sums = _sums(ways, recording, steps, profile, model)
    return tuple(tuple(cost.usd for cost in way) for way in sums)


def _sums(
    ways: Iterable[Sequence[tuple[int, int]]],
    recording: Recording,
    steps: Sequence[Step],
    profile: ModelProfile,
    model: str | None,
) -> Iterator[list[Cost]]:
    """Yield what the requests up to each call cost, for each way of sending; the arguments are those of ``spent``.

    The start that a request shares with the one before is read from the cache while that still holds it.
    """
    rules, missing, times = cache_rules(profile), unlogged(recording, model), _times(recording, steps, model)
    is_long = any(bill.usage.written_long for bill in recording.billed)
    lives = rules.ttl_long if is_long and rules.ttl_long is not None else rules.ttl
    for way in ways:
        sums, total, sent_at = list[Cost](), Cost(), -inf
        for (tokens, shared), (at, output) in zip(way, times, strict=True):
            if tokens:
                whole = tokens + missing
                read = rules.readable(shared + missing) if at - sent_at <= lives else 0
                written = whole - read if rules.write_fee and whole >= rules.smallest else 0
                kept = (0, written) if is_long else (written, 0)
                usage = Usage(whole - read - written, read, *kept, output)
                total, sent_at = total.plus(usage, cost(usage, profile)), at
            sums.append(total)
        yield sums


def _times(recording: Recording, steps: Sequence[Step], model: str | None) -> list[tuple[float, int]]:
    """Tell when each call was made, in seconds, and how many tokens its answer has."""
    source = reader_of(recording, model)
    messages = source.messages(as_list(recording.messages))
    times: list[tuple[float, int]] = []
    for step, end in zip(steps, [*(step.index for step in steps[1:]), len(messages)], strict=True):
        bills = [bill for bill in recording.billed if step.index <= bill.index < end]
        answers = [message for message in messages[step.index : end] if message.role == "assistant"]
        output = sum(bill.usage.output for bill in bills) or sum(map(source.meter.message, answers))
        stated = next((bill.at for bill in bills if bill.at is not None), None)
        before = times[-1][0] if times else 0.0
        times.append((before + PAUSE if stated is None else max(before, stated), output))
    return times
