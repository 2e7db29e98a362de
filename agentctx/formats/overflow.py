"""Is a provider's error a context overflow, and what does it say about the limit?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from inspect import getattr_static
from typing import Any, Literal

from attrs import define, evolve, field, frozen

from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.formats.registry import FORMATS
from agentctx.lazy import lazy_pattern
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
        payload = Evidence()
        _any(error, payload, 0)
        return _judge(payload)[1]
    refused = None if isinstance(error, AgentctxError) else overflow_of(error)
    # An SDK's error stands for a provider's answer.
    if refused is not None and any(hasattr(error, name) for name in ("status_code", "response", "code")):
        excess = refused.tokens - refused.limit
        return Overflow("window", refused.limit, refused.tokens, excess, message=str(error)[:500])
    for each in causes(error):
        if isinstance(each, AgentctxError):
            return None
        decided, overflow = _judge(own(each))
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


def _judge(said: Evidence) -> tuple[bool, Overflow | None]:
    """Whether the evidence decides the question, and how."""
    texts = [plain(text) for text in said.texts]
    whole = " | ".join(texts)
    if said.statuses & HOPELESS:
        return True, None
    for judge in (_allowance, _long_text):
        decided, found = judge(whole)
        if decided:
            return True, found and _named(found, said, whole)
    if ANSWER.search(whole) and not REQUEST.search(whole):  # about the length of the answer, and nothing that was sent
        return True, None
    kind = _kind(said, whole)
    if kind is None:
        return bool(RATE.search(whole) or any(map(RATE.search, said.codes))), None
    told = amounts(texts)
    prompt, limit = said.numbers.get("n_prompt_tokens"), said.numbers.get("n_ctx")
    if prompt is not None or limit is not None:
        told = complete(limit or told.limit, prompt or told.requested, None, prompt)
    return True, _named(Overflow(kind, told.limit, told.requested, told.excess, told.prompt), said, whole)


def _kind(said: Evidence, whole: str) -> Kind | None:
    """The kind of overflow that the words, the codes or the status tell of."""
    own_words = (wire.overflow_words for wire in FORMATS.values())  # by which one provider alone says it
    if (
        WINDOW.search(whole)
        or any(map(NAMES.search, said.codes))
        or any(words is not None and words.search(whole) for words in own_words)
    ):
        return "window"
    if BYTES.search(whole) or any(map(BYTES.search, said.codes)):
        return None if MONEY.search(whole) else "bytes"
    if RATE.search(whole) or any(map(RATE.search, said.codes)) or 429 in said.statuses:
        return None
    if NO_BODY.search(whole) or (PERHAPS.search(whole) and not ELSE.search(whole)):
        return "window"
    return "bytes" if 413 in said.statuses else None


def _allowance(text: str) -> tuple[bool, Overflow | None]:
    """A token allowance of some time: too small for this request, or only used up for now."""
    hit = _ALLOWANCE.search(text)
    if hit is None or not RATE.search(text):
        return False, None
    limit, requested = map(_as_number, hit.groups())
    return True, Overflow("rate", limit, requested, requested - limit) if requested > limit else None


def _long_text(text: str) -> tuple[bool, Overflow | None]:
    """One text with too many characters: of a message, or only of a name."""
    hit = TOO_LONG_TEXT.search(text)
    if hit is None:
        return False, None
    limit, size = _as_number(hit["limit"] or hit["limit2"]), hit["size"] or hit["size2"]
    if limit < LONG_TEXT:
        return True, None
    requested = _as_number(size) if size else None
    return True, Overflow("characters", limit, requested, None if requested is None else requested - limit)


def _named(overflow: Overflow, said: Evidence, whole: str) -> Overflow:
    known = [(wire.name, wire.error_words) for wire in FORMATS.values()][::-1]  # Bedrock passes on what Claude's says
    found = [name for name, pattern in (*known, *_SERVERS) if pattern is not None and pattern.search(whole)]
    message = next(iter(said.texts), "")
    return evolve(overflow, provider=found[0] if found else said.source, message=message[:500])


_STATUS = frozenset({"status", "status_code", "statuscode", "http_status", "httpstatuscode", "code", "error_code"})
_CODES = frozenset(
    {"code", "error_code", "errorcode", "type", "__type", "status", "error_type", "finish_reason", "stop_reason"}
    | {"finishreason", "stopreason", "reason"}
)
_TEXTS = frozenset(
    {"message", "msg", "detail", "error", "param", "title", "server_message", "status_msg", "error_msg", "errmsg"}
    | {"error_message", "errormessage", "originalmessage", "faultstring"}
)
_INSIDE = (
    "error", "errors", "body", "response", "data", "detail", "details", "message", "exception", "metadata", "raw",
    "raw_response", "json_body", "http_body", "error_response", "last_response", "responsemetadata", "choices",
    "candidates", "args", "text", "content", "_content", "events", "base_resp", "fault", "innererror",
)  # fmt: skip
_NOT_IN_PAYLOADS = frozenset({"text", "content", "args"})
_NUMBERS = frozenset({"n_prompt_tokens", "n_ctx"})
_ATTRIBUTES = (*_STATUS, *_CODES, *_TEXTS, *_INSIDE, *_NUMBERS)
_QUOTED_CODE = lazy_pattern(
    r"""\\?['"](?:code|type|error_type|status)\\?['"]\s*:\s*\\?['"]?([A-Za-z_][\w.\-]+|\d{4,5}\b)"""
)

_LEADING_STATUS = lazy_pattern(
    r"^\W*(?:http(?: error)?:?\s+|error code:\s*|status(?: code)?:?\s*)?([45]\d\d)\b", re.IGNORECASE
)
_ECHO = lazy_pattern(r"input_value=|\[type=\w+, |['\"]input['\"]:\s*[\[{'\"]|['\"]failed_generation\\?['\"]:")
_DEEPEST = 8
_LOOKED_AT = 8_000


@define(eq=False, repr=False)
class Evidence:
    """What one error says.

    Args:
        codes: Its codes, types and reasons, in lower case; also the names of its class and their bases.
        numbers: Token counts that it gives as fields, by field name.
        source: The package that its class comes from (``openai``), empty for builtins and payloads.
    """

    texts: dict[str, None] = field(factory=dict)
    codes: set[str] = field(factory=set)
    statuses: set[int] = field(factory=set)
    numbers: dict[str, int] = field(factory=dict)
    source: str = ""

    def say(self, text: str) -> None:
        """Note a sentence, with the codes quoted in it; what a validator echoes of the request is left out."""
        text = text[:_LOOKED_AT]
        echo = _ECHO.search(text)
        text = text[: echo.start()] if echo else text
        if not text.strip():
            return
        self.texts[text] = None
        self.codes.update(code.lower() for code in _QUOTED_CODE.findall(text))
        status = _LEADING_STATUS.match(text)
        if status:
            self.statuses.add(int(status[1]))


def own(error: BaseException) -> Evidence:
    """What an exception says itself, without those that it came from."""
    found = Evidence()
    for base in type(error).__mro__:
        if base.__module__ != "builtins":
            found.codes.add(base.__name__.lower())
            found.source = found.source or base.__module__.partition(".")[0]
    words = ""
    # The code of an exception may fail at its words, which must not hide the error.
    with suppress(AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        words = str(error)
    found.say(words)
    _object(error, found, 0)
    return found


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception, then those that it was raised from or while handling, outermost first, each once.

    The members of a group follow the group.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        current = waiting.pop(0)
        if id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
        members = (*current.args, _stored(current, "original_exception"))
        waiting.extend(member for member in members if isinstance(member, BaseException))
        before = current.__cause__
        if before is None and not current.__suppress_context__:
            before = current.__context__
        if before is not None:
            waiting.append(before)


def _any(thing: object, found: Evidence, depth: int) -> None:
    if depth > _DEEPEST or thing is None or isinstance(thing, BaseException):
        return
    if isinstance(thing, (bytes, bytearray, memoryview)):
        _text(bytes(thing[: 4 * _LOOKED_AT]).decode("utf-8", "replace"), found, depth)
    elif isinstance(thing, str):
        _text(thing, found, depth)
    elif isinstance(thing, Mapping):
        _mapping(thing, found, depth)
    elif isinstance(thing, (list, tuple)):
        for each in thing[:20]:
            _any(each, found, depth + 1)
    elif not isinstance(thing, (int, float)):
        _object(thing, found, depth)


def _text(text: str, found: Evidence, depth: int) -> None:
    inside = None  # the JSON container that the text is
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            inside = json.loads(text)
    if inside is None:
        found.say(text)
    else:
        _any(inside, found, depth + 1)


def _mapping(values: Mapping[Any, Any], found: Evidence, depth: int) -> None:
    for key, value in values.items():
        name = str(key).lower()
        _named_in(name, value, found)
        if name in _NOT_IN_PAYLOADS:
            continue
        if name in _INSIDE or name in _TEXTS or name.endswith("exception"):
            _any(value, found, depth + 1)


def _object(thing: object, found: Evidence, depth: int) -> None:
    for name in _ATTRIBUTES:
        value = _stored(thing, name)
        if value is None:
            continue
        _named_in(name, value, found)
        if name in _INSIDE or name in _TEXTS:
            _any(value, found, depth + 1)


def _named_in(name: str, value: object, found: Evidence) -> None:
    """Take note of a code, a status or a number."""
    if isinstance(value, bool):
        return
    if isinstance(value, int):
        if name in _STATUS and 400 <= value <= 599:
            found.statuses.add(int(value))
        elif name in _NUMBERS:
            found.numbers[name] = int(value)
    elif isinstance(value, str) and name in _CODES and len(value) <= 80:
        found.codes.add(value.lower())


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


_SIZE = r"(?:window|length|lenght|size|limit|space)"


def _any_of(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{pattern})" for pattern in patterns))


_WINDOW = (
    rf"(?:context[ _-]?{_SIZE}|(?:max|maximum) context\b|n_ctx|max_(?:seq|input|context)_len(?:gth)?"
    rf"|(?:max|maximum|specified|model'?s?) (?:\w+ ){{0,2}}(?:prompt|model|input|sequence|seq)[ _]{_SIZE})"
)
_OVER = (
    r"(?:exceed\w{0,3}|(?:longer|larger|greater|bigger|more) than|\bover\b|beyond|n[o']t fit"
    r"|too (?:long|large|big) (?:for|in)|>=?)"
)
WINDOW = _any_of(
    rf"{_OVER}[^.]{{0,48}}?{_WINDOW}",
    rf"{_WINDOW}[^.]{{0,32}}?(?:exceed|overflow|\bfull\b)",
    rf"context_?{_SIZE}_?(?:exceed|overflow)",
    r"exceed_context_size",
    r"context[ _-]?(?:overflow|too[ _]large|too[ _]long)\b|context is (?:too (?:long|large)|full)",
    rf"(?:maximum|max) (?:context|prompt|model|input) {_SIZE}\b|context {_SIZE} is only",
    rf"(?:maximum|max) context of \d|context {_SIZE}[^.\d]{{0,24}}\d[\d,]*(?: tokens)?,? (?:but|however|while)",
    r"\b(?:prompt|input)_too_(?:long|large)\b|(?<!stop )\bsequence (?:is )?too long",
    rf"no room left in (?:the )?context|handle the requested context {_SIZE}",
    r"too long to fit into the model|not fit in(?:to)? the model",
    r"too large for [\w.\-/:]+ model\. max size: \d+ tokens",
    r"(?:prompt|input|request) (?:has|had|contains) \d[\d,]* (?:input )?tokens,? (?:but|which|while)",
    r"this (?:request|prompt) has \d[\d,]* tokens,? which",
    r"prompt length \d+ exceeds|exceed max message tokens|max tokens of \d+ exceeded",
    r"max_prompt_tokens_exceeded|tokens_limit_reached",
    r"prompt tokens too long|the max input characters is|text fields that are too large",
    r"too large for (?:this |the )?model|is too large to process\b",
    r"prompt is too (?:long|large)\b|prompt too (?:long|large)\b|prompt ?超长|(?:prompt|input) \([^)]*\) is too long",
    r"(?<!tool )(?<!audio )(?<!video )(?<!image )input is too (?:long|large)(?: for|[.:,;]|$)"
    r"|input (?:token length|prompt) too long|(?:^|[\d:.>\"'] ?)input too long",
    r"(?:all messages|conversation|chat history|request input) is too long",
    r"prompt exceeds (?:the )?(?:max|length)",
    r"(?:number of )?input tokens (?:\d[\d,]*|\(\d[\d,]*\)) (?:cannot|must not) exceed|input cannot be longer than",
    r"estimated number of input and maximum output tokens",
    r"(?:input|prompt|(?<!stop )sequence) length\b[^.]{0,30}?exceed",
    r"(?:total|combined) length of (?:the )?(?:prompt|messages|input)[^.]{0,60}?exceed|^length limit exceeded",
    r"reduce the length of (?:the |your )?(?:input |prompt |messages?|either)",
    r"reduce the length of (?:the |your )?(?:input|prompt)\b",
    r"exceeded model token limit",
    r"loaded with context length of only|keep the first \d+ tokens when",
    r"inputs?`? tokens \+ `?max_new_tokens`? must be|`inputs` must have less than",
    r"range of input length should be",
    r"current length is \d[\d,]* while limit is",
    r"total number of tokens (?:\(prompt and prediction\)|in the prompt) cannot exceed",
    r"size limit exceeded by|minimal context could not be added",
    r"too many input tokens|too many tokens in (?:the )?(?:prompt|request|input)",
    rf"(?:input|prompt|max_total_tokens)[^.]{{0,40}}?must be less than (?:or equal to )?(?:the )?"
    rf"(?:context {_SIZE}|max_seq_len)|not enough context {_SIZE}",
    r"(?:input|prompt) is too big\b",
    r"tokens in request more than max tokens allowed|input tokens;? this model accepts",
    r"can only process up to \d[\d,]* tokens",
    r"exceed model maximum(?! output)",
    r"(?:prompt|input|total)[ _]tokens?[^.]{0,20}?\+ ?`?max_(?:new_)?tokens`?[^.]{0,20}?>",
    r"(?:context|model) window is \d[\d,]*k? tokens, you requested",
    r"max_tokens must be at least 1, got -\d{2,}",
    r"required for long context requests|long context beta is not yet available",
    r"上下文(?:长度|窗口)?[^。]{0,8}(?:超限|超过|超出|过长)|超(?:过|出)[^。]{0,16}上下文|输入[^。]{0,6}(?:过长|超长|超限|超出|超过)"
    r"|压缩上下文",
    r"token[^。]{0,6}超(?:过|出)",
)
"""The context is larger than the model's window: nothing else is said in these words."""

