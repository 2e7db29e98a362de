"""Is a provider's error a context overflow, and what does it say about the limit?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from attrs import evolve, frozen

from agentctx.economics import overflow_signs as signs
from agentctx.economics.evidence import Evidence, causes, of_payload, own
from agentctx.economics.overflow_numbers import Amounts, amounts, complete
from agentctx.errors import AgentctxError, ContextOverflow

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
    """

    kind: Kind
    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    prompt: int | None = None
    provider: str = ""
    message: str = ""


_ALLOWANCE = re.compile(r"\blimit:? (\d[\d,]{0,24})\b.{0,200}?\brequested:? (\d[\d,]{0,24})")
_PROVIDERS = (
    ("bedrock", re.compile(r"the model returned the following errors|for requested model")),
    ("anthropic", re.compile(r"exceed context limit:|prompt is too long: \d+ tokens >|request_too_large")),
    ("gemini", re.compile(r"input token count")),
    ("openrouter", re.compile(r"this endpoint's maximum context length")),
    ("mistral", re.compile(r"draft tokens")),
    ("xai", re.compile(r"maximum prompt length is \d+ but")),
    ("cohere", re.compile(r"size limit exceeded by|prompt and prediction|minimal context could not")),
    ("tgi", re.compile(r"max_new_tokens")),
    ("vllm", re.compile(r"max_model_len|output tokens and your prompt contains|decoder prompt")),
    ("llama.cpp", re.compile(r"available context size|exceed_context_size")),
    ("lmstudio", re.compile(r"tokens to keep from the initial prompt|keep the first \d+ tokens")),
    ("ollama", re.compile(r"exceeded max context length by")),
    ("qwen", re.compile(r"range of input length")),
    ("moonshot", re.compile(r"exceeded model token limit")),
    ("minimax", re.compile(r"context window exceeds limit")),
    ("cerebras", re.compile(r"current length is \d+ while")),
    ("watsonx", re.compile(r"total tokens limit|token sequence length")),
)


def classify_error(error: Any) -> Overflow | None:  # noqa: ANN401 - any exception or payload
    """Whether a provider's error means that the context was too large, and what it says about the limit.

    No SDK is needed. Followed are ``__cause__`` and ``__context__``, exception groups, ``.body`` and ``.response``,
    JSON within strings, and the error events of streams; the outermost exception that says something decides. Rate
    limits, quotas, limits of the answer's length and the like are no overflow: with a token allowance, it is one only
    when the request is larger than the whole allowance.

    Args:
        error: What was raised, or what came instead of an answer: an error body as a dict or text, or an event.

    Returns:
        The overflow, or None when it is something else.
    """
    if not isinstance(error, BaseException):
        return _judge(of_payload(error))[1]
    for each in causes(error):
        if isinstance(each, ContextOverflow) and getattr(each, "status_code", None) is not None:
            excess = each.tokens - each.limit  # a wrapped client's, which is the SDK's error, too
            return Overflow("window", each.limit, each.tokens, excess, message=str(each)[:500])
        if isinstance(each, AgentctxError):
            return None
        decided, overflow = _judge(own(each))
        if decided:
            return overflow
    return None


def _judge(said: Evidence) -> tuple[bool, Overflow | None]:
    """Whether the evidence decides the question, and how."""
    texts = [signs.plain(text) for text in said.texts]
    whole = " | ".join(texts)
    if said.statuses & signs.HOPELESS:
        return True, None
    for judge in (_allowance, _long_text):
        decided, found = judge(whole)
        if decided:
            return True, found and _named(found, said, whole)
    if _only_the_answer(whole):
        return True, None
    kind = _kind(said, whole)
    if kind is not None:
        return True, _named(_counted(kind, amounts(texts), said), said, whole)
    return bool(signs.RATE.search(whole) or any(map(signs.RATE.search, said.codes))), None


def _kind(said: Evidence, whole: str) -> Kind | None:
    """The kind of overflow that the words, the codes or the status tell of."""
    if signs.WINDOW.search(whole) or any(map(signs.NAMES.search, said.codes)):
        return "window"
    if signs.BYTES.search(whole) or any(map(signs.BYTES.search, said.codes)):
        return None if signs.MONEY.search(whole) else "bytes"
    if signs.RATE.search(whole) or any(map(signs.RATE.search, said.codes)) or 429 in said.statuses:
        return None
    if signs.NO_BODY.search(whole) or (signs.PERHAPS.search(whole) and not signs.ELSE.search(whole)):
        return "window"
    return "bytes" if 413 in said.statuses else None


def _allowance(text: str) -> tuple[bool, Overflow | None]:
    """A token allowance of some time: too small for this request, or only used up for now."""
    hit = _ALLOWANCE.search(text)
    if hit is None or not signs.RATE.search(text):
        return False, None
    limit, requested = map(_number, hit.groups())
    return True, Overflow("rate", limit, requested, requested - limit) if requested > limit else None


def _long_text(text: str) -> tuple[bool, Overflow | None]:
    """One text with too many characters: of a message, or only of a name."""
    hit = signs.TOO_LONG_TEXT.search(text)
    if hit is None:
        return False, None
    limit, size = _number(hit["limit"] or hit["limit2"]), hit["size"] or hit["size2"]
    if limit < signs.LONG_TEXT:
        return True, None
    requested = _number(size) if size else None
    return True, Overflow("characters", limit, requested, None if requested is None else requested - limit)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))


def _only_the_answer(text: str) -> bool:
    """Whether the error is about the length of the answer, and about nothing that was sent."""
    return bool(signs.ANSWER.search(text)) and not signs.REQUEST.search(text)


def _counted(kind: Kind, said: Amounts, found: Evidence) -> Overflow:
    prompt, limit = found.numbers.get("n_prompt_tokens"), found.numbers.get("n_ctx")
    if prompt is not None or limit is not None:
        said = complete(limit or said.limit, prompt or said.requested, None, prompt)
    return Overflow(kind, said.limit, said.requested, said.excess, said.prompt)


def _named(overflow: Overflow, said: Evidence, whole: str) -> Overflow:
    found: Sequence[str] = [name for name, pattern in _PROVIDERS if pattern.search(whole)]
    message = next(iter(said.texts), "")
    return evolve(overflow, provider=found[0] if found else said.source, message=message[:500])
