"""What a test asserts of the requests that an agent made: they fit, their prefix stays, the task is in each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from agentctx.budget import Budget
from agentctx.engine.options import as_budget
from agentctx.engine.reading import Reader, reader
from agentctx.errors import ConfigError
from agentctx.formats.cache_markers import unmarked
from agentctx.formats.native import as_mapping, mapping_or_none
from agentctx.formats.registry import messages_of
from agentctx.marks import Recap
from agentctx.message import Context, Native
from agentctx.printable import on_one_line
from agentctx.reports import View
from agentctx.transcripts.exchanges import system_of, tools_of
from agentctx.unit import first_task

Request = View | Mapping[str, Native]
"""A request: a view, or a body as it is sent, such as ``server.requests`` has them."""

_SHOWN = 80


def assert_fits(
    requests: Request | Sequence[Request],
    budget: Budget | int,
    *,
    model: str | None = None,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
) -> None:
    """See that each request is within the budget, counted anew.

    Args:
        requests: One request or several: views, or bodies.
        budget: The budget; a number is a window in tokens.
        model: The model's name, by whose encoding is counted; without it the body's own.
        format: The format; found out when not given.

    Raises:
        AssertionError: If there is no request, or one has more tokens than the budget's limit.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import assert_fits, assistant, transcript, user
        >>> messages = transcript("openai-chat", user("Go."), assistant("so be it. " * 999), user("And now?"))
        >>> view = await Pipeline(FitContextWindow(), budget=1_000).prepare(messages)
        >>> assert_fits(view, 1_000)
        >>> try:
        ...     assert_fits({"messages": messages}, 1_000)
        ... except AssertionError as error:
        ...     print(error)
        request 1 has 4,017 tokens, 3,017 more than the limit of 1,000
    """
    counted = as_budget(budget)
    if counted is None:
        msg = "assert_fits: pass a budget, or a window in tokens"
        raise ConfigError(msg)
    for number, (source, context) in enumerate(_read(requests, model, format), 1):
        tokens = source.meter.size(context)
        over = tokens - counted.limit
        if over > 0:
            msg = f"request {number} has {tokens:,} tokens, {over:,} more than the limit of {counted.limit:,}"
            raise AssertionError(msg)


def assert_prefix_stable(requests: Sequence[Request], *, moves: int | None = None, share: float | None = None) -> None:
    """See that each request begins with the one before, so that the provider's cache can serve that part.

    What is compared is system prompt, tools and messages, without cache markers.

    Args:
        requests: The requests of one conversation, in order: views, or bodies.
        moves: So many of them may begin otherwise, as after a compaction (``len(recorder.events)``); 0 unless
            ``share`` is given.
        share: At least this share of all that was sent, 0 to 1 and by characters, must be such a beginning.

    Raises:
        AssertionError: If not, or if there is no request; the message names the first place at which one is another.
        ConfigError: If ``moves`` is no whole number from 0 on, or ``share`` none from 0 to 1.

    Example:
        >>> from agentctx.testing import assert_prefix_stable, assistant, transcript, user
        >>> messages = transcript("openai-chat", user("It is 9:00. Go."), assistant("Gone."), user("And now?"))
        >>> assert_prefix_stable([{"messages": messages[:1]}, {"messages": messages}])
        >>> later = transcript("openai-chat", user("It is 9:01. Go."))
        >>> try:
        ...     assert_prefix_stable([{"messages": messages}, {"messages": later}])
        ... except AssertionError as error:
        ...     print(error)
        request 2 does not begin as request 1: messages[0] was
        {"role": "user", "content": "It is 9:00. Go."} and is
        {"role": "user", "content": "It is 9:01. Go."}
    """
    if moves is not None and (type(moves) is not int or moves < 0):
        msg = f"assert_prefix_stable: moves is {moves!r:.80}; it is a number of requests"
        raise ConfigError(msg)
    if share is not None and not (isinstance(share, int | float) and 0 <= share <= 1):
        msg = f"assert_prefix_stable: share is {share!r:.80}; it is from 0 to 1"
        raise ConfigError(msg)
    allowed = 0 if moves is None and share is None else moves
    pieces = []  # of each request in the order in which the provider reads it
    for messages, system, tools in map(_parts, _listed(requests)):
        numbered = ((f"messages[{index}]", message) for index, message in enumerate(messages))
        named = (("tools", tools), ("the system prompt", system), *numbered)
        pieces.append([(name, text_of(unmarked(native))) for name, native in named])
    moved, kept = [], 0
    for number, (last, now) in enumerate(pairwise(pieces), 2):
        same = next((at for at, (one, other) in enumerate(zip(last, now, strict=False)) if one != other), None)
        same = min(len(last), len(now)) if same is None else same
        kept += sum(len(text) for _, text in now[:same])
        if same < len(last):
            moved.append(_moved(number, last[same], now[same] if same < len(now) else None))
    if allowed is not None and len(moved) > allowed:
        more = f"; {len(moved)} requests begin otherwise than the one before, {allowed} may" if allowed else ""
        raise AssertionError(moved[allowed] + more)
    whole = sum(len(text) for each in pieces[1:] for _, text in each)
    if share is not None and kept < share * whole:
        msg = f"{kept / whole:.1%} of what was sent is an unchanged beginning, not {share:.1%}; {moved[0]}"
        raise AssertionError(msg)


def assert_task_survives(
    requests: Request | Sequence[Request],
    task: str | None = None,
    *,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
) -> None:
    """See that the task is in each request, word for word, in what the user says.

    What a recap says of it is not what the user says.

    Args:
        requests: One request or several: views, or bodies.
        task: The task; without it what the user says first in the first request.
        format: The format; found out when not given.

    Raises:
        AssertionError: If there is no request, it is missing somewhere, or the user says nothing in the first request.
        ConfigError: If ``task`` is no text, or blank: that is in everything.

    Example:
        >>> from agentctx.testing import assert_task_survives, assistant, transcript, user
        >>> said = transcript("openai-chat", user("Mend the build."), assistant("How?"), user("Quickly."))
        >>> try:
        ...     assert_task_survives([{"messages": said}, {"messages": said[1:]}])
        ... except AssertionError as error:
        ...     print(error)
        request 2 is without the task, 'Mend the build.'
    """
    if task is not None and not (isinstance(task, str) and task.strip()):
        msg = f"assert_task_survives: task is {task!r:.80}; it is a text that is not blank"
        raise ConfigError(msg)
    for number, (_, context) in enumerate(_read(requests, None, format), 1):
        if task is None:
            task = next((context.messages[at].text for at in first_task(context.messages)), None)
            if task is None:
                msg = "request 1 has no task: the user says nothing in it"
                raise AssertionError(msg)
        of_the_user = (each for each in context.messages if each.role == "user" and Recap.read(each) is None)
        if not any(task in message.text for message in of_the_user):
            msg = f"request {number} is without the task, {on_one_line(task, _SHOWN)!r}"
            raise AssertionError(msg)


def _listed(requests: Request | Sequence[Request]) -> list[Request]:
    """The requests one by one; none is a test that looks at nothing."""
    if not isinstance(requests, (View, Mapping, Iterable)) or isinstance(requests, str):
        msg = f"expected views, or the bodies of requests, got {requests!r:.80}"
        raise ConfigError(msg)
    listed = [requests] if isinstance(requests, (View, Mapping)) else list(requests)
    if not listed:
        msg = "there are no requests to look at"
        raise AssertionError(msg)
    return listed


def _read(
    requests: Request | Sequence[Request],
    model: str | None,
    format: str | None,  # noqa: A002 - as above
) -> Iterator[tuple[Reader, Context]]:
    """Read each request, and give the reader that counts it."""
    for each in _listed(requests):
        messages, system, tools = _parts(each)
        named = None if isinstance(each, View) else each.get("model")
        source = reader(
            messages,
            system=system,
            tools=tools,
            format=format,
            model=model or (named if isinstance(named, str) else None),
        )
        yield source, source.context(messages, system, tools)


def _parts(request: Request) -> tuple[Sequence[Native], Native, Native]:
    """Messages, system prompt and tools."""
    if isinstance(request, View):
        return request.messages, request.system, request.tools
    messages = messages_of(request) if isinstance(request, Mapping) else None
    if isinstance(messages, str) and "input" in request:  # as OpenAI's responses take it
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        msg = f"expected a view, or the body of a request with a list of messages, got {type(request).__name__}"
        raise ConfigError(msg)
    return messages, system_of(request), tools_of(request)


def _moved(number: int, last: tuple[str, str], now: tuple[str, str] | None) -> str:
    name, text = last
    begins = f"request {number} does not begin as request {number - 1}: {name}"
    if now is None:
        return f"{begins} is not there any more"
    at = next((at for at, (one, other) in enumerate(zip(text, now[1], strict=False)) if one != other), 0)
    start = max(0, at - _SHOWN // 2)
    return f"{begins} was\n{_part(text, start)} and is\n{_part(now[1], start)}"


def _part(text: str, start: int) -> str:
    return ("…" if start else "") + on_one_line(text[start:], _SHOWN)


def text_of(native: object) -> str:
    """A native message as JSON, to compare it to the byte; an SDK object as its client sends it."""
    found = mapping_or_none(native)
    return json.dumps(native if found is None else found, default=as_mapping)


def texts_of(natives: Sequence[Any]) -> list[str]:
    """Each native message as JSON."""
    return [text_of(native) for native in natives]
