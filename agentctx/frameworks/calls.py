"""A model call of a framework: prepared in the session of its conversation, given back as the framework's own messages.

Each framework's file hands over what the framework is about to send (``Request``), and sends what comes back. A
conversation has the name that the framework gives it; agents of one name are told apart by how they begin. One without
a name is known by the history that it shows (``Unnamed``).
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from itertools import count, groupby, islice
from operator import is_, itemgetter
from typing import Any, Generic, TypeVar
from weakref import ref

from attrs import Factory, define, field, frozen

from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.errors import ConfigError
from agentctx.formats.registry import Adapter, Body, RequestParts, get
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.reports import Report, View
from agentctx.session.blocking import blocking
from agentctx.session.conversations import UnnamedSessions
from agentctx.session.session import Session, current
from agentctx.session.sessions import Sessions
from agentctx.session.step_context import works_around
from agentctx.validators import must_be

A = TypeVar("A")
M = TypeVar("M")
"""A framework's own message."""

UNNAMED = ""
"""The name of calls that a framework gives no name: such a call goes on with the conversation that it shows."""


@frozen
class Piece:
    """A message of the view, with the message that it was made of.

    Args:
        place: Which of the messages that the framework's message became: 0 for the first.
        message: What is to be sent for it.
        before: What the framework's message became at this place; None for a message that was put in.
    """

    place: int
    message: Native
    before: Native = None

    @property
    def changed(self) -> bool:
        """Whether what is to be sent differs from what the framework's message became."""
        return self.message is not self.before and self.message != self.before

    @property
    def calls(self) -> Mapping[int, Native]:
        """The calls that are left, by their place among those of the framework's message; new ones have later places.

        An id says nothing about which call it is: it may come again, and it may be spelled otherwise now.
        """
        before, left = _calls_of(self.before), _calls_of(self.message)
        if len(before) == len(left):
            return dict(enumerate(left))
        start, new = 0, count(len(before))
        calls: dict[int, Native] = {}
        for call in left:
            later = range(start, len(before))
            place = next((place for place in later if _is_the_same(before[place], call)), None)
            calls[next(new) if place is None else place] = call
            start = start if place is None else place + 1
        return calls


Write = Callable[[M | None, Sequence[Piece]], M]
"""A framework's message as it is to be sent: given the one that it was and what is left of it, in order; None for a
message that was put in, then there is one piece."""


def _calls_of(message: Native) -> Sequence[Native]:
    """The calls of a message of Chat Completions."""
    return (message or {}).get("tool_calls") or ()


def _is_the_same(before: Native, call: Native) -> bool:
    return bool(before["id"] == call["id"] or before["function"] == call["function"])


def _as_prepared(_was: object, pieces: Sequence[Piece]) -> Native:
    return pieces[0].message


@frozen
class Request(Generic[M]):
    """What a framework is about to send.

    Args:
        name: The conversation's name: the framework's own thread or run id.
        adapter: The API in whose format ``pieces`` are.
        objects: The framework's own messages.
        pieces: What each of them becomes in that format: mostly one message; without it, they are the API's own.
        write: Makes a message of the framework's of what changed; without it, that is one.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions in that format.
        model: The model's name, if known.
        owner: Whose it is, where it is unnamed: it goes on with no conversation of another's.
    """

    name: Hashable
    adapter: Adapter
    objects: Sequence[M]
    pieces: Sequence[Sequence[Any]] = field(
        default=Factory(lambda self: [[each] for each in self.objects], takes_self=True), repr=False
    )
    write: Write[M] = field(default=_as_prepared, repr=False)
    system: Native = field(default=None, repr=False)
    tools: Native = field(default=None, repr=False)
    model: str | None = None
    owner: str = ""