NAMES = _any_of(
    rf"^(?:\w*\.)*\w*context_?(?:{_SIZE})?_?(?:exceeded|overflow|too_?(?:large|long))",
    r"^exceed_context_size",
    r"(?:prompt|input)_?too_?(?:long|large)|max_prompt_tokens_exceeded|tokens_limit_reached",
    r"^1261$",  # Zhipu and Z.ai: "Prompt exceeds max length"
)
"""Codes and class names that say the same."""

BYTES = _any_of(
    r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",
    r"(?<!response )(?:payload|entity|content|body|request) (?:is |was )?too large",
    r"(?<!response )(?:request body|body size|payload)(?: size)?\b[^.]{0,40}?exceed",
    r"request size(?: limit| (?:of )?\d[\d,]*(?: bytes)?)? exceed",
    r"message size \d+ exceeds limit|sent message larger than max|(?<!client: )received message larger than max",
    r"too many total text bytes|max bytes to request body",
)
"""The request's body is larger than the endpoint takes."""

NO_BODY = lazy_pattern(r"\b4(?:00|13)\s{0,8}(?:status code)?\s{0,8}\(no body\)|^error code: 400$")
"""Cerebras and some gateways refuse an overlong request with no word of why."""

PERHAPS = _any_of(
    r"too many tokens(?! in stop)",
    r"token limit exceeded|tokens? limit\b[^.]{0,20}?exceed|exceed\w* (?:the )?(?:maximum )?token limit",
    r"exceed\w* the maximum number of (?:input |prompt )?tokens",
    r"number of (?:input |prompt )?tokens\b[^.]{0,40}?exceed",
    r"(?:input|prompt|requested|messages?|total)(?: input)?[ _]?tokens?(?: count)?\b"
    r"[^.]{0,40}?(?:exceed|over the model|>)",
    r"request tokens exceed",
    r"\b(?:prompt|inputs?|messages?|request|text|conversation)\b[^.]{0,48}?(?:too long|too large|exceed\w*)\b"
    r"[^.]{0,48}?\b(?:tokens?|context|model)\b",
    r"length of the (?:prompt|input|messages)\b[^.]{0,40}?exceed",
)
"""Said of the window by most, of a rate or of a picture by others: counts when nothing speaks of those."""

