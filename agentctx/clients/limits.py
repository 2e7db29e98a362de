"""What overflows taught of each model's room, for calls that belong to no conversation."""

from __future__ import annotations

from collections import OrderedDict
from copy import deepcopy
from threading import Lock
from typing import Any

from attrs import define, field

from agentctx.economics.overflow import Overflow
from agentctx.pipeline import Pipeline
from agentctx.session.allowance import Allowance
from agentctx.session.learned_limit import LearnedLimit
from agentctx.session.usage import is_one_prompt, prompt_tokens

MOST = 64
"""So many models are remembered; the one that was refused longest ago is forgotten first."""


@define
class Limits:
    """The limits that overflows taught, by model. Such a call is cut to the limit, not below: the next is cut anew.

    Args:
        pipeline: Prepares the requests; its budget holds where nothing was learned.
    """

    pipeline: Pipeline
    _known: OrderedDict[str | None, LearnedLimit] = field(init=False, factory=OrderedDict)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def pipeline_for(self, model: str | None, *, down_to_target: bool = False) -> Pipeline:
        """The pipeline within the room that a model is known to have.

        Args:
            model: The model's name.
            down_to_target: Whether the budget's target is the limit: where an error named none, it is only guessed.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        with self._guard:
            limit = deepcopy(self._known.get(model))
        if limit is None or limit.tokens is None:
            return self.pipeline
        budget = Allowance(self.pipeline.budget_for(model), learned=limit).in_force
        if budget is not None and down_to_target:
            budget = budget.scaled(budget.target_tokens / budget.limit)
        return self.pipeline if budget is None else self.pipeline.within(budget)

    def refused(self, model: str | None, overflow: Overflow, sent: int) -> LearnedLimit | None:
        """Take in that a view of ``sent`` tokens was too large; gives back what was known before.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        given = self.pipeline.budget_for(model)
        with self._guard:
            before = self._known.get(model)
            allowance = Allowance(given, learned=LearnedLimit() if before is None else deepcopy(before))
            allowance.refused(overflow, sent)
            self._known[model] = allowance.learned
            self._known.move_to_end(model)
            if len(self._known) > MOST:
                self._known.popitem(last=False)
        return before

    def restore(self, model: str | None, before: LearnedLimit | None) -> None:
        """Take back what an error taught: nothing smaller could be made of its request."""
        with self._guard:
            self._known[model] = LearnedLimit() if before is None else before

    def forget(self, model: str | None = None) -> None:
        """Forget what errors taught of a model, or of all of them."""
        with self._guard:
            for name in [*self._known] if model is None else [model]:
                self._known.pop(name, None)

    def taken(self, model: str | None, usage: Any) -> None:  # noqa: ANN401 - a dict or any SDK's usage object
        """Take in that the provider took a prompt, and what it billed for it.

        Raises:
            InvalidInput: If it is no usage, or has a number that no prompt can have.
        """
        billed = prompt_tokens(usage)
        if billed is None or not is_one_prompt(usage):
            return
        with self._guard:
            self._known.setdefault(model, LearnedLimit()).taken(billed)
            if len(self._known) > MOST:
                self._known.popitem(last=False)