class ModelCalls:
    """The model calls of one hook: ``hook.agentctx`` has the sessions by name, the last view and its report.

    Args:
        hook: The hook's name, for errors.
        pipeline: Prepares the calls, each conversation in a session of its own.
        sessions: Holds the sessions, instead of ``pipeline``: shared by hooks, or kept in a store.

    Raises:
        ConfigError: If neither is given, or both.
    """

    def __init__(self, hook: str, pipeline: Pipeline | None, sessions: Sessions | None) -> None:
        if (pipeline is None) == (sessions is None):
            msg = f"{hook}: pass a pipeline, or sessions=Sessions(pipeline), and not both"
            raise ConfigError(msg)
        held = Sessions(pipeline) if sessions is None and pipeline is not None else sessions
        if not isinstance(held, Sessions) or not isinstance(held.pipeline, Pipeline):
            option = f"{hook}.sessions"
            raise must_be(option, "Sessions(pipeline)", sessions)
        self._conversations = Conversations(held.pipeline, key=_name_of, sessions=held)
        # What has no name is found in memory: a store keeps what has one.
        unnamed = held if held.store is None else Sessions(held.pipeline)
        self._unnamed = Unnamed(held.pipeline, sessions=unnamed)

    def __repr__(self) -> str:
        """One line: how many sessions there are, and the last view."""
        return repr(self._conversations)

    @property
    def sessions(self) -> Sessions:
        """The sessions, by the framework's own thread or run id."""
        return self._conversations.sessions

    @property
    def view(self) -> View | None:
        """The last view that was prepared, of whichever conversation."""
        return self._conversations.view

    @property
    def report(self) -> Report | None:
        """The report of the last view."""
        return self._conversations.report

    async def begin(self, request: Request[M]) -> PreparedCall[M]:
        """Prepare a model call.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        flat = [message for pieces in request.pieces for message in pieces]
        where = self._unnamed if request.name == UNNAMED else self._conversations
        call = await begin(where, _Apart(request, flat), {_NAME: request.name, _OWNER: request.owner})
        self._conversations.view = where.view
        return PreparedCall(request, call)


_NAME, _OWNER = "agentctx_name", "agentctx_owner"
"""The fields of a body that say what a conversation is called, and whose it is."""


def _name_of(body: Native) -> Native:
    return body[_NAME]


class _Apart(Adapter):
    """The API of a request that the framework will write: what there is to prepare is known already."""

    def __init__(self, request: Request[Any], messages: list[Any]) -> None:
        self._parts = RequestParts(messages, request.system, request.tools, request.model)
        self._adapter = request.adapter

    @property
    def format(self) -> str:
        """The wire format of the messages."""
        return self._adapter.format

    def read(self, _body: Native, /) -> RequestParts | None:
        """What there is to prepare; None when there are no messages."""
        return self._parts if self._parts.messages else None

    def begins(self, event: Native, /) -> bool:
        """As the API says."""
        return self._adapter.begins(event)


@define
class PreparedCall(Generic[M]):
    """A model call that is prepared.

    Args:
        request: What the framework was about to send.
        call: The call in its conversation; None for one that is sent as it is, since it is made for a step of the same
            pipeline, for something that is made for one.
        messages: What to send instead: the framework's own objects where they are unchanged.
    """

    request: Request[M]
    call: ModelCall | None
    messages: list[M] = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Write the view."""
        self._write()

    @property
    def view(self) -> View | None:
        """What was prepared, with its report."""
        return None if self.call is None else self.call.view

    async def recover(self, error: BaseException) -> bool:
        """After a failed model call: whether ``messages`` are strictly smaller now and may be sent, once.

        They are where the error says that the request was too large; the session learns the limit from it.
        """
        if self.call is None or not await self.call.shrink(error):
            return False
        self._write()
        return True

    async def answered(self, send: Callable[[], Awaitable[A]]) -> A:
        """What ``send`` answers to ``messages``; where they were too large, to the smaller ones, once."""
        try:
            return await send()
        except Exception as error:
            if not await self.recover(error):
                raise
            return await send()

    def answered_blocking(self, send: Callable[[], A]) -> A:
        """As ``answered``, for a caller that is not async."""
        try:
            return send()
        except Exception as error:
            if not blocking(self.recover, error):
                raise
            return send()

    async def streamed(
        self, send: Callable[[], AsyncGenerator[A]], begins: Callable[[A], bool] = lambda _piece: True
    ) -> AsyncGenerator[A]:
        """The pieces of the answer; where ``messages`` were too large, those of another, once.

        Args:
            send: Asks for the answer to ``messages``.
            begins: Whether a piece holds something that the model said: from then on nothing is sent again.
        """
        begun = False
        try:
            async with aclosing(send()) as pieces:
                async for piece in pieces:
                    begun = begun or begins(piece)
                    yield piece
        except Exception as error:
            if begun or not await self.recover(error):
                raise
        else:
            return
        async with aclosing(send()) as pieces:
            async for piece in pieces:
                yield piece

    def streamed_blocking(self, send: Callable[[], Iterator[A]]) -> Iterator[A]:
        """As ``streamed``, for a caller that is not async."""
        begun = False
        try:
            for piece in send():
                begun = True
                yield piece
        except Exception as error:
            if begun or not blocking(self.recover, error):
                raise
        else:
            return
        yield from send()

    def record(self, usage: Native) -> None:
        """Take note of what was billed: a provider's usage, as its JSON is. It raises nothing."""
        if self.call is not None:
            self.call.learn(usage)

    def record_tokens(self, prompt: int | None, answer: int | None, cached: int | None = None) -> None:
        """Take note of how many tokens were billed, where the framework knows that. As ``record``."""
        if prompt:
            details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached is not None else {}
            self.record({"prompt_tokens": prompt, "completion_tokens": answer, **details})

    @property
    def is_kept(self) -> bool:
        """Whether the conversation is kept in a store."""
        return (
            self.call is not None and self.call.session is not None and self.call.session.internals.keeper is not None
        )

    async def save(self) -> None:
        """Save what was recorded, where the conversation is kept in a store; else the next step does. As ``record``."""
        if self.call is not None:
            await self.call.kept(waits=True)

    def _write(self) -> None:
        self.messages = list(self.request.objects) if self.call is None else _written(self.request, self.call.view)


