"""Cut tool outputs that are too long, when they arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from attrs import evolve, field, frozen

from agentctx.engine.options import check_places, check_whole, library_stage
from agentctx.engine.shrink import (
    Cut,
    Keep,
    cut_to_chars,
    cut_to_tokens,
    cutter_of,
    edit_results,
    edited,
    standing_for,
    with_text,
)
from agentctx.errors import ConfigError
from agentctx.marks import written_out
from agentctx.message import Context, Message, ToolResult
from agentctx.protocols import Call, Scope, Stage, TextCutter, TokenCounter

TOLD = 0.4
"""So much of what may stay of a result is for what is told of the rest."""

_TOLD = "[in them: {}]\n"

Tell = Callable[[str, str, int, TokenCounter], str]
"""What is told of a text of which only something stays, in at most so many tokens."""


@library_stage
@frozen
class TruncateToolOutputs(Stage):
    """Cut the text of each tool result to at most ``max_tokens`` tokens or ``max_chars`` characters.

    Exact, in whole grapheme clusters, and idempotent: what was cut once is not cut again. Images and blocks that
    are not text stay. Give one limit, or both to keep both. Where the pipeline has a store and the request the recall
    tool (``Recall``), the marker names the handle by which the model gets the whole output back.

    Args:
        max_tokens: The most tokens of one result, marker included.
        max_chars: The most characters of one result, marker included.
        keep: Which end stays: ``"head"``, ``"tail"`` or ``"both"``.
        marker: What stands where text was left out; ``{omitted}`` becomes the number of characters.
        tell: Says in a line behind the marker what was left out, in two fifths of ``max_tokens`` at most: a function
            of the text, what stays of it, the most tokens and the counter, such as ``agentctx.memory.told_of``.

    Raises:
        ConfigError: If there is no limit, or one below 1, or ``keep`` is unknown.

    Example:
        >>> from agentctx import Pipeline, TruncateToolOutputs
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "0123456789" * 99)
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TruncateToolOutputs(max_chars=60, keep="head")).prepare(messages)
        >>> print(view.messages[2]["content"])
        0123456789...
        [… ... characters omitted …]
    """

    max_tokens: int | None = None
    max_chars: int | None = field(default=None, kw_only=True)
    keep: Keep = field(default="both", kw_only=True)
    marker: str = field(default=Cut().marker, kw_only=True)
    tell: Tell | None = field(default=None, kw_only=True)
    scope: ClassVar[Scope] = Scope.ARRIVALS

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        limits = {"max_tokens": self.max_tokens, "max_chars": self.max_chars}
        if all(limit is None for limit in limits.values()):
            msg = "TruncateToolOutputs: pass max_tokens or max_chars"
            raise ConfigError(msg)
        for name, limit in limits.items():
            if limit is not None:
                check_whole(f"TruncateToolOutputs: {name}", limit, 1)
        marker: object = self.marker
        if not isinstance(marker, str):
            msg = f"TruncateToolOutputs: marker must be text, got {self.marker!r}"
            raise ConfigError(msg)
        check_places("TruncateToolOutputs: marker", self.marker, ("omitted",))
        if self.tell is not None and (not callable(self.tell) or self.max_tokens is None):
            msg = f"TruncateToolOutputs: tell is a function, and needs max_tokens, got {self.tell!r}"
            raise ConfigError(msg)
        if self.keep not in ("head", "tail", "both"):
            msg = f'TruncateToolOutputs: keep must be "head", "tail" or "both", got {self.keep!r}'
            raise ConfigError(msg)

    def leaves_alone(self, messages: Sequence[Message], call: Call, /) -> bool:
        """Whether all results are short: so few characters, or bytes, that the tokens need no counting beyond those."""
        chars, tokens = self.max_chars, self.max_tokens
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    text = part.text
                    if chars is not None and len(text) > chars:
                        return False
                    if tokens is not None and (len(text) > tokens or cutter_of(call.counter).exceeds(text, tokens)):
                        return False
        return True

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with long tool outputs cut."""
        frozen, cutter = call.frozen(context), cutter_of(call.counter)
        found = enumerate(context.messages)
        places = [at for at, each in found if at not in frozen and self._is_long(each, cutter)]
        if not places:
            return context

        plain = Cut(self.keep, self.marker, standing_for(context, call))

        def cut(_index: int, message: Message) -> Message:
            return edit_results(message, lambda result: self._cut(message, result, call, plain))

        return edited(context, places, cut, call, f"tool output longer than {self._limits()}")

    def _is_long(self, message: Message, cutter: TextCutter) -> bool:
        """Whether a message has a result that is longer than it may be."""
        chars, tokens = self.max_chars, self.max_tokens
        for result in message.results:
            text = result.text
            if (chars is not None and len(text) > chars) or (tokens is not None and cutter.exceeds(text, tokens)):
                return True
        return False

    def _cut(self, message: Message, result: ToolResult, call: Call, plain: Cut) -> ToolResult:
        text = result.text
        shorter = self._shorter(text, call, plain)
        if shorter == text:
            return result
        how = plain.pointing(call.pointer(message, result))
        if self.tell is not None and self.max_tokens is not None:
            how = _telling(self.tell, text, self.max_tokens, how, call.counter)
        return with_text(result, shorter if how is plain else self._shorter(text, call, how))

    def _shorter(self, text: str, call: Call, cut: Cut) -> str:
        shorter = text
        if self.max_chars is not None:
            shorter = cut_to_chars(shorter, self.max_chars, cut)
        if self.max_tokens is not None:
            shorter = cut_to_tokens(shorter, self.max_tokens, call.counter, cut)
        return shorter

    def _limits(self) -> str:
        limits = ((self.max_tokens, "tokens"), (self.max_chars, "characters"))
        return " and ".join(f"{limit:,} {unit}" for limit, unit in limits if limit is not None)


def _telling(tell: Tell, text: str, tokens: int, how: Cut, counter: TokenCounter) -> Cut:
    """The cut with a line behind its marker that says what is left out, where there is something to tell."""
    room = int(TOLD * tokens)
    staying = cut_to_tokens(text, tokens - room, counter, how)
    told = tell(written_out(text), written_out(staying), room - counter.count(_TOLD), counter)
    return evolve(how, marker=how.marker + _TOLD.format(told)) if told else how
