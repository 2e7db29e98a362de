"""Leave clearing to the provider: it is asked for with each request, and done there before the model reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import repeat
from typing import ClassVar, Literal

from attrs import evolve, field, frozen

from agentctx.core.message import Context, Thinking
from agentctx.engine.options import as_names, check_whole
from agentctx.engine.shrink import results_of
from agentctx.protocols import Asked, Call, Meter, Scope, Stage
from agentctx.wire_format import Clearing, ProviderClearing


def _names(exclude: Iterable[str]) -> frozenset[str]:
    return as_names("ClearByProvider: exclude must be a list of tool names", exclude)


@frozen
class ClearByProvider(Stage):
    """Have the provider clear old uses of tools, and old reasoning, from what the model reads: Anthropic's edits.

    The messages are sent whole, and ``view.options`` asks for the clearing: pass them with the request, as in
    ``client.beta.messages.create(..., **view.options)`` (a wrapped client does it by itself). What is sent stays as it
    was, so reasoning that is bound to it is taken. What the provider clears by its rules takes no room in the budget;
    where that is not enough, the request is cut as it would be without this stage. Tell ``session.record`` the
    ``applied_edits`` of the answer: then what is billed is understood, and no more is counted on than the provider
    does. With every use of a tool that it clears the cached prefix ends earlier: ``session.forecast()`` says what that
    costs beside a cut, in ``by_provider``.

    Results that the model has not read yet stay, and so do all uses of a tool of which one is protected. Other formats
    have nothing of the kind: there it does nothing, and says so.

    Args:
        trigger: The size of a request, in the provider's tokens, above which it clears uses of tools.
        keep: How many uses of tools, counted from the end, stay.
        at_least: Clear only if so many of the provider's tokens go at once.
        exclude: Names of tools whose uses stay.
        inputs: Whether the arguments of old calls go as well.
        thinking: How many turns of the assistant, counted from the end, keep their reasoning, or ``"all"``; None: as
            the provider does unasked. It is asked for where there is reasoning in the history, and refused in a request
            for which thinking is switched off.

    Raises:
        ConfigError: If an amount is no whole number, or too small.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import ClearByProvider
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript(
        ...     "anthropic", user("Read both."), assistant(call("a", "read")), result("a", "a line of a log " * 50),
        ...     assistant(call("b", "read")), result("b", "second"))
        >>> view = await Pipeline(ClearByProvider(trigger=200, keep=1)).prepare(messages, format="anthropic")
        >>> view.messages == messages, view.report.cleared_tokens
        (True, 244)
        >>> view.options["context_management"]["edits"][0]["keep"], view.options["betas"]
        ({'type': 'tool_uses', 'value': 1}, ['context-management-2025-06-27'])
    """

    trigger: int
    keep: int
    at_least: int | None = field(default=None, kw_only=True)
    exclude: frozenset[str] = field(default=frozenset(), converter=_names, kw_only=True)
    inputs: bool = field(default=False, kw_only=True)
    thinking: int | Literal["all"] | None = field(default=None, kw_only=True)
    scope: ClassVar[Scope] = Scope.PROVIDER

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        amounts: list[tuple[str, object, int]] = [("trigger", self.trigger, 1), ("keep", self.keep, 0)]
        amounts += [("at_least", self.at_least, 1)] if self.at_least is not None else []
        amounts += [("thinking", self.thinking, 1)] if self.thinking not in (None, "all") else []
        for name, given, least in amounts:
            check_whole(f"ClearByProvider: {name}", given, least)

    def effort(self, context: Context, _call: Call, /) -> Iterable[int]:
        """It reads no text: what is cleared was counted before."""
        return repeat(0, len(context.messages))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Ask for the clearing; the context stays as it is."""
        provider = None if call.wire is None else call.wire.clearing
        if provider is None:
            call.remark(f"nothing is asked for: who speaks {call.format} clears nothing by itself")
            return context
        wanted = self._wanted(context, call)
        at_least = None if wanted.at_least is None else call.ours(wanted.at_least)
        counted = evolve(wanted, trigger=call.ours(wanted.trigger), at_least=at_least)
        clears = partial(_cleared, provider, counted, call.meter)
        left = clears(context, call.size(context))
        call.ask(Asked(provider.options(wanted), left, clears))
        if left:
            call.remark(f"the provider clears {sum(left.values()):,} tokens of {len(left)} messages by itself")
        return context

    def _wanted(self, context: Context, call: Call) -> Clearing:
        """What is asked for: nothing of what the model has not read, nor of what is protected."""
        messages, frozen = context.messages, call.frozen(context)
        unread = sum(len(messages[index].results) for index in call.unread(context))
        tools = (
            {result.name or tool for index, result, tool in results_of(messages) if index in frozen}
            if frozen
            else set()
        )
        tools |= {each.name for index in frozen for each in messages[index].calls}
        reasons = [
            index for index, each in enumerate(messages) if any(isinstance(part, Thinking) for part in each.parts)
        ]
        thinking = self.thinking if reasons else None
        return Clearing(
            self.trigger,
            max(self.keep, unread),
            self.at_least,
            self.exclude.union(filter(None, tools)),
            self.inputs,
            "all" if thinking is not None and not frozen.isdisjoint(reasons) else thinking,
        )


def _cleared(
    provider: ProviderClearing, clearing: Clearing, meter: Meter, context: Context, size: int
) -> Mapping[int, int]:
    """The tokens that the provider clears of each message, by its place."""
    messages = context.messages
    read = provider.read(messages, clearing, size, meter.message)
    return {place: meter.message(messages[place]) - meter.message(each) for place, each in read.items()}