def _written(request: Request[M], view: View) -> list[M]:
    """The view as the framework's messages."""
    flat = [(index, *piece) for index, pieces in enumerate(request.pieces) for piece in enumerate(pieces)]
    view_pieces: list[tuple[int | None, Piece]] = []
    for origin, message in zip(view.origins, view.messages, strict=True):
        owner, place, before = (None, 0, None) if origin is None else flat[origin]
        kept = owner is not None and get(before, "role") == get(message, "role")  # a framework's message keeps its role
        view_pieces.append((owner, Piece(place, message, before)) if kept else (None, Piece(0, message)))
    return list(_objects(request, view_pieces))


def _objects(request: Request[M], view_pieces: Sequence[tuple[int | None, Piece]]) -> Iterator[M]:
    for owner, group in groupby(view_pieces, key=itemgetter(0)):
        pieces = [piece for _, piece in group]
        if owner is None:
            yield from (request.write(None, [piece]) for piece in pieces)
        elif are_whole(pieces, request.pieces[owner]):
            yield request.objects[owner]
        else:
            yield request.write(request.objects[owner], pieces)


def are_whole(pieces: Sequence[Piece], before: Sequence[Native]) -> bool:
    """Whether they are all that a framework's message became, in its order, and unchanged."""
    places = [piece.place for piece in pieces]
    return places == list(range(len(before))) and not any(piece.changed for piece in pieces)


class Converted(Generic[M]):
    """What a framework's messages became in a wire format, remembered while they live: a long history is read once.

    Args:
        read: What a message becomes.
        parts: What a message consists of: one of which another object is a part is read again.
    """

    def __init__(self, read: Callable[[M], list[Any]], parts: Callable[[M], Sequence[object]]) -> None:
        self._read, self._parts = read, parts
        self._known: dict[int, tuple[ref[M], Sequence[object], list[Any]]] = {}

    def __call__(self, message: M) -> list[Any]:
        """What the message becomes."""
        known, parts = self._known.get(id(message)), self._parts(message)
        if (
            known is not None
            and known[0]() is message
            and len(known[1]) == len(parts)
            and all(map(is_, known[1], parts))
        ):
            return known[2]
        place, pieces = id(message), self._read(message)
        self._known[place] = (ref(message, lambda _gone: self._known.pop(place, None)), parts, pieces)
        return pieces


