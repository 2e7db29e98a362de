"""What must survive byte for byte, in the user's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import field, frozen

from agentctx.engine.options import as_names
from agentctx.errors import ConfigError
from agentctx.message import Message, ToolCall, ToolResult
from agentctx.unit import Preferred, ProtectRule, first_task, last_words, system_messages, units


class Protect:
    """Rules for ``Pipeline(protect=[...])``: what they name is neither dropped nor edited, tool results included.

    Without any rule the system prompt, the first task and the latest user message survive.

    A request that the provider takes goes first: reasoning that is bound to a prefix which a cut has changed, or that
    is another model's, goes all the same, as does what is repaired at the entry; all else of the message stays. The
    report says so.

    Example:
        >>> from agentctx import Pipeline, Protect, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TrimRounds(1), protect=[Protect.pins(1)]).prepare(messages)
        >>> [message["content"] for message in view.messages]
        ['One?', '1.', 'Two?', '2.', 'Three?']
    """

    @staticmethod
    def system() -> ProtectRule:
        """All system and developer messages."""
        return system_messages

    @staticmethod
    def first_task() -> ProtectRule:
        """The first message in which the user says something."""
        return first_task

    @staticmethod
    def last_user(count: int = 1) -> ProtectRule:
        """The last ``count`` messages in which the user says something.

        Raises:
            ConfigError: If ``count`` is below 1.
        """
        return LastUser(count)

    @staticmethod
    def tools(*names: str) -> ProtectRule:
        """Calls of these tools and their results.

        Args:
            names: The names of the tools, as the model calls them.

        Raises:
            ConfigError: If no tool is named, or something is no name.
        """
        return OfTools(frozenset(names))

    @staticmethod
    def where(predicate: Callable[[Message], bool]) -> ProtectRule:
        """Every message for which ``predicate`` is true.

        Raises:
            ConfigError: If ``predicate`` cannot be called.
        """
        return Where(predicate)

    @staticmethod
    def prefer(rule: ProtectRule) -> ProtectRule:
        """What ``rule`` names goes last: a cut takes it only where the budget cannot be kept without.

        Args:
            rule: A rule of this class, or a function from the messages to indexes.

        Raises:
            ConfigError: If ``rule`` cannot be called.

        Example:
            >>> from agentctx import FitContextWindow, Pipeline, Protect
            >>> from agentctx.testing import assistant, transcript, user
            >>> turns = user("One?"), assistant("1."), assistant("2. " * 500), user("Two?")
            >>> soft = Protect.prefer(Protect.where(lambda message: message.text == "1."))
            >>> view = await Pipeline(FitContextWindow(), budget=100, protect=[soft]).prepare(
            ...     transcript("openai-chat", *turns))
            >>> [message["content"] for message in view.messages]
            ['One?', '1.', 'Two?']
        """
        given: object = rule
        if not callable(given):
            msg = f"Protect.prefer: expected a rule, which is a function of the messages, got {rule!r}"
            raise ConfigError(msg)
        return Preferred(rule)

    @staticmethod
    def pins(*indexes: int) -> ProtectRule:
        """The messages at these indexes of what is passed to ``prepare``; negative ones count from the end.

        Raises:
            ConfigError: If one is no whole number.
        """
        return Pins(indexes)


def _positive(_rule: object, _attribute: object, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"Protect.last_user: expected a whole number of at least 1, got {value!r}"
        raise ConfigError(msg)


@frozen
class LastUser:
    """The last ``count`` messages in which the user says something."""

    count: int = field(validator=_positive)

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        return last_words(messages, self.count)


@frozen
class OfTools:
    """Calls of the named tools, and their results."""

    names: frozenset[str]

    def __attrs_post_init__(self) -> None:
        """Check that a tool is named."""
        if not self.names:
            msg = "Protect.tools: name at least one tool"
            raise ConfigError(msg)
        as_names("Protect.tools: expected the names of tools", sorted(self.names, key=str))

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """The indexes of the messages that hold such a call or such a result."""
        for unit in units(messages):
            ids: set[str] = set()
            for index in unit.places:
                for part in messages[index].parts:
                    if isinstance(part, ToolCall) and part.name in self.names:
                        ids.add(part.id)
                        yield index
                    elif isinstance(part, ToolResult) and (part.call_id in ids or part.name in self.names):
                        yield index


@frozen
class Where:
    """The messages for which a predicate is true."""

    predicate: Callable[[Message], bool]

    def __attrs_post_init__(self) -> None:
        """Check that the predicate can be called."""
        given: object = self.predicate
        if not callable(given):
            msg = f"Protect.where: expected a function of one message, got {self.predicate!r}"
            raise ConfigError(msg)

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        return [index for index, message in enumerate(messages) if self.predicate(message)]


@frozen
class Pins:
    """The messages at fixed indexes of what was passed in; bound to these messages when a step begins."""

    indexes: tuple[int, ...]

    def __attrs_post_init__(self) -> None:
        """Check that they are numbers."""
        for index in self.indexes:
            if isinstance(index, bool) or not isinstance(index, int):
                msg = f"Protect.pins: expected whole numbers, got {index!r}"
                raise ConfigError(msg)

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Those of the indexes that exist."""
        return self.of(len(messages))

    def of(self, length: int) -> list[int]:
        """Those of the indexes that exist in a history of this many messages, counted from its start."""
        return [index % length for index in self.indexes if -length <= index < length]

    def bound(self, history_length: int, message_at: Callable[[int], Message | None]) -> ProtectRule:
        """The rule for the messages that stand at these indexes now, wherever a stage may move them.

        Args:
            history_length: How many messages were passed in.
            message_at: The message read from what was passed in at an index; None when it is gone.
        """
        length = history_length
        pinned = [message_at(index % length) for index in self.indexes if -length <= index < length]
        return Pinned(tuple(message for message in pinned if message is not None))


@frozen
class Pinned:
    """These very messages, recognised by their native payload."""

    messages: tuple[Message, ...] = field(eq=False)

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        wanted = {message.identity for message in self.messages}
        return [index for index, message in enumerate(messages) if message.identity in wanted]


def bind(
    rules: Iterable[ProtectRule], history_length: int, message_at: Callable[[int], Message | None]
) -> tuple[ProtectRule, ...]:
    """The rules with their pins bound to the messages of this step."""
    return tuple(_bound(rule, history_length, message_at) for rule in rules)


def _bound(rule: ProtectRule, history_length: int, message_at: Callable[[int], Message | None]) -> ProtectRule:
    if isinstance(rule, Preferred):
        return Preferred(_bound(rule.rule, history_length, message_at))
    return rule.bound(history_length, message_at) if isinstance(rule, Pins) else rule
