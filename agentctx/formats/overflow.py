"""Is a provider's error a context overflow, and what does it say about the limit?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from inspect import getattr_static
from typing import Literal

from attrs import frozen

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
    before ``AMOUNTS``.
    """
    lines = [line for line in dict.fromkeys(lines) if line.strip()]
    text = "\n".join(map(plain, lines))
    added = [
        Refusal("window", wire.overflow_words, provider=wire.name) for wire in FORMATS.values() if wire.overflow_words
    ]
    rows = [
        row for row in (*added, *REFUSALS) if row.pattern.search(text) and not (row.unless and row.unless.search(text))
    ]
    if not rows or rows[0].kind is None:
        return bool(rows), None
    amounts: dict[str, int] = {}
    for hit in (hit for pattern in (*(row.pattern for row in rows), *AMOUNTS) for hit in pattern.finditer(text)):
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


def _row(kind: Kind | None, words: str, *examples: str, provider: str = "", unless: str = "") -> Refusal:
    return Refusal(kind, lazy_pattern(words), examples, provider, lazy_pattern(unless) if unless else None)


SENTENCES: Mapping[str, str] = {
    "openai-chat": "This model's maximum context length is {limit} tokens. However, your messages resulted in {prompt} "
    "tokens. Please reduce the length of the messages.",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again. "
    "This model's maximum context length is {limit} tokens. However, your messages resulted in {prompt} tokens.",
    "anthropic": "prompt is too long: {prompt} tokens > {limit} maximum",
    "gemini": "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({limit}).",
    "bedrock": "Input is too long for requested model. prompt is too long: {prompt} tokens > {limit} maximum",
}
"""The sentence by which each API refuses a prompt: agents compact by its words."""

_N = r"(?<![\w./-])\d(?:[,_]?\d){0,24}+(?:[km](?![a-z]))?+"
_LIMIT, _REQUESTED, _PROMPT, _ANSWER, _EXCESS = (
    rf"(?P<{name}>{_N})" for name in ("limit", "requested", "prompt", "answer", "excess")
)
_STATUS = r"(?m:^)\W{0,9}(?:[a-z_]{0,16}(?:http|error|status|code)\W{1,3}){0,3}"
_SIZE = r"(?:window|length|lenght|size|limit|space)"
_WINDOW = (
    rf"(?:context[ _-]?{_SIZE}|(?:max|maximum) context\b|n_ctx|max_(?:seq|input|context)_len(?:gth)?"
    rf"|(?:max|maximum|specified|model'?s?) (?:\w+ ){{0,2}}(?:prompt|model|input|sequence|seq)[ _]{_SIZE})"
)
_OVER = (
    r"(?:exceed\w{0,3}|(?:longer|larger|greater|bigger|more) than|\bover\b|beyond|n[o']t fit"
    r"|too (?:long|large|big) (?:for|in)|must be less|>=?)"
)
_MONEY = r"insufficient|\bcredits?\b|billing|balance|\bafford\b"
_BUSY = (
    r"rate[ _-]?limit|too many requests|\bper[ _-](?:min|minute|day|hour|second|month)\b|\b[tr]p[mds]\b|throttl|quota"
    r"|please wait|(?:try again|retry) (?:in|after) \d|resource[ _]?exhausted|usage limit|token rate|overloaded"
    r"|at capacity|\btrial\b|\bfree (?:tier|plan)\b|\bupgrade\b|your (?:account|plan|subscription)|monthly|daily"
)
_LONG_TEXT = r"(?P<limit>\d(?:,?\d){4,24}|[89],?\d{3})\b"