ELSE = _any_of(
    r"\b(?:logit_bias|stop sequences?|images?|files?|audio|video|pdf|documents?|pages|pixels|dimensions?|resolution)\b",
    r"\b(?:session|access|auth\w*|refresh|bearer|api) (?:token|key)|\bjwt\b|\bexpired?\b",
)
"""Something else is too large, too long or out of date."""

_MONEY = (r"insufficient", r"\bcredits?\b", r"billing", r"balance", r"\bafford\b")
MONEY = _any_of(*_MONEY)
"""Out of money: whatever else is said, nothing smaller helps."""

RATE = _any_of(
    r"rate[ _-]?limit", r"too many requests", r"\bper[ _-](?:min|minute|day|hour|second|month)\b", r"\b[tr]p[mds]\b",
    r"throttl", r"quota", r"please wait", r"(?:try again|retry) (?:in|after) \d",
    r"resource[ _]?exhausted", r"usage limit", r"token rate",
    *_MONEY, r"overloaded", r"at capacity",
    r"\btrial\b", r"\bfree (?:tier|plan)\b", r"\bupgrade\b",
    r"your (?:account|plan|subscription)|monthly|daily",
)  # fmt: skip
"""Busy, or out of money: waiting or paying helps, a smaller request does not."""

ANSWER = lazy_pattern(
    r"max(?:imum)?[ _]?(?:output[ _]?|completion[ _]?|new[ _]?)?tokens?\b"
    r"|requested for (?:the )?(?:output|completion)|\b(?:output|completion) (?:tokens?|length|limit)"
)
"""The length of the answer is spoken of."""

