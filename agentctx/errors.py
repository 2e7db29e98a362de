"""Everything that agentctx raises.

The tree::

    AgentctxError
    ├── InvalidInput        what came in cannot be read: names the place (``messages[3].role``) and what is wrong
    │   └── AmbiguousFormat the payload fits several wire formats: pass ``format=``
    ├── ConfigError         an option makes no sense (also a ValueError)
    │   ├── UnknownModel    the model table does not know this name: says what to pass
    │   └── NoBudget        a stage cuts to a budget, and there is none: names the stage
    ├── StageError          a stage broke a promise: names the stage
    │   ├── BrokenPair        a tool call and its result were parted
    │   ├── EditedReasoning   signed reasoning was edited; it is kept whole or dropped
    │   └── LostProtected     a protected message, or the system prompt, was changed or dropped
    ├── ContextOverflow     the request cannot be made to fit: raised before anything is sent
    ├── VocabularyError     a shipped vocabulary is damaged
    ├── SummaryError        what a summarizer gave is no summary: says why
    ├── StoreError          a store cannot keep or find what it was asked for
    │   ├── StoreUnavailable  it cannot now: down, slow or busy; to be tried again
    │   ├── StoreConflict     somebody else has written first: to be loaded again
    │   └── StoreFull         what is written is larger than the store may be, or the server has no room
    └── SourceError         a source of context cannot be read: names the file, the command or the section
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AgentctxError(Exception):
    """The root of the tree: catch it to catch all that agentctx raises.

    Example:
        >>> from agentctx import AgentctxError, Pipeline
        >>> try:
        ...     await Pipeline().prepare("no messages")
        ... except AgentctxError as error:
        ...     print(error)
        messages: must be a list of messages, got str
    """

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled, an error keeps its text and its fields, however it is constructed: a process pool hands it on."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[AgentctxError], args: tuple[object, ...], fields: dict[str, object]) -> AgentctxError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidInput(AgentctxError, ValueError):
    """What was passed cannot be read as a request.

    Args:
        where: The place, as a path into the request, for example ``messages[3].tool_calls[0].id``.
        what: What is wrong there, in one sentence.

    Example:
        >>> from agentctx import InvalidInput, count
        >>> try:
        ...     count([{"role": "nobody", "content": "Hi"}], format="openai-chat")
        ... except InvalidInput as error:
        ...     print(error.where)
        messages[0].role
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


class AmbiguousFormat(InvalidInput):
    """The payload could belong to more than one wire format, and the caller named none.

    Args:
        where: The place.
        which: Which formats it could be.

    Example:
        >>> from agentctx import AmbiguousFormat, validate
        >>> try:
        ...     validate({"messages": [{"role": "user", "content": "Hi"}]})
        ... except AmbiguousFormat:
        ...     validate({"messages": [{"role": "user", "content": "Hi"}]}, format="anthropic")
        ()
    """

    def __init__(self, where: str, which: str) -> None:
        super().__init__(where, f"they could be {which}: pass format=")
        self.which = which


class ConfigError(AgentctxError, ValueError):
    """An option, or options together, make no sense.

    Example:
        >>> from agentctx import Budget, ConfigError
        >>> try:
        ...     Budget(window=1_000, output_reserve=2_000)
        ... except ConfigError as error:
        ...     print(error)
        Budget.output_reserve must be less than the window of 1,000 tokens, or nothing can be sent, got 2000
    """


class UnknownModel(ConfigError):
    """The model table has no entry for this model name.

    Example:
        >>> from agentctx import Budget, UnknownModel
        >>> try:
        ...     Budget.for_model("my-own-model")
        ... except UnknownModel:
        ...     budget = Budget(window=32_000, output_reserve=4_000)
    """


class NoBudget(ConfigError):
    """A stage comes down to a budget, and there is none.

    Args:
        stage: Name of the stage.
        option: The option of the stage that takes a limit.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.errors import NoBudget
        >>> try:
        ...     await Pipeline(FitContextWindow()).prepare([{"role": "user", "content": "Hi"}])
        ... except NoBudget as error:
        ...     print(error.stage)
        FitContextWindow
    """

    def __init__(self, stage: str, option: str = "max_tokens") -> None:
        super().__init__(
            f"{stage}: no budget in force: pass {stage}({option}=...), "
            "Pipeline(..., budget=Budget(window=...)), or a model that the model table knows"
        )
        self.stage = stage


class StageError(AgentctxError):
    """A stage broke a promise; its output was never sent.

    Args:
        stage: Name of the stage.
        what: The promise that was broken, with the message index.

    Example:
        >>> from agentctx import Pipeline, StageError
        >>> async def loses_everything(context, call):
        ...     return context.with_messages(())
        >>> try:
        ...     await Pipeline(loses_everything).prepare([{"role": "user", "content": "Hi"}])
        ... except StageError as error:
        ...     print(error.stage)
        loses_everything
    """

    def __init__(self, stage: str, what: str) -> None:
        super().__init__(f"stage {stage}: {what}")
        self.stage = stage
        self.what = what


class BrokenPair(StageError):
    """A stage parted a tool call from its result.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.errors import BrokenPair
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> def lose_the_result(context, call):
        ...     return context.with_messages(context.messages[:2])
        >>> messages = transcript("openai-chat", user("Read it."), assistant(call("c1", "read")), result("c1", "text"))
        >>> try:
        ...     await Pipeline(lose_the_result).prepare(messages)
        ... except BrokenPair as error:
        ...     print(error.stage)
        lose_the_result
    """


