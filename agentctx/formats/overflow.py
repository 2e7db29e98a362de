"""Is a provider's error a context overflow, and what does it say about the limit?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property, partial
from inspect import getattr_static
from typing import Literal

from attrs import frozen

from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.formats.registry import FORMATS
from agentctx.lazy import data_file, lazy_pattern
from agentctx.message import Native

Kind = Literal["window", "rate", "bytes", "characters"]


@frozen
class Overflow:
    """A provider refused a request because it was too large: a smaller one would be taken.

    Args:
        kind: What it was too large for: the model's ``"window"`` (tokens), a token allowance of one minute that it
            could never fit (``"rate"``, tokens), the endpoint's body size (``"bytes"``), or one text of it for the
            longest text (``"characters"``). The amounts are in that unit.
        limit: The most that is taken, when the error says it.
        requested: What the request had, with the room for the answer where the provider counts that in.
        excess: How much of it was too much.
        prompt: What the prompt alone had, when the error says it.
        provider: Who said so, as far as the exception or the words tell; empty when they do not.
        message: The words it was told by.

    Example:
        >>> from agentctx import classify_error
        >>> classify_error(RuntimeError("prompt is too long: 213462 tokens > 200000 maximum")).kind
        'window'
    """

    kind: Kind
    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    prompt: int | None = None
    provider: str = ""
    message: str = ""


def classify_error(error: Native) -> Overflow | None:
    """Whether a provider's error means that the context was too large, and what it says about the limit.

    No SDK is needed. Followed are ``__cause__`` and ``__context__``, exception groups, ``.body`` and ``.response``,
    JSON within strings, and the error events of streams; the outermost exception that says something decides. Rate
    limits, quotas, limits of the answer's length and the like are no overflow: with a token allowance, it is one only
    when the request is larger than the whole allowance.

    Args:
        error: What was raised, or what came instead of an answer: an error body as a dict or text, or an event.

    Returns:
        The overflow, or None when it is something else.

    Example:
        >>> from agentctx import classify_error
        >>> overflow = classify_error(RuntimeError("prompt is too long: 213462 tokens > 200000 maximum"))
        >>> overflow.requested, overflow.limit
        (213462, 200000)
        >>> classify_error(TimeoutError("no answer")) is None
        True
    """
    if not isinstance(error, BaseException):
        return _judge(_lines(error))[1]
    refused = None if isinstance(error, AgentctxError) else overflow_of(error)
    # An SDK's error stands for a provider's answer.
    if refused is not None and any(hasattr(error, name) for name in ("status_code", "response", "code")):
        excess = refused.tokens - refused.limit
        return Overflow("window", refused.limit, refused.tokens, excess, message=str(error)[:500])
    for cause in causes(error):
        if isinstance(cause, AgentctxError):
            return None
        words = ""
        # The code of an exception may fail at its words, which must not hide the error.
        with suppress(AttributeError, LookupError, RuntimeError, TypeError, ValueError):
            words = str(cause)
        classes = [base for base in type(cause).__mro__ if base.__module__ != "builtins"]
        lines = (*_lines(words), *_attributes(cause), *(base.__name__ for base in classes))
        decided, overflow = _judge(lines, classes[0].__module__.partition(".")[0] if classes else "")
        if decided:
            return overflow
    return None


OVERFLOW = "agentctx_overflow"
"""The extension of an HTTP response in which a ``ContextOverflow`` travels to whoever reads the SDK's error."""