REQUEST = lazy_pattern(
    r"\b(?:input|inputs|prompt|messages|context)\b|\btokens in request\b|\b(?:prompt|input)_tokens?\b"
    r"|at least 1, got -\d|max tokens of \d+ exceeded"
)
"""The request is spoken of, openly or not: a sentence about the answer alone is no overflow."""

TOO_LONG_TEXT = lazy_pattern(
    r"string too long\. expected a string with maximum length (?P<limit>\d(?:[\d,]*\d)?)"
    r"(?:, but got a string with length (?P<size>\d(?:[\d,]*\d)?))?"
    r"|expected maxlength: (?P<limit2>\d(?:[\d,]*\d)?), actual: (?P<size2>\d(?:[\d,]*\d)?)"
)
"""One text of the request has too many characters: of the transcript when the limit is large, else of some name."""

LONG_TEXT = 8_000
"""A limit of fewer characters than this is one of a name or an id, never of a message."""

HOPELESS = frozenset({401, 402, 403, 404})
"""Statuses of errors that no smaller request mends."""

_ALLOWANCE = lazy_pattern(r"\blimit:? (\d[\d,]{0,24})\b.{0,200}?\brequested:? (\d[\d,]{0,24})")
_SERVERS = (
    ("openrouter", lazy_pattern(r"this endpoint's maximum context length")),
    ("mistral", lazy_pattern(r"draft tokens")),
    ("xai", lazy_pattern(r"maximum prompt length is \d+ but")),
    ("cohere", lazy_pattern(r"size limit exceeded by|prompt and prediction|minimal context could not")),
    ("tgi", lazy_pattern(r"max_new_tokens")),
    ("vllm", lazy_pattern(r"max_model_len|output tokens and your prompt contains|decoder prompt")),
    ("llama.cpp", lazy_pattern(r"available context size|exceed_context_size")),
    ("lmstudio", lazy_pattern(r"tokens to keep from the initial prompt|keep the first \d+ tokens")),
    ("ollama", lazy_pattern(r"exceeded max context length by")),
    ("qwen", lazy_pattern(r"range of input length")),
    ("moonshot", lazy_pattern(r"exceeded model token limit")),
    ("minimax", lazy_pattern(r"context window exceeds limit")),
    ("cerebras", lazy_pattern(r"current length is \d+ while")),
    ("watsonx", lazy_pattern(r"total tokens limit|token sequence length")),
)
_N = r"(?<![\w./-])(\d[\d,_]{0,24}+(?:[km](?![a-z]))?+)"
_GAP = r"[^\d>]"


