"""A session as versioned JSON, and back: what was learned, and what was sent last."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any

from attrs import asdict, fields

from agentctx.core.budget import Budget, MediaLimits
from agentctx.core.message import Native
from agentctx.economics.truncation import Suspicion
from agentctx.errors import ConfigError, InvalidInput
from agentctx.printable import shown
from agentctx.session.checked import Checked
from agentctx.session.learned_limits import REMEMBERED, Allowance, LearnedLimit
from agentctx.tokens.calibration import BELIEVABLE, SAMPLES, Calibration

VERSION = 4

STATE = (
    "version", "id", "model", "home", "format", "assumed", "steps", "children", "billed_tokens", "budget", "sent",
    "learned", "fixed", "head", "opening", "retried", "record",
)  # fmt: skip
"""The fields of a session's state."""

SENT = ("tokens", "length", "intact", "at")
"""The fields of what was sent last: tokens, messages, unchanged messages at the start, seconds since 1970."""

_LEARNED = (
    "model", "limit", "stated", "accepted", "given_up", "obeyed", "anchor", "reports", "ratios", "doubtful", "sound",
    "base", "truncation",
)  # fmt: skip
_TRUNCATION = ("billed", "sent", "why")
_BUDGET = tuple(attribute.name for attribute in fields(Budget))
_MEDIA = tuple(attribute.name for attribute in fields(MediaLimits))


def opened(state: Native) -> Checked:
    """The state, when it is one that can be read.

    Args:
        state: What ``Session.dump`` gave, or its JSON text.

    Raises:
        InvalidInput: If it is none, or of another version.
    """
    if isinstance(state, (str, bytes, bytearray)):
        try:
            state = json.loads(state)
        except (ValueError, RecursionError) as error:
            where = "state"
            raise InvalidInput(where, f"not JSON: {error}") from error
    if not isinstance(state, Mapping):
        where = "state"
        raise InvalidInput(where, f"expected an object, got {type(state).__name__}")
    version = state.get("version")
    if isinstance(version, bool) or version != VERSION:
        where = "state.version"
        raise InvalidInput(where, f"expected a session's state of version {VERSION}, got {shown(version)}")
    return Checked.of(state, "state", STATE)


def dump_learned(allowance: Allowance) -> dict[str, Any]:
    """What was learned about one model, as plain JSON values."""
    calibration = allowance.calibration
    return {
        "limit": allowance.learned.tokens,
        "stated": allowance.learned.stated,
        "accepted": list(allowance.learned.accepted),
        "given_up": allowance.learned.given_up,
        "obeyed": allowance.learned.obeyed,
        "anchor": _pair(calibration.anchor),
        "reports": calibration.reports,
        "ratios": list(calibration.samples),
        "doubtful": _pair(calibration.doubtful),
        "sound": _pair(calibration.sound),
        "base": _pair(calibration.base),
        "truncation": None if allowance.truncation is None else asdict(allowance.truncation),
    }


def _pair(sizes: tuple[int, int] | None) -> list[int] | None:
    return None if sizes is None else list(sizes)


def load_learned(state: Native, where: str) -> Allowance:
    """What was learned about one model; the budget is to be set.

    Raises:
        InvalidInput: If the state is damaged; names the place.
    """
    known = Checked.of(state, where, _LEARNED)
    ratios = known.reals("ratios")
    low, high = BELIEVABLE
    if len(ratios) > SAMPLES or not all(low <= ratio <= high for ratio in ratios):
        raise known.fail("ratios", f"expected at most {SAMPLES} numbers from {low} to {high}")
    calibration = Calibration(
        _sizes(known, "anchor"),
        known.whole("reports"),
        deque(ratios, maxlen=SAMPLES),
        _sizes(known, "doubtful"),
        _sizes(known, "sound"),
        _sizes(known, "base"),
    )
    return Allowance(None, calibration, _learned_limit(known), _suspicion(known))


def _learned_limit(known: Checked) -> LearnedLimit:
    accepted = known.wholes("accepted", least=1)
    if len(accepted) > REMEMBERED:
        raise known.fail("accepted", f"expected at most {REMEMBERED} sizes, got {len(accepted)}")
    tokens, stated = known.whole_or_none("limit", least=1), known.whole_or_none("stated", least=1)
    if (tokens is None) != (stated is None):
        raise known.fail("stated", "it and limit are known together, or neither is")
    sizes = deque(accepted, maxlen=REMEMBERED)
    given_up, obeyed = known.whole_or_none("given_up", least=1), known.whole_or_none("obeyed")
    return LearnedLimit(tokens, stated, sizes, given_up, obeyed)


def _suspicion(known: Checked) -> Suspicion | None:
    if known.values["truncation"] is None:
        return None
    said = Checked.of(known.values["truncation"], known.at("truncation"), _TRUNCATION)
    return Suspicion(said.whole("billed", least=1), said.whole("sent"), said.text("why"))


def _sizes(known: Checked, name: str) -> tuple[int, int] | None:
    """Two numbers of tokens: ours, and the provider's."""
    if known.values[name] is None:
        return None
    sizes = known.wholes(name, least=1)
    if len(sizes) != 2:
        raise known.fail(name, f"expected two numbers of tokens, got {len(sizes)}")
    return sizes[0], sizes[1]


def dump_budget(budget: Budget | None) -> dict[str, Any] | None:
    """A budget as plain JSON values."""
    return None if budget is None else asdict(budget)


def load_budget(state: Native, where: str) -> Budget | None:
    """The budget that was dumped.

    Raises:
        InvalidInput: If it is damaged or makes no sense; names the place.
    """
    if state is None:
        return None
    known = Checked.of(state, where, _BUDGET)
    media = Checked.of(known.values["media"], known.at("media"), _MEDIA)
    limits = MediaLimits(*(media.whole_or_none(name, least=1) for name in _MEDIA))
    amounts = {name: value for name, value in known.values.items() if name != "media"}
    known.whole("window", least=1)
    try:
        return Budget(**amounts, media=limits)
    except ConfigError as error:
        raise InvalidInput(where, str(error)) from error