def overflow_of(error: BaseException) -> ContextOverflow | None:
    """Return the ``ContextOverflow`` behind an SDK's error: the request could not be made to fit, and was not sent.

    It is the error itself, one of its causes, or in the response that the error holds.

    Args:
        error: The error that a wrapped client raised.

    Returns:
        The overflow, with the tokens needed, the limit, and the biggest items; None where it is something else.

    Example:
        >>> from agentctx import ContextOverflow, overflow_of
        >>> overflow_of(ContextOverflow(tokens=900, limit=500)).limit
        500
    """
    for cause in causes(error):
        if isinstance(cause, ContextOverflow):
            return cause
        extensions = getattr(getattr(cause, "response", None), "extensions", None)
        overflow = extensions.get(OVERFLOW) if isinstance(extensions, Mapping) else None
        if isinstance(overflow, ContextOverflow):
            return overflow
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, then those that it was raised from or while handling, outermost first, each once.

    The members of a group follow the group.
    """
    waiting: list[object] = [error]
    seen = set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen or not isinstance(current, BaseException):
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        before = current.__cause__
        if before is None and not current.__suppress_context__:
            before = current.__context__
        waiting += *current.args, _stored(current, "original_exception"), before


_READ = frozenset(
    re.findall(
        r"\w+",
        """
    args base_resp body candidates choices code content _content data detail details errmsg error error_code error_msg
    error_message error_response error_type errorcode errormessage errors events exception fault faultstring
    finish_reason finishreason http_body http_status httpstatuscode innererror json_body last_response message metadata
    msg n_ctx n_prompt_tokens originalmessage param raw raw_response reason response responsemetadata server_message
    status status_code status_msg statuscode stop_reason stopreason text title type __type
    """,
    )
)
"""The fields and attributes that hold the sentences, codes and numbers of errors."""

_THE_MODELS = frozenset({"text", "content", "args"})
"""Fields of a body in which the model speaks, or that quote the request."""

_ECHO = lazy_pattern(r"input_value=|\[type=\w+, |['\"]input['\"]:\s*[\[{'\"]|['\"]failed_generation\\?['\"]:")
_DEEPEST = 8
_LOOKED_AT = 8_000


def _lines(thing: Native, name: str = "", depth: int = 0) -> Iterator[str]:
    """Each sentence, code and number of an error, without a validator's echo of the request."""
    if isinstance(thing, (bytes, bytearray, memoryview)):
        thing = bytes(thing[: 4 * _LOOKED_AT]).decode("utf-8", "replace")
    if depth > _DEEPEST or thing is None or isinstance(thing, (bool, float, BaseException)):
        return
    if isinstance(thing, str):
        inside = None
        if thing.lstrip().startswith(("{", "[")):
            with suppress(ValueError, RecursionError):
                inside = json.loads(thing)
        if inside is None:
            yield _ECHO.split(thing[:_LOOKED_AT], 1)[0]
        else:
            yield from _lines(inside, name, depth + 1)
    elif isinstance(thing, int):
        yield f"{name}={int(thing)}"
    elif isinstance(thing, (list, tuple)):
        for member in thing[:20]:
            yield from _lines(member, name, depth + 1)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            name = str(key).lower()
            if name in _READ - _THE_MODELS or name.endswith("exception"):
                yield from _lines(value, name, depth + 1)
    else:
        yield from _attributes(thing, depth)


def _attributes(thing: object, depth: int = 0) -> Iterator[str]:
    """Each sentence, code and number in the attributes of an error or of a response."""
    for name in sorted(_READ):
        yield from _lines(_stored(thing, name), name, depth + 1)


def _stored(thing: object, name: str) -> Native:
    """An attribute that the object holds; None for properties and methods."""
    static = getattr_static(thing, name, None)
    if static is None or callable(static) or isinstance(static, (property, cached_property)):
        return None
    return getattr(thing, name, None)


_UNICODE = lazy_pattern(r"(?<!\\)\\+u([0-9a-fA-F]{4})")


def plain(text: str) -> str:
    """Text as the patterns expect it: lower case, plain quotes, no escapes, single spaces."""
    text = _UNICODE.sub(lambda hit: chr(int(hit[1], 16)), text).lower().replace("\\n", " ").replace("\\", "")
    return re.sub(r"\s+", " ", text.replace("\u2019", "'").replace("\u2018", "'"))