@frozen(eq=False, repr=False)
class Amounts:
    """What an error says in numbers, in tokens (bytes or characters when the error is about those).

    Args:
        requested: What the request had, with the room for the answer where the provider counts it in.
        prompt: What the prompt had, without the room for the answer; None when the provider does not say.
    """

    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    prompt: int | None = None


def amounts(texts: Iterable[str]) -> Amounts:
    """What plain texts say in numbers: of each amount the first that is found."""
    limit = requested = excess = prompt = None
    for text in texts:
        added = next((hit for pattern in _SUMS if (hit := pattern.search(text))), None)
        if added:
            prompt, limit = _as_number(added["prompt"]), _as_number(added["limit"])
            return complete(limit, prompt + _as_number(added["answer"]), None, prompt)
        limit = _first(_LIMITS, text) if limit is None else limit
        prompt = _first(_PROMPTS, text) if prompt is None else prompt
        requested = _first(_REQUESTS, text) if requested is None else requested
        excess = _first(_EXCESS, text) if excess is None else excess
        if prompt is None and requested is not None and _BROKEN_DOWN.search(text):
            prompt = requested - (_first(_ANSWERS, text) or 0)
        if excess is None:
            limit, requested, prompt = _compared(text, limit, requested, prompt)
    return complete(limit, prompt if requested is None else requested, excess, prompt)