@define(eq=False)
class Unnamed(Conversations):
    """The conversations of one hook that have no name of the framework's: see ``agentctx.session.conversations``."""

    _finder: UnnamedSessions = field(
        init=False, default=Factory(lambda self: UnnamedSessions(self.sessions), takes_self=True), repr=False
    )

    @asynccontextmanager
    async def of(self, body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared; None when it is made for a step of one of them."""
        if current() is not None:
            async with Conversations.of(self, body, request, format_name) as session:
                yield session
        elif (around := {work.session for work in works_around()}) and around.intersection(self.sessions.values()):
            yield None
        else:
            conversation = self._finder.find(request, body.get(_OWNER, ""), format_name)
            for name in conversation.forgotten:
                await self.sessions.close(name)
            async with self.sessions.using(conversation.name, request.model, format_name) as session:
                yield session


def chat_call(call_id: str, name: str, arguments: Native) -> dict[str, Any]:
    """Return a call as Chat Completions has it; arguments that are no text become JSON."""
    written = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": written}}


def chat_tool(name: str, description: str | None, parameters: Native) -> dict[str, Any]:
    """Return the definition of a tool as Chat Completions has it."""
    described = {"name": name, "description": description or "", "parameters": parameters}
    return {"type": "function", "function": described}


def chat_thinking(text: str | None, signature: str | None) -> dict[str, Any]:
    """Return a block of reasoning as it stands beside the content of an answer."""
    return {"type": "thinking", "thinking": text or "", **({"signature": signature} if signature else {})}


def chat_answer(content: Native, calls: Sequence[Native], thinking: Sequence[Native] = ()) -> dict[str, Any]:
    """Return an answer of the model as Chat Completions has it."""
    answer: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else "")}
    if calls:
        answer["tool_calls"] = calls
    if thinking:
        answer["thinking_blocks"] = thinking
    return answer


def words_of(content: Native) -> str:
    """Return the text of a content of Chat Completions, which may be a text, parts, or nothing."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content or () if part.get("type") == "text")


def arguments_of(call: Native) -> dict[str, Any]:
    """Return the arguments of a call of Chat Completions; none at all stand for an empty object."""
    arguments: dict[str, Any] = json.loads(call["function"]["arguments"] or "{}")
    return arguments


@frozen
class Blocks:
    """How a framework writes the blocks of one message.

    Args:
        kind: Whether a block is a ``"call"``, ``"thinking"``, a ``"text"`` or anything else.
        part: A block, but for a call, as Chat Completions has it.
        text: Writes a text in the place of a block; of None, where it is a new one.
        called: Writes a call in the place of a block; of None, where it is a new one. None where calls are no blocks.
    """

    kind: Callable[[Any], str]
    part: Callable[[Any], Native]
    text: Callable[[Any, str], Any]
    called: Callable[[Any, Native], Any] | None = None

    def left(self, blocks: Sequence[Any], piece: Piece) -> list[Any]:
        """Return the blocks that are left of a message: each as it was, or with what is to be sent in its place."""
        calls, places = {} if self.called is None else dict(piece.calls), count()
        thinking, said = piece.message.get("thinking_blocks") or (), piece.message.get("content") or ""
        same = said == (piece.before.get("content") or "")
        parts = list(said) if isinstance(said, list) else [{"type": "text", "text": said}] if said else []
        own = [self.part(block) for block in blocks if self.kind(block) not in ("call", "thinking")]
        texts = iter([part["text"] for part in parts if part["type"] == "text" and part not in own and not same])
        left: list[Any] = []
        for block in blocks:
            kind = self.kind(block)
            if kind == "call":
                if self.called is not None and (call := calls.pop(next(places), None)) is not None:
                    left.append(self.called(block, call))
            elif kind == "thinking":
                left += [block] if self.part(block) in thinking else []
            elif same:
                left.append(block)
            elif (part := self.part(block)) in parts:
                parts.remove(part)
                left.append(block)
            elif kind == "text":
                left += [self.text(block, text) for text in islice(texts, 1)]
            elif isinstance(said, str):
                left.append(block)
        left += [self.text(None, text) for text in texts]
        return left if self.called is None else [*left, *(self.called(None, call) for call in calls.values())]


def missing(hook: str, extra: str, error: ImportError) -> ImportError:
    """Return the error of a module whose framework is not installed, or not in a version that works.

    Args:
        hook: The hook of that module.
        extra: The extra of this library that installs the framework.
        error: What its import has raised.
    """
    return ImportError(unmet(hook, extra, error), name=error.name)


def check_is_called(hook: str, argument: str, value: object, method: str) -> None:
    """See that what a hook is to call can be called.

    Args:
        hook: The hook that was given it.
        argument: The argument.
        value: What was passed.
        method: How the framework calls it.

    Raises:
        ConfigError: If it has no such method: it is a model's name, say, and not the model.
    """
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        option = f"{hook}.{argument}"
        raise must_be(option, f"the framework's own object, which has {method}()", value)
