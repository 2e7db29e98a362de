"""Pipelines that are ready to use, with settings that were measured (``benchmarks/``: economics and compression)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from agentctx.budget import Budget
from agentctx.economics import pays_back
from agentctx.engine.cut import Protect
from agentctx.engine.plan import as_budget
from agentctx.errors import UnknownModel
from agentctx.models.profile import cache_rules
from agentctx.models.table import find
from agentctx.pipeline import Pipeline
from agentctx.protocols import ContextStrategy
from agentctx.strategies.drop_superseded import DropSuperseded
from agentctx.strategies.drop_units import ClearToolResults, ShrinkArguments
from agentctx.strategies.fit import CompactJson, FitContextWindow, TabulateJson, TruncateToolOutputs
from agentctx.strategies.fold_output import FoldOutput
from agentctx.strategies.ledger import Ledger, told_of
from agentctx.strategies.place_cache_markers import PlaceCacheMarkers
from agentctx.strategies.reuse_lines import ReuseLines
from agentctx.strategies.when import when
from agentctx.unit import has_user_words

__all__ = ["assistant", "coding_agent", "general", "thrifty"]

DOWN_TO = 0.25
"""A cut goes down to this share of where it began: a cached prefix then breaks rarely.

A conversation that grows by g tokens a call, from a share t of the trigger to all of it, reads (1 + t) / 2 of the
trigger at each call and writes g / (1 - t), the cut with it. Both are least at t = 0, where nothing is left; at t = 1/4
they are at most a third larger, whatever the prices are, and at t = 1/2 up to twice as large.
"""

IN_LEDGER = 0.045
"""So much of the window tells of what went: for the same price it keeps more than a cut that goes less deep."""

KEPT = 1.1
"""So many times the shortest prefix that the model's cache keeps stay after a cut: of less nothing could be read."""

FEWEST_CALLS = 20
"""No tool output may take more than one part in so many of the window.

Each token is written once and then read: to read nine tenths of the input from the cache takes some twenty calls from
one cut to the next.
"""

SMALLEST_CAP = 500
"""But so many tokens of a tool output stay in any case."""

RECENT_RESULTS = 5
"""So many tool results stay whatever is cleared: those of a round with parallel calls should be among them."""

_KINDS = "headers", "numbers", "hits", "progress", "terminal"
"""Of these kinds a coding agent's tools say it in fewer tokens, when it arrives: no value that later calls need went.

JSON stays as it stands: a file that is to be edited must be seen with its blanks. So do all line numbers: an agent may
edit by them.
"""

_LARGE_KINDS = "html", "matches", "tests", "traces", "diffs"
"""Of these kinds it is folded where it would be cut to head and tail otherwise: of each what an agent needs stays."""

_FIRST_TO_GO = DropSuperseded(short=False, stale=True), ShrinkArguments(5, max_tokens=60)
"""What a cut leaves out before anything that can be had only here: what stands there again, what files and commands
said before they were changed or ran again, and what was written to files but by the last five calls. The handle stays.
"""

_DATA = TabulateJson(), CompactJson(), ReuseLines(4)
"""What tools that answer with JSON say in fewer tokens, since nobody edits that; rows of tables come again in shorter
runs than code."""

IN_TALK, TOLD_IN_TALK = 0.5, 0.04
"""In conversations with people a cut goes down to half, and a twenty-fifth of the window tells of what went."""


def general(budget: Budget | int | str, model: str | None = None) -> Pipeline:
    """Cut as late as the budget allows, and then deep: tool results first, then the oldest rounds.

    Between two cuts nothing changes, so that the provider's cache is read; a cut is paid back soon, since most of
    what would have to be written again is gone. With the same windows it costs less than trimming a little at every
    step, by every provider's cache rules. Cache markers are set where the provider asks for them.

    Args:
        budget: The room of one model call; an integer is a window, as of ``Budget``, and a text the name of a model of
            the model table, whose budget it is (``Budget.for_model``). Either leaves room for the answer. Without a
            target of its own, a cut goes down to a quarter of the room below its trigger (``Budget.target_above``).
        model: The model, if known: where its cache keeps long prefixes only, in a small window, a cut leaves enough.
            One that the model table does not know is as none. Without it: the model that ``budget`` names.

    Raises:
        ConfigError: If the budget is none.
        UnknownModel: If ``budget`` names a model that the model table does not know; the message has names like it.

    Example:
        >>> from agentctx.presets import general
        >>> pipeline = general("claude-sonnet-4-5")
        >>> pipeline.budget.window, pipeline.budget.limit
        (200000, 150000)
        >>> session = pipeline.session(model="claude-sonnet-4-5")
    """
    room, model = _checked("general", budget, model)
    return Pipeline(FitContextWindow(), PlaceCacheMarkers(), budget=_deep(room, model))


