"""How an API lays out its requests and answers, as far as preparing, recovering and learning need to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from agentctx.formats.native import string_of
from agentctx.message import Native
from agentctx.reports import View

Body = Mapping[str, Any]
"""A request's body: what the API calls its parameters."""


@frozen
class RequestParts:
    """What a pipeline prepares of a request."""

    messages: Sequence[Any]
    system: Native = None
    tools: Native = None
    model: str | None = None


class Adapter(Protocol):
    """One API of one provider. Inherit it: what an API does not say otherwise holds as it stands here."""

    @property
    def format(self) -> str:
        """The wire format of its messages."""
        ...

    @property
    def messages_key(self) -> str:
        """Where the messages stand in a request."""
        return "messages"

    @property
    def system_key(self) -> str | None:
        """Where the system prompt stands in a request; None where it stands among the messages."""
        return None

    def read(self, body: Body, /) -> RequestParts | None:
        """What there is to prepare in a request; None when it has no messages: then it is sent as it is.

        Raises:
            InvalidInput: If it cannot be prepared.
        """
        if (messages := body.get(self.messages_key)) is None:
            return None
        system = None if self.system_key is None else body.get(self.system_key)
        return RequestParts(messages, system, body.get("tools"), string_of(body, "model"))

    def write(self, body: Body, request: RequestParts, view: View, /) -> dict[str, Any]:
        """The same request with the view's messages and options, and its system prompt and tools where they changed.

        ``request`` is what was read. ``body`` stays as it is.
        """
        written = {**body, self.messages_key: view.messages}
        if self.system_key is not None and view.system is not request.system:
            put(written, self.system_key, view.system)
        if view.tools is not request.tools:
            put(written, "tools", view.tools)
        return merged(written, view.options)

    def usage(self, said: Native, /) -> Native:
        """The usage in an answer, or in one event of a stream; None when it says nothing of the prompt."""
        return get(said, "usage")

    def applied_edits(self, _said: Native, /) -> Native:
        """Return the edits of the prompt that an answer, or one event of a stream, names; None: it names none."""
        return None

    def begins(self, event: Native, /) -> bool:
        """Whether an event of a stream carries something that the model said: from then on nothing is sent again."""
        ...

    def ends(self, _event: Native, /) -> bool:
        """Tell whether an event of a stream is the one after which nothing more is told of the usage."""
        return False

    def failure(self, answer: Native, /) -> Native:
        """Return the error that an answer or an event tells of; None when there is none."""
        return get(answer, "error")

    def too_long(self, tokens: int, limit: int, /) -> str:
        """Return the sentence by which the provider refuses a prompt of ``tokens``; clients compact by its words."""
        return f"prompt is too long: {tokens} tokens > {limit} maximum"

    def tells_usage(self, _body: Body, /) -> bool:
        """Whether the answer to this request tells what was billed, also when it is a stream."""
        return True


def get(thing: object, *path: str) -> Native:
    """The value at a path of keys or attributes; None when something on the way is missing."""
    for name in path:
        if thing is None:
            return None
        thing = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return thing


def put(body: dict[str, Native], key: str, value: object) -> None:
    """Write a part of a request, or take it out when nothing is left of it."""
    if value:
        body[key] = value
    else:
        body.pop(key, None)


def merged(given: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A request with more options: mappings are merged, lists joined; what else both say stays as the caller has it."""
    both = {**more, **given}
    for name in given.keys() & more.keys():
        mine, other = given[name], more[name]
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            both[name] = merged(mine, other)
        elif isinstance(mine, list) and isinstance(other, list):
            both[name] = [*mine, *(each for each in other if each not in mine)]
        elif mine is None:
            both[name] = other
    return both


def api_path(url: str, known: Iterable[str]) -> str:
    """The path of a request in the API; of a whole address, as one may write it by hand, the known one it ends with."""
    path = "/" + url.partition("?")[0].strip("/")
    if "://" not in url:
        return path
    return max((each for each in known if path.endswith(each)), key=len, default=path)
