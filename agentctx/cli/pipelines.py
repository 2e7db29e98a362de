"""The pipeline that a command puts between the loop and the model: what was typed, a preset, or one of the user's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

import typer

from agentctx import presets
from agentctx.cli.console import prints_on_stderr
from agentctx.cli.options import Typed
from agentctx.core.budget import Budget
from agentctx.errors import ConfigError
from agentctx.pipeline import Pipeline
from agentctx.users_code import called, pipeline_or_maker, running


class PresetName(StrEnum):
    """The presets by name."""

    CODING_AGENT = "coding_agent"
    THRIFTY = "thrifty"
    ASSISTANT = "assistant"
    LATE_AND_LARGE = "late_and_large"


Trigger = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.8, at most what the reserve leaves",
        help="Act when the request is larger than this: 0.8 of what the reserve leaves, 24k tokens.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.5, or half of the trigger that is given",
        help="When acting, go down to this: 0.5 of what the reserve leaves, 16k tokens.",
    ),
]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        show_default=False,
        help="A preset with its own stages and target; only --window, --reserve and --trigger change it.",
    ),
]
Named = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="MODULE:NAME",
        show_default=False,
        help="A pipeline of your own: a Pipeline, or a function of a Budget and a model's name that makes one.",
    ),
]


def chosen_pipeline(
    typed: Typed, preset: PresetName | None, named: str | None, model: str | None
) -> tuple[Budget, Pipeline]:
    """The pipeline for a model, with its budget.

    Args:
        typed: What was typed after the options that describe a budget and stages.
        preset: The preset, if one was asked for.
        named: Module and name of a pipeline of the user's, if one was asked for.
        model: The model.

    Raises:
        ConfigError: If options contradict each other, or what was named is no pipeline.
    """
    if preset is not None and named is not None:
        msg = "--preset and --pipeline: pass one of them"
        raise ConfigError(msg)
    if named is not None:
        return _named(named, typed, model)
    if preset is None:
        return typed.budget(model), typed.pipeline(model)
    budget = _budget(typed, model)
    return _in_budget(getattr(presets, preset.value)(budget, model), budget)


@contextmanager
def users_code(named: str | None) -> Iterator[None]:
    """Where a pipeline of the user's runs: what it prints goes to stderr, and what it raises is one error.

    Args:
        named: Module and name of the pipeline; None where it is one of ours.

    Raises:
        AgentctxError: If it raised anything; names it.
    """
    if named is None:
        yield
        return
    with prints_on_stderr(), running(f"--pipeline {named}"):
        yield


def _budget(typed: Typed, model: str | None) -> Budget:
    """The budget that was typed, with the target that a pipeline itself gives it."""
    found = typed.budget(model)
    return Budget(found.window, found.output_reserve, trigger=None if typed.trigger is None else found.trigger)


def _in_budget(pipeline: Pipeline, budget: Budget) -> tuple[Budget, Pipeline]:
    """A pipeline with its own budget, or, where it has none, with this one."""
    own = pipeline.governing
    return (budget, pipeline.with_budget(budget)) if own is None else (own, pipeline)


def _named(named: str, typed: Typed, model: str | None) -> tuple[Budget, Pipeline]:
    found = pipeline_or_maker(named, "--pipeline")
    if isinstance(found, Pipeline):
        own = found.governing
        if own is None:
            return _in_budget(found, typed.budget(model))
        if any(each is not None for each in (typed.window, typed.reserve, typed.trigger, typed.target)):
            msg = f"--pipeline {named}: it has its own budget: leave --window, --reserve, --trigger and --target out"
            raise ConfigError(msg)
        return own, found
    budget = _budget(typed, model)
    made = called(found, named, "--pipeline", budget, model, expects=_EXPECTS)
    if not isinstance(made, Pipeline):
        msg = f"--pipeline: {named} makes a {type(made).__name__}, and no Pipeline: {_EXPECTS}"
        raise ConfigError(msg)
    return _in_budget(made, budget)


_EXPECTS = "it is called with a Budget and a model's name, and gives a Pipeline"