REFUSALS = (
    # No smaller request helps, or a part of the request has its own limit.
    _row(None, rf"{_STATUS}40[1-4]\b", "Error code: 403 - the prompt is too long", "HTTP 404"),
    _row(
        "rate",
        rf"(?:{_BUSY}).{{0,200}}?\blimit:? {_LIMIT}.{{0,200}}?\brequested:? {_REQUESTED}",
        "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit {limit}, Requested "
        "{requested}. The input or output tokens must be reduced in order to run successfully.",
    ),
    _row(
        "characters",
        r"string too long\. expected a string with maximum length "
        rf"{_LONG_TEXT}(?:, but got a string with length {_REQUESTED})?",
        "Invalid 'input[3].output': string too long. Expected a string with maximum length {limit}, but got a "
        "string with length {requested} instead.",
    ),
    _row(
        "characters",
        rf"expected maxlength: {_LONG_TEXT}, actual: {_REQUESTED}",
        "Malformed input request: expected maxLength: {limit}, actual: {requested}, please reformat your input.",
        provider="bedrock",
    ),
    _row(
        None,
        r"string too long\. expected a string with maximum length|expected maxlength: \d",
        "Invalid 'user': string too long. Expected a string with maximum length 64",
    ),
    _row(
        None,
        r"max(?:imum)?[ _]?(?:output[ _]?|completion[ _]?|new[ _]?)?tokens?\b"
        r"|requested for (?:the )?(?:output|completion)|\b(?:output|completion) (?:tokens?|length|limit)",
        "max_tokens is too large: 65535. This model supports at most 16384 completion tokens, whereas you "
        "provided 65535.",
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        unless=r"\b(?:inputs?|prompt|messages|context)\b|\btokens in request\b|\b(?:prompt|input)_tokens?\b"
        r"|at least 1, got -\d|max tokens of [\d,]+ exceeded",
    ),
    # The request exceeds the model's window, in the words of one provider.
    _row(
        "window",
        rf"too many input tokens\. max input tokens: {_LIMIT}, request input token count: {_PROMPT}",
        "Too many input tokens. Max input tokens: {limit}, request input token count: {prompt}",
        provider="bedrock",
    ),
    _row(
        "window",
        r"the model returned the following errors: (?:input (?:is too long|tokens exceeded|length and)|prompt is too)"
        r"|too long for requested model",
        SENTENCES["bedrock"],
        "The model returned the following errors: Input is too long for requested model.",
        provider="bedrock",
    ),
    _row(
        "window",
        rf"prompt is too long: {_PROMPT} tokens > {_LIMIT}",
        SENTENCES["anthropic"],
        provider="anthropic",
    ),
    _row(
        "window",
        rf"exceed context limit:? (?:\(i\.?e\.?,? )?{_PROMPT} \+ {_ANSWER} > {_LIMIT}",
        "input length and `max_tokens` exceed context limit: {prompt} + {answer} > {limit}, decrease input length "
        "or `max_tokens` and try again",
        provider="anthropic",
    ),
    _row(
        "window",
        rf"input token count(?: is)?(?: \(?{_PROMPT}\)?)? (?:but model only supports up to|exceeds the maximum number "
        rf"of tokens allowed) \(?{_LIMIT}|text fields that are too large",
        SENTENCES["gemini"],
        "Unable to submit request because the input token count is {prompt} but model only supports up to {limit}.",
        provider="gemini",
    ),
    _row(
        "window",
        rf"this endpoint's maximum context length is {_LIMIT}(?:.{{0,99}}?\({_PROMPT} of text input\))?",
        "This endpoint's maximum context length is {limit} tokens. However, you requested about {requested} tokens "
        "(155 of text input, 20 of tool input, {answer} in the output). Please reduce the length of either one.",
        provider="openrouter",
    ),
    _row(
        "window",
        rf"prompt contains {_PROMPT} tokens and \d+ draft tokens, too large for model with {_LIMIT}",
        "Prompt contains {prompt} tokens and 0 draft tokens, too large for model with {limit} maximum context length",
        provider="mistral",
    ),
    _row(
        "window",
        rf"maximum prompt length is {_LIMIT} but the request contains {_REQUESTED}",
        "This model's maximum prompt length is {limit} but the request contains {requested} tokens.",
        provider="xai",
    ),
    _row(
        "window",
        rf"size limit exceeded by {_EXCESS} tokens(?:.{{0,150}}?limit for this model is {_LIMIT})?",
        "too many tokens: size limit exceeded by {excess} tokens. The limit for this model is {limit} tokens.",
        "too many tokens: minimal context could not be added to prompt (size limit exceeded by {excess} tokens)",
        provider="cohere",
    ),
    _row(
        "window",
        rf"tokens (?:\(prompt and prediction\)|in the prompt) cannot exceed {_LIMIT} - received {_REQUESTED}",
        "too many tokens: total number of tokens (prompt and prediction) cannot exceed {limit} - received "
        "{requested}. Try using a shorter prompt or a smaller max_tokens value.",
        provider="cohere",
    ),
    _row(
        "window",
        rf"must be <= {_LIMIT}\. given: {_PROMPT} `?inputs`? tokens and {_ANSWER}",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= {limit}. Given: {prompt} `inputs` "
        "tokens and {answer} `max_new_tokens`",
        provider="tgi",
    ),
    _row(
        "window",
        rf"`inputs` must have less than {_LIMIT} tokens(?:\. given: {_PROMPT})?",
        "Input validation error: `inputs` must have less than {limit} tokens. Given: {prompt}",
        provider="tgi",
    ),
    _row(
        "window",
        rf"is too large: {_ANSWER}\. this model's maximum context length is {_LIMIT} tokens and your request has "
        rf"{_PROMPT} input tokens",
        "'max_tokens' or 'max_completion_tokens' is too large: {answer}. This model's maximum context length is "
        "{limit} tokens and your request has {prompt} input tokens ({answer} > {limit} - {prompt}).",
        provider="vllm",
    ),
    _row(
        "window",
        rf"passed {_PROMPT} input tokens and requested {_ANSWER} output tokens\. however, the model's context length "
        rf"is only {_LIMIT}",
        "You passed {prompt} input tokens and requested {answer} output tokens. However, the model's context "
        "length is only {limit} tokens, resulting in a maximum input length of 12 tokens.",
        provider="vllm",
    ),
    _row(
        "window",
        rf"output tokens and your prompt contains at least {_PROMPT} input tokens, for a total of at least "
        rf"{_REQUESTED}",
        "This model's maximum context length is {limit} tokens. However, you requested {answer} output tokens and "
        "your prompt contains at least {prompt} input tokens, for a total of at least {requested} tokens.",
        provider="vllm",
    ),
    _row(
        "window",
        r"at least 1, got -(?P<excess>\d(?:,?\d){1,24})",
        "max_tokens must be at least 1, got -{excess}.",
        provider="vllm",
    ),
    _row(
        "window",
        r"prompt (?:\(|length).{0,150}?max_model_len|decoder prompt",
        "The decoder prompt (length {prompt}) is longer than the maximum model length of {limit}. Make sure that "
        "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens.",
        "The engine prompt length {prompt} exceeds the max_model_len {limit}. Please reduce prompt.",
        provider="vllm",
    ),
    _row(
        "window",
        r"available context size|exceed_?context_?size",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "request ({prompt} tokens) exceeds the available context size ({limit} tokens), try increasing it",
        provider="llama.cpp",
    ),
    _row(
        "window",
        rf"n_keep\W{{1,3}}{_PROMPT}\)? ?>= ?n_ctx\W{{1,3}}{_LIMIT}|tokens to keep from the initial prompt",
        "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: "
        "{prompt}>= n_ctx: {limit}). Try to load the model with a larger context length.",
        provider="lmstudio",
    ),
    _row(
        "window",
        rf"keep the first {_PROMPT} tokens when.{{0,100}}?context length of only {_LIMIT}",
        "Trying to keep the first {prompt} tokens when context the overflows. However, the model is loaded with "
        "context length of only {limit} tokens, which is not enough.",
        provider="lmstudio",
    ),
    _row(
        "window",
        rf"exceeded max context length by {_EXCESS}",
        "prompt too long; exceeded max context length by {excess} tokens",
        provider="ollama",
    ),
    _row(
        "window",
        rf"range of input length should be \[\d+, {_LIMIT}",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, {limit}]",
        provider="qwen",
    ),
    _row(
        "window",
        rf"exceeded model token limit(?:: {_LIMIT}(?: \(requested: {_REQUESTED})?)?",
        "Invalid request: Your request exceeded model token limit: {limit} (requested: {requested})",
        provider="moonshot",
    ),
    _row(
        "window",
        r"context window exceeds limit",
        "invalid params, context window exceeds limit (2013)",
        provider="minimax",
    ),
    _row(
        "window",
        rf"current length is {_REQUESTED} while limit is {_LIMIT}",
        "Please reduce the length of the messages or completion. Current length is {requested} while limit is {limit}",
        provider="cerebras",
    ),
    _row(
        "window",
        rf"number of input tokens {_PROMPT} cannot exceed the total tokens limit {_LIMIT}",
        "Failed to generate: the number of input tokens {prompt} cannot exceed the total tokens limit {limit} for "
        "this model",
        provider="watsonx",
    ),
    _row(
        "window",
        r"prompt exceeds max length|(?m:^)1261$|['\"\[]1261['\"\]]",
        "Error code: 400 - {{'error': {{'code': '1261', 'message': 'Prompt exceeds max length'}}}}",
        provider="zhipu",
    ),
    # The request exceeds the model's window, in the words of several providers.
    _row(
        "window",
        rf"exceeds? (?:the )?configured limit of {_LIMIT}",
        "Input tokens exceed the configured limit of {limit} tokens. Your messages resulted in {prompt} tokens.",
    ),
    _row("window", rf"max tokens of {_LIMIT} exceeded", "400 '\"max tokens of {limit} exceeded\"'"),
    _row(
        "window",
        rf"too large for [\w.\-/:]+ model\. max size: {_LIMIT} tokens|tokens_limit_reached",
        "Request body too large for gpt-4o model. Max size: {limit} tokens.",
    ),
    _row(
        "window",
        rf"{_WINDOW}[^.]{{0,32}}?(?:exceed|overflow|\bfull\b)|{_OVER}[^.]{{0,48}}?{_WINDOW}"
        rf"|(?:maximum|max) (?:(?:context|prompt|model|input) {_SIZE}\b|context of \d)|context {_SIZE} is only"
        rf"|(?:context|model) {_SIZE}[^.\d]{{0,24}}\d[\d,]*k?(?: tokens)?,? (?:but|however|while|you requested)"
        r"|context[ _-]?(?:overflow|too[ _]?(?:large|long))|context is (?:too (?:long|large)|full)"
        r"|(?:no room left in|not enough|handle the requested) (?:the )?context"
        r"|long context (?:requests|beta is not yet available)",
        "This model's maximum context length is {limit} tokens. However, you requested {requested} tokens (12 in "
        "the messages, {answer} in the completion). Please reduce the length of the messages or completion.",
        SENTENCES["openai-chat"],
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Requested tokens ({requested}) exceed context window of {limit}",
        "context_length_exceeded",
        "model_context_window_exceeded",
    ),
    _row(
        "window",
        r"(?:prompt|(?<!tool )(?<!audio )(?<!video )(?<!image )input)[ _]?(?:\([^)]*\) )?"
        r"(?:is |tokens? |token length )?too[ _]?(?:long|large|big)"
        r"|(?:all messages|conversation|chat history|request input|(?<!stop )sequence) (?:is )?too long"
        r"|too large for (?:this |the )?model|not fit in(?:to)? the model|exceed max message tokens"
        r"|(?:prompt|input|request) (?:has|had|contains) \d[\d,]* (?:input )?tokens,? (?:but|which|while)"
        r"|(?:input|prompt|(?<!stop )sequence) length\b[^.]{0,30}?exceed|input tokens;? this model accepts"
        r"|length of (?:the )?(?:prompt|messages|input)[^.]{0,60}?exceed|(?m:^)length limit exceeded"
        r"|max_prompt_tokens_exceeded|the max input characters is|cannot be longer than|only process up to \d"
        r"|reduce the length of (?:the |your )?(?:input|prompt|messages?|either)"
        r"|tokens in request more than max tokens allowed|exceed model maximum(?! output)"
        r"|input tokens \(?\d[\d,]*\)? (?:cannot|must not) exceed|too many tokens in (?:the )?(?:prompt|request|input)",
        "Prompt is too long",
        "Please reduce the length of the messages or completion.",
        "tokens in request more than max tokens allowed",
        "prompt tokens ({prompt}) exceed model maximum ({limit}) for openai.gpt-5.5",
        "Input length ({prompt} tokens) exceeds the maximum allowed length ({limit} tokens).",
    ),
    _row(
        "window",
        r"上下文(?:长度|窗口)?[^。]{0,8}(?:超限|超过|超出|过长)|超(?:过|出)[^。]{0,16}上下文|压缩上下文"
        r"|输入[^。]{0,6}(?:过长|超长|超限|超出|超过)|token[^。]{0,6}超(?:过|出)|prompt ?超长",
        "上下文长度超限",
        "输入长度超限请减少输入内容",
        "Prompt超长",
    ),
    # The body has too many bytes.
    _row(
        "bytes",
        r"request_too_large|request exceeds the maximum (?:allowed )?(?:size|number of bytes)",
        "request_too_large: Request exceeds the maximum allowed number of bytes.",
        provider="anthropic",
        unless=_MONEY,
    ),
    _row(
        "bytes",
        rf"(?:sent|(?<!client: )received) message larger than max \({_REQUESTED} vs\.? {_LIMIT}",
        "RESOURCE_EXHAUSTED: SERVER: Received message larger than max ({requested} vs. {limit})",
    ),
    _row(
        "bytes",
        r"(?<!response )(?:payload|entity|content|body|request) (?:is |was )?too large"
        r"|(?<!response )(?:request body|body size|payload)(?: size)?\b[^.]{0,40}?exceed"
        r"|request size(?: limit| (?:of )?\d[\d,]*(?: bytes)?)? exceed|message size \d[\d,]* exceeds limit"
        r"|too many total text bytes|max bytes to request body",
        "413 Request Entity Too Large",
        "Request payload size exceeds the limit: {limit} bytes.",
        "total message size {requested} exceeds limit {limit}",
        unless=_MONEY,
    ),
    # The caller has to wait or to pay.
    _row(
        None,
        rf"{_BUSY}|{_MONEY}|{_STATUS}429\b",
        "Rate limit reached for gpt-5 on requests per min (RPM): Limit 500, Used 500, Requested 1.",
        "Too many tokens, please wait before trying again.",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    # Vague words, which count where no row above decides.
    _row(
        "window",
        r"\b4(?:00|13) (?:status code )?\(no body\)|(?m:^)error code: 400(?m:$)(?!(?:\n\S+)*?\n\S+ )",
        "400 status code (no body)",
    ),
    _row(
        "window",
        r"too many (?:input )?tokens(?! in stop)|tokens? limit\b[^.]{0,20}?exceed"
        r"|exceed\w* (?:the )?(?:maximum )?(?:token limit|number of (?:input |prompt )?tokens)"
        r"|number of (?:input |prompt )?tokens\b[^.]{0,40}?exceed"
        r"|(?:input|prompt|request(?:ed)?|messages?|total)(?: input)?[ _]?tokens?(?: count)?\b"
        r"[^.]{0,40}?(?:exceed|over the model|>)"
        r"|\b(?:prompt|inputs?|messages?|request|text|conversation)\b[^.]{0,48}?(?:too long|too large|exceed\w*)\b"
        r"[^.]{0,48}?\b(?:tokens?|context|model)\b",
        "too many tokens: {requested} > {limit}",
        unless=r"\b(?:logit_bias|stop sequences?|images?|files?|audio|video|pdf|documents?|pages|pixels|dimensions?"
        r"|resolution)\b|\b(?:session|access|auth\w*|refresh|bearer|api) (?:token|key)|\bjwt\b|\bexpired?\b",
    ),
    _row("bytes", rf"{_STATUS}413\b", "Error code: 413"),
)
"""The table of refusals. The first row that recognises an error decides."""