def _judge(lines: Iterable[str], source: str = "") -> tuple[bool, Overflow | None]:
    """Whether the lines decide the question, and the overflow that they tell of.

    The first row of the table that recognises the lines decides. Of each amount the first one counts: the rows come
    before those of ``amount_patterns``.
    """
    lines = [line for line in dict.fromkeys(lines) if line.strip()]
    text = "\n".join(map(plain, lines))
    added = [
        Refusal("window", wire.overflow_words, provider=wire.name) for wire in FORMATS.values() if wire.overflow_words
    ]
    rows = [
        row
        for row in (*added, *refusals())
        if row.pattern.search(text) and not (row.unless and row.unless.search(text))
    ]
    if not rows or rows[0].kind is None:
        return bool(rows), None
    amounts: dict[str, int] = {}
    patterns = (*(row.pattern for row in rows), *amount_patterns())
    for hit in (hit for pattern in patterns for hit in pattern.finditer(text)):
        read = {name: _as_number(digits) for name, digits in hit.groupdict().items() if digits}
        size = read.get("requested", read.get("prompt", 0) + read.get("answer", 0))
        too_small = 0 < size <= read.get("limit", 0) and rows[0].kind != "rate"
        if not too_small and all(amounts.get(name, amount) == amount for name, amount in read.items()):
            amounts |= read
    limit, requested, excess, prompt, answer = map(amounts.get, ("limit", "requested", "excess", "prompt", "answer"))
    if prompt is None and requested is not None and answer is not None:
        prompt = requested - answer
    if requested is None and prompt is not None:
        requested = prompt + (answer or 0)
    if requested is None and limit is not None and excess is not None:
        requested = limit + excess
    if excess is None and limit is not None and requested is not None and requested > limit:
        excess = requested - limit
    if rows[0].kind == "rate" and excess is None:
        return True, None
    provider = next((row.provider for row in rows if row.provider), source)
    message = next((line for line in lines if " " in line), lines[0])
    return True, Overflow(rows[0].kind, limit, requested, excess, prompt, provider, message[:500])


def _as_number(digits: str) -> int:
    times = {"k": 1_000, "m": 1_000_000}.get(digits[-1], 1)
    return int(digits.rstrip("km").replace(",", "").replace("_", "")) * times


@frozen
class Refusal:
    """The words in which providers refuse requests of one kind.

    Args:
        kind: The bound that the request exceeds; None where no smaller request helps.
        pattern: The words, in small letters; the groups ``limit``, ``requested``, ``prompt``, ``answer`` and
            ``excess`` hold the numbers.
        examples: Sentences of providers, with the names of the numbers in place of the numbers.
        provider: The only provider that uses the words; empty where several use them.
        unless: Words that give ``pattern`` another meaning.
    """

    kind: Kind | None
    pattern: re.Pattern[str]
    examples: tuple[str, ...] = ()
    provider: str = ""
    unless: re.Pattern[str] | None = None


_data = partial(data_file, "agentctx.formats", "refusals.toml")
"""The words in which providers refuse."""


@cache
def refusals() -> tuple[Refusal, ...]:
    """The table of refusals. The first row that recognises an error decides."""
    sentences = _data()["sentences"]
    return tuple(
        Refusal(
            row.get("kind"),
            _pattern(row["words"]),
            tuple(sentences.get(example, example) for example in row["examples"]),
            row.get("provider", ""),
            _pattern(row["unless"]) if "unless" in row else None,
        )
        for row in _data()["refusals"]
    )


@cache
def amount_patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of numbers in the words of several providers. The first that matches counts."""
    return tuple(map(_pattern, _data()["amounts"]["words"]))


def _pattern(words: Iterable[str]) -> re.Pattern[str]:
    return lazy_pattern(_with_pieces("".join(words)))


def _with_pieces(words: str) -> str:
    """Put the pieces of patterns in the place of their names: ``<LIMIT>``."""
    pieces = _data()["pieces"]
    return re.sub("<([A-Z_]+)>", lambda hit: _with_pieces("".join(pieces[hit[1]])), words)


def refusal_sentence(api: str, *, prompt: int, limit: int) -> str:
    """The sentence by which an API refuses a prompt: agents compact by its words.

    Args:
        api: The name of its format.
        prompt: The tokens of the prompt.
        limit: The most tokens that the model takes.
    """
    sentence: str = _data()["sentences"][api]
    return sentence.format(prompt=prompt, limit=limit)
