"""Responses that OpenAI makes in the background: the usage of a call comes when its response is retrieved."""

from __future__ import annotations

from collections import OrderedDict

from attrs import field, frozen

from agentctx.clients.apis import Incoming
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.formats.adapter import get
from agentctx.message import Native

MOST_UNFINISHED = 64
"""So many responses in the background are waited for; the oldest is forgotten first."""


@frozen(eq=False)
class Background:
    """The calls of one client that are answered in the background.

    Args:
        conversations: The conversations of the client.
        calls: The calls, by the ids of the responses that will answer them.
    """

    conversations: Conversations
    calls: OrderedDict[str, ModelCall] = field(factory=OrderedDict)

    def follow(self, response: Native, call: ModelCall) -> None:
        """Remember the call that a response will answer, until it is answered."""
        name = get(response, "id")
        if not call.body.get("background") or not isinstance(name, str):
            return
        if call.adapter.usage(response) is None and get(response, "status") in {"queued", "in_progress"}:
            self.calls[name] = call
        else:
            self.calls.pop(name, None)
        if len(self.calls) > MOST_UNFINISHED:
            self.calls.popitem(last=False)
            self.conversations.say_once(_NEVER_RETRIEVED)

    def retrieved_by(self, request: Incoming) -> ModelCall | None:
        """Return the call whose response a request retrieves; None for every other request."""
        before, _, name = request.path.rpartition("/")
        return self.calls.get(name) if request.method == "GET" and before.endswith("/responses") else None


_NEVER_RETRIEVED = (
    "responses in the background were never retrieved by the client that asked for them, so the session does not know "
    "their cost: call responses.retrieve(id) of the same client"
)
