"""What is known of the room of each model that a conversation was held with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from attrs import define, evolve, field

from agentctx.core.budget import Budget
from agentctx.engine.plan import Plan
from agentctx.engine.reading import known_profile
from agentctx.errors import InvalidInput
from agentctx.printable import shown
from agentctx.session.learned_limits import Allowance
from agentctx.session.state import dump_learned, load_learned

MOST = 16
"""So many models of one conversation are remembered; the one that was called longest ago is forgotten first."""


@define
class Allowances:
    """The allowance of each model: what its provider's answers taught holds for it alone.

    Args:
        plan: Has the budget, or says that it is the model's.
        home: The model that the budget was made for, if it is known.
        own: The conversation's own budget, instead of the plan's.
    """

    plan: Plan
    home: str | None = None
    own: Budget | None = None
    _known: OrderedDict[str | None, Allowance] = field(init=False, factory=OrderedDict)

    def of(self, model: str | None) -> Allowance:
        """What is known of a model.

        Raises:
            UnknownModel: If a budget is needed and the model table does not know the model.
        """
        known = self._known.get(model)
        return Allowance(self._given(model)) if known is None else evolve(known, given=self._given(model))

    def keep(self, model: str | None, allowance: Allowance) -> None:
        """Remember what is known of the model that is called now."""
        if self.home is None:
            self.home = model
        self._known[model] = allowance
        self._known.move_to_end(model)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

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

    def for_child(self, own: Budget | None, model: str | None) -> Allowances:
        """Those of a child with a budget of its own, which begins with what is known by now.

        Args:
            own: The child's budget.
            model: The model that the child begins with.
        """
        made = Allowances(self.plan, model, own)
        made._known = deepcopy(self._known)
        return made

    def dump(self) -> list[dict[str, Any]]:
        """What was learned, as plain JSON values, the model of now last."""
        return [{"model": model, **dump_learned(allowance)} for model, allowance in self._known.items()]

    def load(self, state: list[tuple[Any, str]]) -> None:
        """Take in what was dumped.

        Args:
            state: The entries, each with the path to it.

        Raises:
            InvalidInput: If the state is damaged; names the place.
        """
        for each, where in state[-MOST:]:
            model = each.get("model") if isinstance(each, Mapping) else None
            if model is not None and not isinstance(model, str):
                place = f"{where}.model"
                raise InvalidInput(place, f"expected text, got {shown(model)}")
            self._known[model] = load_learned(each, where)
