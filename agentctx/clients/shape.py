"""How an API lays out its requests and answers, as far as preparing, recovering and learning need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import frozen

from agentctx.view import View

Body = Mapping[str, Any]
"""A request's body: what the API calls its parameters."""


@frozen
class Request:
    """What a pipeline prepares of a request.

    Args:
        messages: The transcript.
        system: The system prompt, where the API keeps it apart.
        tools: The tool definitions.
        model: The model's name, if the request says it.
    """

    messages: Sequence[Any]
    system: Any = None
    tools: Any = None
    model: str | None = None


class Shape(Protocol):
    """One API of one provider."""

    @property
    def format(self) -> str:
        """The wire format of its messages."""
        ...

    def read(self, body: Body, /) -> Request:
        """What there is to prepare in a request.

        Raises:
            InvalidInput: If it cannot be prepared.
        """
        ...

    def write(self, body: Body, request: Request, view: View, /) -> dict[str, Any]:
        """The same request with what the pipeline made of it; ``request`` is what was read. ``body`` stays as it is."""
        ...

    def usage(self, said: Any, /) -> Any:  # noqa: ANN401 - a dict or any SDK's object, in and out
        """The usage in an answer, or in one event of a stream; None when it says nothing of the prompt."""
        ...

    def begins(self, event: Any, /) -> bool:  # noqa: ANN401 - a dict or any SDK's object
        """Whether an event of a stream carries something that the model said: from then on nothing is sent again."""
        ...

    def failure(self, said: Any, /) -> Any:  # noqa: ANN401 - a dict or any SDK's object, in and out
        """The error that an answer or an event tells of and the SDK does not raise; None when there is none."""
        ...


def get(thing: Any, *path: str) -> Any:  # noqa: ANN401 - a dict or any SDK's object
    """The value at a path of keys or attributes; None when something on the way is missing."""
    for name in path:
        if thing is None:
            return None
        thing = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
    return thing


def with_view(body: Body, request: Request, view: View, key: str) -> dict[str, Any]:
    """The request with the prepared messages under ``key``, and the tools when a stage chose among them."""
    written = {**body, key: view.messages}
    if view.tools is not request.tools:
        if view.tools:
            written["tools"] = view.tools
        else:
            written.pop("tools", None)
    return written


def name_of_model(body: Body) -> str | None:
    """The model that the request names."""
    name = body.get("model")
    return name if isinstance(name, str) else None
