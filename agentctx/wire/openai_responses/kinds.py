"""Which items there are: what calls what, what answers it, who speaks.

Source: https://platform.openai.com/docs/api-reference/responses/create and the item types of the ``openai`` SDK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from agentctx.wire.native import mapping_or_none

ROLES = ("user", "assistant", "system", "developer")
"""Who may speak in a message."""


@frozen
class CallKind:
    """A kind of call that the client runs, and the item that answers it.

    Args:
        call: Type of the call.
        output: Type of its answer.
        tool: What the tool is called when the item does not name it.
        arguments: The key of the call that says what to do; a second one is used when the first is absent.
        id_key: The key of the call's id.
        answer_keys: The keys of the answer that may hold the id; the first is the one to write.
    """

    call: str
    output: str
    tool: str | None
    arguments: tuple[str, ...]
    id_key: str = "call_id"
    answer_keys: tuple[str, ...] = ("call_id",)


_KINDS = (
    CallKind("function_call", "function_call_output", None, ("arguments",)),
    CallKind("custom_tool_call", "custom_tool_call_output", None, ("input",)),
    CallKind("computer_call", "computer_call_output", "computer", ("actions", "action")),
    CallKind("local_shell_call", "local_shell_call_output", "local_shell", ("action",), answer_keys=("id", "call_id")),
    CallKind("shell_call", "shell_call_output", "shell", ("action",)),
    CallKind("apply_patch_call", "apply_patch_call_output", "apply_patch", ("operation",)),
    CallKind("tool_search_call", "tool_search_output", "tool_search", ("arguments",)),
    CallKind("mcp_approval_request", "mcp_approval_response", None, ("arguments",), "id", ("approval_request_id",)),
)

CALLS: Mapping[str, CallKind] = {kind.call: kind for kind in _KINDS}
"""The kinds of calls by the type of the call."""

OUTPUTS: Mapping[str, CallKind] = {kind.output: kind for kind in _KINDS}
"""The kinds of calls by the type of the answer."""

SETTINGS = frozenset(
    {"compaction", "compaction_summary", "compaction_trigger", "additional_tools", "configuration_update"}
)
"""Items that set up what follows, or stand for what was before: they must survive, as a developer's words do."""

REFERENCE = "item_reference"


def openai_family(model: str) -> str | None:
    """The family of one of OpenAI's own models, for example ``gpt-5.6``; None for any other."""
    found = re.match(r"gpt-\d+(?:\.\d+)?|o\d|chatgpt-|codex-|computer-use|chat-latest", model)
    return found[0] if found else None


def kind_of(item: Mapping[str, Any]) -> str:
    """The type of an item; messages may leave it out, and so may references. Empty when there is none."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is None and "role" in item:
        return "message"
    return REFERENCE if kind is None and isinstance(item.get("id"), str) else ""


def is_client_call(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the item is a call that the client has to answer."""
    return kind in CALLS and (kind != "tool_search_call" or item.get("execution") == "client")


def is_client_output(kind: str, item: Mapping[str, Any]) -> bool:
    """Whether the item is a client's answer to a call."""
    return kind in OUTPUTS and (kind != "tool_search_output" or item.get("execution") == "client")


def caller_of(item: Mapping[str, Any]) -> str | None:
    """The id of the program that made a call, or the call that an item answers; None where the model itself did."""
    caller = item.get("caller")
    found = None if caller is None else (mapping_or_none(caller) or {}).get("caller_id")
    return found if isinstance(found, str) else None


def answered_id(kind: str, item: Mapping[str, Any]) -> object:
    """The id of the call that an answer is for; whatever stands there."""
    for key in OUTPUTS[kind].answer_keys:
        if (found := item.get(key)) is not None:
            return found
    return None
