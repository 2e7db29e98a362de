# ruff: noqa: INP001 - a script, not a package
"""Make ``agentctx/testing/servers/fields.json`` from the types of the installed SDKs.

Usage: ``python scripts/request_fields.py``. It holds the fields that each provider knows in a request, in a message by
its role or type, and in a part by its type; ``""`` stands for every role or type. Gemini's request and the fields that
are sent but that no type names are written here, from https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_type_hints

from anthropic.types import ContentBlockParam, MessageParam
from anthropic.types.beta import BetaContentBlockParam, BetaMessageParam, message_create_params as beta_messages
from anthropic.types.message_create_params import MessageCreateParamsBase
from google.genai import types as gemini
from openai.types import chat
from openai.types.beta.beta_response_input_item_param import BetaResponseInputItemParam
from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
from openai.types.chat.completion_create_params import CompletionCreateParamsBase
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_input_item_param import ResponseInputItemParam
from typing_extensions import is_typeddict

TARGET = Path(__file__).parents[1] / "agentctx" / "testing" / "servers" / "fields.json"
SDKS = ("openai", "anthropic", "google-genai")
ROLES = ("System", "Developer", "User", "Assistant", "Tool", "Function")
GEMINI = (
    *("contents", "systemInstruction", "tools", "toolConfig", "safetySettings", "generationConfig", "cachedContent"),
    *("labels", "serviceTier", "store"),
)
ANSWERED = {"annotations"}
"""What a chat completion's message has and a request may therefore bring back."""


def fields(kind: object) -> set[str]:
    """The fields of a type."""
    kinds = [kind] if is_typeddict(kind) else get_args(kind)
    return {name for each in kinds for name in each.__annotations__}


def by_type(union: object) -> dict[str, set[str]]:
    """The fields of each type of a union, by the literal in its ``type``."""
    found: dict[str, set[str]] = {}
    for kind in filter(is_typeddict, get_args(union)):
        for name in _literals(get_type_hints(kind)["type"]):
            found.setdefault(name, set()).update(fields(kind))
    return found


def _literals(hint: object) -> list[str]:
    inner = get_args(hint)
    return [each for part in inner for each in ([part] if isinstance(part, str) else _literals(part))]


def aliases(model: object) -> set[str]:
    """The names of a model's fields in JSON."""
    return {field.alias or name for name, field in model.model_fields.items()}


def table() -> dict[str, dict[str, Any]]:
    """The fields of each format."""
    roles = {role.lower(): fields(getattr(chat, f"ChatCompletion{role}MessageParam")) for role in ROLES}
    roles["assistant"] |= ANSWERED
    items = {**by_type(BetaResponseInputItemParam), **by_type(ResponseInputItemParam)}
    blocks = {**by_type(BetaContentBlockParam), **by_type(ContentBlockParam)}
    beta = fields(beta_messages.MessageCreateParamsBase) - fields(MessageCreateParamsBase) - {"betas"}
    return {
        "openai-chat": {
            "request": fields(CompletionCreateParamsBase) | {"stream"},
            "message": roles,
            "part": by_type(ChatCompletionContentPartParam),
        },
        "openai-responses": {
            "request": fields(ResponseCreateParamsBase) | {"stream"},
            "message": items,
            "part": {},
        },
        "anthropic": {
            "request": fields(MessageCreateParamsBase) | {"stream"},
            "beta": beta,
            "message": {"": fields(MessageParam) | fields(BetaMessageParam)},
            "part": blocks,
        },
        "gemini": {
            "request": set(GEMINI),
            "message": {"": aliases(gemini.Content)},
            "part": {"": aliases(gemini.Part)},
        },
    }


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in sorted(value.items())}
    return sorted(value)


def main() -> None:
    """Write the file."""
    made = ", ".join(f"{name} {version(name)}" for name in SDKS)
    TARGET.write_text(json.dumps({"made from": [made], **_plain(table())}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