def _compared(
    text: str, limit: int | None, requested: int | None, prompt: int | None
) -> tuple[int | None, int | None, int | None]:
    """What is not known yet, from a comparison that agrees with what is known."""
    known = prompt if requested is None else requested
    for pattern in _COMPARED:
        for hit in pattern.finditer(text):
            size, most = _as_number(hit["size"]), _as_number(hit["limit"])
            if size > most >= _LEAST and limit in (None, most, size) and known in (None, size):
                alone = known is None and _OF_THE_PROMPT.search(text[: hit.start("size")])
                return most, size if requested is None else requested, size if alone else prompt
    return limit, requested, prompt


def complete(limit: int | None, requested: int | None, excess: int | None, prompt: int | None) -> Amounts:
    """What follows from what is known: any two of limit, request and excess give the third."""
    if excess is None and limit is not None and requested is not None and requested > limit:
        excess = requested - limit
    if requested is None and limit is not None and excess is not None:
        requested = limit + excess
    return Amounts(limit, requested, excess, prompt)


def _first(patterns: Iterable[re.Pattern[str]], text: str) -> int | None:
    for pattern in patterns:
        hit = pattern.search(text)
        if hit:
            return _as_number(next(group for group in hit.groups() if group))
    return None


def _as_number(digits: str) -> int:
    times = {"k": 1_000, "m": 1_000_000}.get(digits[-1], 1)
    return int(digits.rstrip("km").replace(",", "").replace("_", "")) * times