class EditedReasoning(StageError):
    """A stage edited signed reasoning, or made some; it is kept whole or dropped.

    Example:
        >>> from agentctx.errors import EditedReasoning, StageError
        >>> issubclass(EditedReasoning, StageError)
        True
    """


class LostProtected(StageError):
    """A stage changed or dropped the system prompt, or a message that is protected.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.errors import LostProtected
        >>> def lose_everything(context, call):
        ...     return context.with_messages(())
        >>> try:
        ...     await Pipeline(lose_everything).prepare([{"role": "user", "content": "Hi"}])
        ... except LostProtected as error:
        ...     print(error.what)
        dropped messages[0] (user), which is protected
    """


class BigItem(tuple[str, str, int]):
    """One of the biggest items of an overflowing request: place, what it is, tokens.

    Example:
        >>> from agentctx.errors import BigItem
        >>> BigItem(("messages[7]", "tool", 4_200)).tokens
        4200
    """

    __slots__ = ()

    @property
    def place(self) -> str:
        """Where it is, for example ``messages[7]``."""
        return self[0]

    @property
    def kind(self) -> str:
        """What it is: a role, ``system`` or ``tools``."""
        return self[1]

    @property
    def tokens(self) -> int:
        """Its size in tokens."""
        return self[2]


class ContextOverflow(AgentctxError):
    """The request cannot be made to fit the budget; nothing was sent.

    Args:
        tokens: The smallest size that could be reached, in tokens.
        limit: The tokens that were available.
        biggest: The biggest items that had to stay, largest first.

    Example:
        >>> from agentctx import Budget, ContextOverflow, FitContextWindow, Pipeline
        >>> try:
        ...     await Pipeline(FitContextWindow(Budget(50))).prepare([{"role": "user", "content": "much " * 100}])
        ... except ContextOverflow as error:
        ...     print(error.limit, error.biggest[0].place)
        50 messages[0]
    """

    def __init__(self, tokens: int, limit: int, biggest: Sequence[BigItem] = ()) -> None:
        named = "; ".join(f"{item.place} ({item.kind}) {item.tokens:,}" for item in biggest)
        super().__init__(
            f"the request needs {tokens:,} tokens and {limit:,} are available "
            f"({tokens - limit:,} too many) after everything that may be left out was left out"
            + (f"; biggest items: {named}" if named else "")
        )
        self.tokens = tokens
        self.limit = limit
        self.biggest = tuple(biggest)


class VocabularyError(AgentctxError):
    """A shipped vocabulary file is missing or does not have its published hash.

    Example:
        >>> from agentctx.errors import AgentctxError, VocabularyError
        >>> issubclass(VocabularyError, AgentctxError)
        True
    """


class SummaryError(AgentctxError):
    """What a summarizer gave is no summary: no text, empty, too long, a tool call, a refusal, cut off.

    A summarizer of your own may raise it as well; then what it was asked for is left out as if it had failed.

    Example:
        >>> from agentctx.strategies import Summarize, SummaryError
        >>> async def unsure(messages, max_tokens):
        ...     raise SummaryError("the model was cut off")
        >>> Summarize(unsure).summarizer is unsure
        True
    """


class StoreError(AgentctxError):
    """A store cannot keep what it was given, or has not what it was asked for.

    Example:
        >>> from agentctx import StoreError
        >>> from agentctx.stores import MemoryStore
        >>> try:
        ...     await MemoryStore().get("nothing")
        ... except StoreError as error:
        ...     print("not there")
        not there
    """


class StoreUnavailable(StoreError):
    """A store does not answer now: it is down, slow, or busy. The same call may succeed later.

    Example:
        >>> from agentctx.errors import StoreError, StoreUnavailable
        >>> issubclass(StoreUnavailable, StoreError)
        True
    """


class StoreConflict(StoreError):
    """Somebody else has written since: load, and write again.

    Args:
        name: The conversation.
        version: Its version now.

    Example:
        >>> from agentctx.errors import StoreConflict
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> version = await store.append("thread-42", [{"role": "user", "content": "Hi"}], 0)
        >>> try:
        ...     await store.append("thread-42", [{"role": "user", "content": "Hello"}], 0)
        ... except StoreConflict as error:
        ...     error.version == version
        True
    """

    def __init__(self, name: str, version: int) -> None:
        super().__init__(f"conversation {name!r:.200} was written by somebody else: it has version {version} now")
        self.name = name
        self.version = version


class StoreFull(StoreError):
    """What is written is larger than the store may be, or its server has no room.

    Example:
        >>> from agentctx.errors import StoreFull
        >>> from agentctx.stores import MemoryStore
        >>> try:
        ...     await MemoryStore(max_bytes=100).put(b"a long log" * 100)
        ... except StoreFull:
        ...     print("no room")
        no room
    """


class SourceError(AgentctxError):
    """A source of context cannot be read, or what was read does not fit.

    Args:
        where: The file, the command or the section.
        what: What is wrong with it, in one sentence.

    Example:
        >>> from agentctx import SourceError
        >>> from agentctx.sources import ReadOnlyFiles
        >>> try:
        ...     await ReadOnlyFiles(1_000).add("no-such-file.py")
        ... except SourceError as error:
        ...     print(error.where)
        no-such-file.py
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what
