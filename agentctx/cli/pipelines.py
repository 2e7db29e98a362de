"""The pipeline that a command puts between the loop and the model: what was typed, a preset, or one of the user's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Annotated, cast

import typer

from agentctx import presets
from agentctx.cli.options import Typed
from agentctx.core.budget import Budget
from agentctx.errors import AgentctxError, ConfigError
from agentctx.pipeline import Pipeline


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

Maker = Callable[[Budget, str | None], Pipeline]


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
    return _made(cast("Maker", getattr(presets, preset.value)), typed, model)


def _made(make: Maker, typed: Typed, model: str | None) -> tuple[Budget, Pipeline]:
    found = typed.budget(model)
    trigger = None if typed.trigger is None else found.trigger
    budget = Budget(found.window, found.output_reserve, trigger=trigger)
    pipeline = make(budget, model)
    return pipeline.budget or budget, pipeline


def _named(named: str, typed: Typed, model: str | None) -> tuple[Budget, Pipeline]:
    found = imported("--pipeline", named)
    if not callable(found):
        msg = f"--pipeline {named}: expected a Pipeline, or a function that makes one, got {type(found).__name__}"
        raise ConfigError(msg)
    if isinstance(found, Pipeline):
        if found.budget is None:
            msg = f"--pipeline {named}: it has no budget: give it one, or name a function of a Budget and a model"
            raise ConfigError(msg)
        if any(each is not None for each in (typed.window, typed.reserve, typed.trigger, typed.target)):
            msg = f"--pipeline {named}: it has its own budget: leave --window, --reserve, --trigger and --target out"
            raise ConfigError(msg)
        return found.budget, found
    try:
        budget, made = _made(cast("Maker", found), typed, model)
    except AgentctxError:
        raise
    except Exception as error:
        msg = (
            f"--pipeline {named}: calling it failed: {type(error).__name__}: {error}: "
            "it is called with a Budget and a model's name, and gives a Pipeline"
        )
        raise ConfigError(msg) from error
    return budget, made


def imported(option: str, named: str) -> object:
    """What a module has under a name; modules of the working directory are found.

    Raises:
        ConfigError: If it cannot be had.
    """
    module, _, name = named.partition(":")
    if not module or not name:
        msg = f"{option}: expected MODULE:NAME such as my_agent.context:{option.lstrip('-')}, got {named!r}"
        raise ConfigError(msg)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(import_module(module), name)
    except Exception as error:
        msg = f"{option} {named}: cannot be imported: {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    return found