_SUMS = (
    lazy_pattern(rf"exceed context limit:? (?:\(i\.?e\.?,? )?(?P<prompt>{_N}) \+ (?P<answer>{_N}) > (?P<limit>{_N})"),
    lazy_pattern(rf"must be <= (?P<limit>{_N})\. given: (?P<prompt>{_N}) `?inputs`? tokens and (?P<answer>{_N})"),
    lazy_pattern(
        rf"is too large: (?P<answer>{_N})\..{{0,200}}?length is (?P<limit>{_N}) "
        rf".{{0,200}}?request has (?P<prompt>{_N}) input"
    ),
    lazy_pattern(
        rf"passed (?P<prompt>{_N}) input tokens and requested (?P<answer>{_N}) output tokens"
        rf".{{0,200}}?is only (?P<limit>{_N})"
    ),
    lazy_pattern(
        rf"(?:prompt|input)[ _]?(?:tokens?)? \((?P<prompt>{_N})(?: tokens)?\) (?:\+|and|plus) `?max_(?:new_)?tokens`? "
        rf"\((?P<answer>{_N})\){_GAP}{{0,60}}?(?:exceed|>){_GAP}{{0,60}}?(?P<limit>{_N})"
    ),
)
"""Sums that the provider does not add up itself."""

_LIMITS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        rf"(?:maximum|max) (?:context|prompt|model|input) {_SIZE}(?: of [\w./-]+ is| is| of|:|=)?(?: only)?[ (]+{_N}",
        rf"{_N} (?:tokens )?(?:maximum|max)\b",
        rf"configured limit of {_N}",
        rf"(?:maximum|max) number of (?:input )?tokens (?:allowed )?\(?{_N}",
        rf"model maximum \({_N}",
        rf"max_model_len(?:gth)?(?: is|:|=)?[ (=]*{_N}",
        rf"n_ctx['\"]? ?[:=]? ?{_N}",
        rf"max_(?:seq|input|context)_len(?:gth)?[ (=:]*{_N}",
        rf"context {_SIZE}(?: of only| of| is only| is|:|=)?[ (]+{_N}",
        rf"(?:maximum|max) (?:allowed )?(?:input |prompt )?length(?: of)?[ (]+{_N}",
        rf"max size: {_N}|max tokens of {_N} exceeded|only up to {_N} tokens",
        rf"context window limit \({_N}",
        rf"(?:cannot exceed|limit for this model is|total tokens limit|should be \[\d+,|while limit is) {_N}",
        rf"must be <= {_N}|must have less than {_N}",
        rf"model token limit: {_N}",
        rf"(?:exceeds? (?:the )?limit(?: of|:)?|supports up to|max_prompt_tokens \() ?{_N}",
        rf"max(?:imum)?(?: of|:)? {_N}(?: tokens|\))",
        rf"max input tokens: {_N}|at most {_N}",
        rf"sequence length for this model \(\d+ > {_N}",
        rf"input and maximum output tokens \(\d+\) exceeded .{{0,200}}?\({_N}",
        rf"larger than max \(\d+ vs\.? {_N}",
        rf"exceeds the limit: {_N}",
        rf"\blimit:? {_N}",
        rf"\d (?:tokens )?> {_N}",
    )
)
_PROMPTS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        rf"prompt is too long:? \(?{_N}",
        rf"prompt contains (?:at least )?{_N}",
        rf"(?<!max_)prompt[ _]tokens? \({_N}|prompt token count (?:of )?{_N}",
        rf"(?:prompt|input) \((?:length |total length )?{_N}",
        rf"input token count (?:is )?\(?{_N}",
        rf"(?<!maximum )(?<!max )input length \(?{_N}",
        rf"request has {_N} input|prompt has {_N} tokens|prompt length \(?{_N}\)? exceeds",
        rf"number of (?:input )?tokens \(?{_N}\)? (?:has |have )?(?:exceed|cannot)",
        rf"request \({_N} tokens",
        rf"resulted in {_N} tokens\.|tokens in (?:the )?prompt:? \(?{_N}",
        rf"n_keep: {_N}|keep the first {_N}",
        rf"input token count: {_N}",
        rf"prompt {_N} >",
        rf"given: {_N}",
    )
)
_REQUESTS = tuple(
    lazy_pattern(pattern)
    for pattern in (
        rf"for a total of (?:at least )?{_N}",
        rf"requested:? (?:a total of |tokens |token count |about )?\(?{_N}(?! output)",
        rf"resulted in {_N} tokens",
        rf"max_total_tokens \({_N}|request contains {_N}|will take {_N} tokens",
        rf"received {_N}",
        rf"current length is {_N}",
        rf"output tokens \({_N}\) exceeded",
        rf"length for this model \({_N} >",
        rf"larger than max \({_N}",
        rf"message size {_N}",
        rf"{_N} (?:tokens )?> \d",
    )
)
_ANSWERS = (
    lazy_pattern(rf"{_N}(?: tokens)? (?:in|for|of) the (?:completion|output)"),
    lazy_pattern(rf"requested {_N} output tokens"),
)
_BROKEN_DOWN = lazy_pattern(
    r"\d\)?(?: tokens)? (?:in the messages|in your prompt|from the input messages|of text input)"
)
_EXCESS = (lazy_pattern(rf"exceeded (?:max context length )?by {_N}"), lazy_pattern(r"at least 1, got -(\d+)"))
_MORE = (
    r"(?:>=?|exceed\w{0,3}|(?:longer|larger|greater|bigger|more) than|too (?:long|large)|\bover\b|beyond|not fit"
    r"|\bbut\b|maximum|\blimit\b)"
)
_LESS = (
    r"(?:max(?:imum)?\b|limit(?:ed)?\b|at most|up to|supports?|longer than|not exceed|n_ctx"
    rf"|context {_SIZE}|context|batch size)"
)
_COMPARED = (
    lazy_pattern(rf"(?=(?P<size>{_N}){_GAP}{{0,60}}?{_MORE}{_GAP}{{0,70}}?(?P<limit>{_N}))"),
    lazy_pattern(
        rf"(?={_LESS}{_GAP}{{0,60}}?(?P<limit>{_N}){_GAP}{{0,60}}?"
        rf"(?:but|got|get|received|given|requested|has|have|contains|take|while|exceeded){_GAP}{{0,40}}?(?P<size>{_N}))"
    ),
)
"""A size that is told to be more than a limit, in whatever words; believed only when it is more. Looked for from each
place on, since a status in front may look like a size."""

_LEAST = 64
"""A smaller number is not the limit of a model: it counts or orders something else."""

_OF_THE_PROMPT = lazy_pattern(r"(?:prompt|input)s?\b(?=[^.,;]{0,40}$)(?![^.,;]{0,40}(?:output|completion))")
"""What stands before a size that is the prompt's alone."""