_BIG = r"(?=[\d,]{3}|\d+[km])"
_GAP = r"[^\d>\n]"
_MORE = rf"(?:{_OVER}|too (?:long|large)|\bbut\b|maximum|\blimit\b)"
_SENT = (  # of the prompt where the words before it speak of that alone
    r"(?:(?:(?:prompt|input)(?:s|_tokens)?\b|number of tokens(?= \())"
    rf"(?:(?!output|completion|exceed)[^.,;\d>\n]){{0,40}}?{_BIG}{_PROMPT}|(?<!by ){_BIG}{_REQUESTED})"
)
_AT_MOST = (
    rf"(?:max(?:imum)?\b|limit(?:ed)?\b|at most|up to|supports?|longer than|not exceed|n_ctx|context(?: {_SIZE})?"
    rf"|batch size){_GAP}{{0,60}}?{_BIG}{_LIMIT}"
)
_BUT = r"(?:but|got|get|received|given|requested|has|have|contains|take|while|exceeded)"
_LIMIT_IS = (
    rf"(?:(?:context|(?:maximum|max) (?:prompt|model|input)) {_SIZE}(?: of [\w./-]+(?= is))?(?: is| of)?:?"
    r"(?: only)?[ (]+"
    r"|(?:maximum|max) number of (?:input |prompt )?tokens (?:allowed )?\(?|exceeds? (?:the )?limit(?: of)?:? "
    rf"|\blimit:? |at most |(?:n_ctx|max_(?:model|seq|input|context)_len(?:gth)?)\W{{1,4}}){_LIMIT}"
)
_SUM = (
    rf"(?:prompt|input)[ _]?(?:tokens?)? \({_PROMPT}(?: tokens)?\) (?:\+|and|plus) `?max_(?:new_)?tokens`? "
    rf"\({_ANSWER}\){_GAP}{{0,60}}?(?:exceed|>){_GAP}{{0,60}}?{_LIMIT}"
)

AMOUNTS = tuple(
    lazy_pattern(words)
    for words in (
        _SUM,
        rf"resulted in {_PROMPT} tokens",
        rf"requested {_PROMPT} tokens in the messages",
        rf"request has {_PROMPT} input",
        rf"request \({_PROMPT} tokens",
        rf"n_prompt_tokens={_PROMPT}",
        rf"(?:prompt|input) (?:contains |has |is too long:? \(?)(?:at least )?{_PROMPT}",
        rf"requested:? (?:a total of |tokens |token count |about )?\(?{_REQUESTED}(?! output)",
        rf"will take {_REQUESTED} tokens",
        rf"{_ANSWER}(?: tokens)? (?:in|for) the (?:completion|output)",
        rf"(?={_SENT}{_GAP}{{0,60}}?{_MORE}{_GAP}{{0,70}}?(?<!by ){_BIG}{_LIMIT})",
        rf"(?={_AT_MOST}{_GAP}{{0,60}}?{_BUT}{_GAP}{{0,40}}?{_REQUESTED})",
        _LIMIT_IS,
        rf"max(?:imum)?(?: of|:)? {_LIMIT}(?: tokens|\))",
    )
)
"""Numbers in the words of several providers: the first pattern that matches counts."""
