"""From what the caller passes to values, and back: which format, which counter, which profile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from agentctx.core.message import Context, Message, Native, Tool
from agentctx.core.pace import EVERY, paced
from agentctx.core.protection import knowing_the_recap
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.models.profile import ModelProfile
from agentctx.models.table import find
from agentctx.protocols import Meter, TokenCounter
from agentctx.providers.native import DEEPEST, too_deep
from agentctx.providers.other_tools import refuse_messages_of_a_tool
from agentctx.providers.registry import Detected, detected, format_named, is_registered
from agentctx.tokens.counting import default_counter, remembering
from agentctx.tokens.meter import MessageMeter
from agentctx.wire_format import WireFormat


@frozen(eq=False, repr=False)
class Reader:
    """Reads one conversation.

    Args:
        wire: The provider's format.
        meter: Counts its messages.
        profile: The model's profile; None when no model was named, or an unknown one.
        certain: False when the messages so far would read alike in other formats as well.
    """

    wire: WireFormat
    meter: Meter
    profile: ModelProfile | None
    certain: bool = True

    def messages(
        self, natives: Sequence[Any], first: int = 0, standing_before: Sequence[Message] = ()
    ) -> list[Message]:
        """Native messages as values.

        Args:
            natives: The messages.
            first: The index of the first one, for errors.
            standing_before: What stands before them, at least from the tail on.
        """
        read = self.wire.read_message
        try:
            pairs = enumerate(natives, first)
            messages = [read(native, index) for index, native in (pairs if len(natives) < EVERY else paced(pairs))]
        except (AgentctxError, RecursionError):
            raise
        except Exception as error:
            if is_registered(self.wire):
                raise _unreadable(self.wire, natives, first, error) from error
            raise
        paired = self.wire.pair(messages, standing_before)
        return paired if first or standing_before else knowing_the_recap(paired)

    def head(self, system: Native, tools: Native) -> tuple[Message | None, tuple[Tool, ...]]:
        """System prompt and tools as values.

        Raises:
            InvalidInput: If the tools are not a list, or something is nested too deep.
        """
        if tools is not None and (isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Sequence)):
            raise InvalidInput("tools", f"expected a list of tool definitions, got {type(tools).__name__}")
        if (where := _deep_place((), system, tools, DEEPEST)) is not None:
            raise InvalidInput(where, f"it is nested deeper than {DEEPEST} levels, or contains itself")
        return self.wire.read_system(system), self.wire.read_tools(tools)

    def context(self, natives: Sequence[Native], system: Native = None, tools: Native = None) -> Context:
        """A whole request as values.

        Raises:
            InvalidInput: As ``messages`` and ``head`` do.
        """
        return Context(tuple(self.messages(natives)), *self.head(system, tools))


def _unreadable(wire: WireFormat, natives: Sequence[Any], first: int, error: Exception) -> InvalidInput:
    """What says which message a registered format could not read."""
    for index, native in enumerate(natives, first):
        try:
            wire.read_message(native, index)
        except Exception as again:  # noqa: BLE001 - whatever the format of another raises
            what = f"the format {wire.name!r} could not read it: {type(again).__name__}: {again}"
            return InvalidInput(f"messages[{index}]", what)
    return InvalidInput("messages", f"the format {wire.name!r} could not read them: {type(error).__name__}: {error}")


def write_native(wire: WireFormat, message: Message, where: str) -> Native:
    """A message in the provider's shape.

    Args:
        wire: The format.
        message: The message.
        where: Its place, for the error.

    Raises:
        InvalidInput: If a registered format cannot write it; names the place and the format.
    """
    try:
        return wire.write_message(message)
    except (AgentctxError, RecursionError):
        raise
    except Exception as error:
        if not is_registered(wire):
            raise
        what = f"the format {wire.name!r} could not write it: {type(error).__name__}: {error}"
        raise InvalidInput(where, what) from error


def place_of(origin: int | None, place: int) -> str:
    """How an error calls a message: by the caller's index, or by its place in the view when a stage made it."""
    return f"view.messages[{place}]" if origin is None else f"messages[{origin}]"


_SUSPECT = 50
"""What is nested so deep is what the stack was too small for."""


@contextmanager
def naming_what_is_too_deep(messages: object, system: object = None, tools: object = None) -> Iterator[None]:
    """Where something is nested too deep for what is done inside, say which message, or what else it is.

    Raises:
        InvalidInput: In place of a ``RecursionError``, when anything in the request explains it.
    """
    try:
        yield
    except RecursionError as error:
        if (where := _deep_place(messages, system, tools, _SUSPECT)) is None:
            raise
        raise InvalidInput(where, "it is nested too deep, or contains itself") from error


def _deep_place(messages: object, system: object, tools: object, most: int) -> str | None:
    """The first place of a request that is nested deeper than ``most`` levels."""
    if too_deep(system, most):
        return "system"
    for name, several in (("tools", tools), ("messages", messages)):
        for place, each in enumerate(several if isinstance(several, Sequence) else ()):
            if too_deep(each, most):
                return f"{name}[{place}]"
    return None


def reader(
    messages: Sequence[Any],
    *,
    system: Native = None,
    tools: Native = None,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
    counter: TokenCounter | None = None,
) -> Reader:
    """Find out how to read a conversation.

    Raises:
        AmbiguousFormat: If several formats fit and none was named.
        InvalidInput: If no format fits, or the named one is unknown.
        ConfigError: If the model is no name.
    """
    profile = known_profile(model)
    found = found_format(messages, system, tools, format, model)
    counted = default_counter(model) if counter is None else remembering(counter)
    return Reader(found.wire, MessageMeter(counted, profile, found.wire.overheads), profile, found.certain)


def found_format(
    messages: Sequence[Any],
    system: Native = None,
    tools: Native = None,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
) -> Detected:
    """The format of a conversation: the one that is named, or the one that fits.

    Raises:
        AmbiguousFormat: If several formats fit and none was named.
        InvalidInput: If no format fits, the named one is unknown, or it is a transcript of another tool.
    """
    if format is None:
        return detected(_request(messages, system, tools), model)
    refuse_messages_of_a_tool(messages)
    return Detected(format_named(format, model))


def _request(messages: Sequence[Native], system: Native, tools: Native) -> dict[str, Native]:
    request: dict[str, Any] = {"messages": messages}
    if system is not None:
        request["system"] = system
    if tools is not None:
        request["tools"] = tools
    return request


def known_profile(model: str | None) -> ModelProfile | None:
    """The profile of a model; None when no model is named or the table does not know it."""
    return None if model is None else find(model)


def as_list(messages: Native, where: str = "messages") -> Sequence[Native]:
    """The messages, checked to be a list that is not empty.

    Raises:
        InvalidInput: If they are not.
    """
    if type(messages) is not list and (
        isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence)
    ):
        raise InvalidInput(where, f"expected a list of messages, got {type(messages).__name__}")
    if not messages:
        raise InvalidInput(where, "the list is empty: a request needs at least one message")
    return messages