def coding_agent(budget: Budget | int | str, model: str | None = None) -> Pipeline:
    """``general``, and no tool output takes more than a twentieth of the window when it arrives.

    Before that, what it says is put in fewer tokens where nothing that is needed goes by it: lines that stand in the
    request already by reference (``ReuseLines``), search hits with each path once, line numbers without their blanks,
    progress as it ended (``FoldOutput``). JSON stays as it stands: it may be a file that is to be edited. Of an output
    that has more than its part, hits between others in one file, tests that passed, frames of libraries, long contexts
    of diffs and markup go first. A cut begins with lines that a later output shows again, then what is true no more:
    what was read of files before they were changed, what commands printed before they ran again (``DropSuperseded``),
    then what was written to files long ago (``ShrinkArguments``): that can be read again.

    One message behind the first task tells of what was left out: which files were changed, what ran, and exact values
    (``Ledger``). So does a line of each output that was cut when it arrived.

    Args:
        budget: As of ``general``.
        model: As of ``general``.

    Raises:
        ConfigError: As of ``general``.
        UnknownModel: As of ``general``.

    Example:
        >>> from agentctx import Budget
        >>> from agentctx.presets import coding_agent
        >>> session = coding_agent(Budget(window=128_000)).session(model="gpt-5.4")
    """
    room, model = _checked("coding_agent", budget, model)
    cuts = *_FIRST_TO_GO, FitContextWindow(), Ledger(IN_LEDGER)
    return Pipeline(*_shorter(room, _KINDS), *cuts, PlaceCacheMarkers(), budget=_deep(room, model))


def thrifty(budget: Budget | int | str, model: str | None = None, *, within: int = 5) -> Pipeline:
    """``coding_agent``, and the cut comes before the window is full as soon as that pays for itself.

    Old tool results go first, then what is above the target. Of line numbers in a row only every tenth stays, when a
    file arrives: that takes a fifteenth to a twentieth off what coding agents send, and asks a model that edits by
    numbers to count.

    For models whose cached input is not cheap (half or a quarter of the price), and windows much larger than what a
    task needs: there reading the history again and again is most of the bill. What was cut the model does not
    see any more, although there would have been room for it. Where reading costs a tenth or less there is little to
    gain: ``coding_agent`` costs about the same.

    Args:
        budget: As of ``general``; nothing is cleared below its target.
        model: As of ``general``.
        within: After how many calls clearing must have paid for itself.

    Raises:
        ConfigError: If ``within`` is below 1; at run time, if the session or the call names no model, or its prices
            are not known.
        UnknownModel: As of ``general``.

    Example:
        >>> from agentctx import Budget
        >>> from agentctx.presets import thrifty
        >>> session = thrifty(Budget(window=128_000), within=5).session(model="gpt-4o")
    """
    room, model = _checked("thrifty", budget, model)
    told = Ledger(IN_LEDGER)
    early = when(pays_back(within), *_FIRST_TO_GO, ClearToolResults(RECENT_RESULTS), FitContextWindow(), told)
    stages = *_shorter(room, ("tenths", *_KINDS)), early, *_FIRST_TO_GO, FitContextWindow(), told, PlaceCacheMarkers()
    return Pipeline(*stages, budget=_deep(room, model))


def assistant(budget: Budget | int | str, model: str | None = None) -> Pipeline:
    """For conversations with people: what the user said goes last of all, and what is cut is told of (``Ledger``).

    No tool output is cut when it arrives. JSON is sent without its blanks and the quotes that it can do without, with
    the keys of objects of one shape said once (``CompactJson``, ``TabulateJson``), and lines that stand in the request
    already by reference (``ReuseLines``).
    When the window is full, tools' results and the model's own words go before any message of the user's; a quarter of
    what is told of the rest may be what the user decided.

    Args:
        budget: As of ``general``, but without a target of its own, a cut goes
            down to half of the room below its trigger: of a conversation more is worth keeping than of tool outputs.
        model: As of ``general``.

    Raises:
        ConfigError: As of ``general``.
        UnknownModel: As of ``general``.

    Example:
        >>> from agentctx import Budget
        >>> from agentctx.presets import assistant
        >>> session = assistant(Budget(window=32_000)).session(model="gpt-5.4")
    """
    room, model = _checked("assistant", budget, model)
    stages = *_DATA, FitContextWindow(), Ledger(TOLD_IN_TALK), PlaceCacheMarkers()
    return Pipeline(
        *stages, budget=_deep(room, model, IN_TALK), protect=[Protect.prefer(Protect.where(has_user_words))]
    )


def _checked(preset: str, budget: Budget | int | str, model: str | None) -> tuple[Budget, str | None]:
    """Return the budget that was passed, and the model: the one that the budget names where none is given."""
    if isinstance(budget, str):
        try:
            return Budget.for_model(budget), budget if model is None else model
        except UnknownModel as error:
            msg = f"{preset}: budget: {error}"
            raise UnknownModel(msg) from None
    return as_budget(budget, preset, "a Budget, a number of tokens or a model's name"), model


def _shorter(budget: Budget, kinds: Sequence[str]) -> Sequence[ContextStrategy]:
    """What tools say in fewer tokens, by its kind and by reference; no output takes more than its part."""
    cap = max(SMALLEST_CAP, budget.limit // FEWEST_CALLS)
    folds = FoldOutput(kinds=kinds), FoldOutput(kinds=_LARGE_KINDS, over=cap)
    return *folds, ReuseLines(), TruncateToolOutputs(cap, tell=told_of)


def _deep(budget: Budget, model: str | None, down_to: float = DOWN_TO) -> Budget:
    """The budget with a target: its own, a share of its trigger, or in tokens what a cache needs to read it."""
    if budget.target is not None:
        return budget
    known = None if model is None else find(model)
    smallest = 0 if known is None else cache_rules(known).smallest
    kept = min(int(KEPT * smallest), budget.trigger_tokens * 3 // 4)
    return evolve(budget, target=kept if kept > down_to * budget.trigger_tokens else down_to)
