"""Count and check a request without changing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentctx.characters import cluster_end_after
from agentctx.engine.reading import as_list, known_profile, naming_what_is_too_deep, reader
from agentctx.errors import InvalidInput
from agentctx.formats.registry import FORMATS, detect, format_named, messages_of
from agentctx.message import Native
from agentctx.models.table import encoding_for
from agentctx.protocols import TokenCounter
from agentctx.rules import find_violations
from agentctx.tokens.counting import as_counter
from agentctx.tokens.tiktoken import encoding
from agentctx.wire_format import Violation


def count(
    messages: Sequence[Any],
    model: str | None = None,
    tools: Native = None,
    system: Native = None,
    format: str | None = None,  # noqa: A002 - the contract's name
    counter: TokenCounter | Callable[[str], int] | None = None,
) -> int:
    """Tokens of the request that would be sent.

    Args:
        messages: The transcript in the provider's own shape.
        model: The model's name: chooses encoding and formulas.
        tools: The tool definitions.
        system: The system prompt, where the format keeps it apart.
        format: The wire format; found out when not given.
        counter: Counts text instead of the model's encoding: a counter, or a plain function of a text.

    Raises:
        InvalidInput: If something cannot be read; names the message and the field.
        ConfigError: If the counter is none, or async.

    Example:
        >>> from agentctx import count
        >>> count([{"role": "user", "content": "Why does the build fail?"}], model="gpt-5.4")
        13
    """
    as_list(messages)
    counted = as_counter(counter)
    with naming_what_is_too_deep(messages, system, tools):
        source = reader(messages, system=system, tools=tools, format=format, model=model, counter=counted)
        return source.meter.size(source.context(messages, system, tools))


def validate(
    request: Mapping[str, Any],
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
    before: Mapping[str, Any] | None = None,
) -> tuple[Violation, ...]:
    """Every rule of the provider that a request breaks.

    Args:
        request: ``messages`` (or ``input``, ``contents``) and what else the provider takes.
        format: The wire format; found out when not given.
        model: The model's name; without it the request's own ``model``.
        before: The request that this one was made from: signed bytes are checked against it.

    Raises:
        InvalidInput: If the request is no mapping, its format is unknown or ambiguous, or a message is nested too deep
            to be looked at.

    Example:
        >>> from agentctx import validate
        >>> request = {"messages": [{"role": "tool", "tool_call_id": "a", "content": "…"}]}
        >>> [violation.rule for violation in validate(request, "openai-chat")]
        ['chat.tool_orphan']
    """
    for where, each in (("request", request), ("before", request if before is None else before)):
        if not isinstance(each, Mapping):
            raise InvalidInput(where, f"must be an object with messages, got {type(each).__name__}")
    name = model if model is not None else request.get("model")
    known = name if isinstance(name, str) else None
    with naming_what_is_too_deep(messages_of(request), request.get("system"), request.get("tools")):
        wire = format_named(format, known) if format is not None else detect(request, known)
        return find_violations(wire, request, known_profile(known), before)


def warmup(model: str | None = None) -> None:
    """Load all that steps need now, before the event loop starts, which it would hold up.

    tiktoken with its vocabulary takes about 0.2 seconds, all of it under the interpreter lock.

    Args:
        model: The model whose encoding to load; ``o200k_base`` when not given.

    Example:
        >>> from agentctx import warmup
        >>> warmup("gpt-5.4")
    """
    encoding("o200k_base" if model is None else encoding_for(model)).encode_ordinary("warm")
    import agentctx.session.session  # noqa: F401, PLC0415 - a pipeline imports it with its first session

    tuple(FORMATS.values())  # each is imported when it is first looked up
    cluster_end_after("words", 1)  # imports regex, with which text is cut
