"""What OpenAI's two APIs have in common: how errors look."""

from __future__ import annotations

from typing import Any

from agentctx.testing.servers.fields import Path

CREATED = 1_780_000_000
"""When every answer was made, in seconds since 1970: the same bytes at each run."""


def error(message: str, param: str | None, code: str | None) -> dict[str, Any]:
    """An error as the APIs write it.

    Args:
        message: What is wrong.
        param: The parameter that is wrong.
        code: The name of the error.
    """
    return {"message": message, "type": "invalid_request_error", "param": param, "code": code}


def unknown_parameter(path: Path) -> str:
    """The words about a field that the APIs do not know."""
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
    return f"Unknown parameter: '{place}'."
