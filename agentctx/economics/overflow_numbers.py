"""The numbers in an overflow's words: what the limit is, what was requested, by how much it was too much."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

_N = r"(?<![\w./-])(\d[\d,_]{0,24}+(?:[km](?![a-z]))?+)"
_SIZE = r"(?:window|length|lenght|size|limit|space)"
_GAP = r"[^\d>]"


@frozen
class Amounts:
    """What an error says in numbers, in tokens (bytes or characters when the error is about those).

    Args:
        limit: The most that is taken.
        requested: What the request had, with the room for the answer where the provider counts it in.
        excess: How much of it was too much.
        prompt: What the prompt had, without the room for the answer; None when the provider does not say.
    """

    limit: int | None = None
    requested: int | None = None
    excess: int | None = None
    prompt: int | None = None


_SUMS = (
    re.compile(rf"exceed context limit:? (?:\(i\.?e\.?,? )?(?P<prompt>{_N}) \+ (?P<answer>{_N}) > (?P<limit>{_N})"),
    re.compile(rf"must be <= (?P<limit>{_N})\. given: (?P<prompt>{_N}) `?inputs`? tokens and (?P<answer>{_N})"),
    re.compile(
        rf"is too large: (?P<answer>{_N})\..{{0,200}}?length is (?P<limit>{_N}) "
        rf".{{0,200}}?request has (?P<prompt>{_N}) input"
    ),
    re.compile(
        rf"passed (?P<prompt>{_N}) input tokens and requested (?P<answer>{_N}) output tokens"
        rf".{{0,200}}?is only (?P<limit>{_N})"
    ),
    re.compile(
        rf"(?:prompt|input)[ _]?(?:tokens?)? \((?P<prompt>{_N})(?: tokens)?\) (?:\+|and|plus) `?max_(?:new_)?tokens`? "
        rf"\((?P<answer>{_N})\){_GAP}{{0,60}}?(?:exceed|>){_GAP}{{0,60}}?(?P<limit>{_N})"
    ),
)
"""Sums that the provider does not add up itself."""

_LIMITS = tuple(
    re.compile(pattern)
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
    re.compile(pattern)
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
    re.compile(pattern)
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
    re.compile(rf"{_N}(?: tokens)? (?:in|for|of) the (?:completion|output)"),
    re.compile(rf"requested {_N} output tokens"),
)
_BROKEN_DOWN = re.compile(r"\d\)?(?: tokens)? (?:in the messages|in your prompt|from the input messages|of text input)")
_EXCESS = (re.compile(rf"exceeded (?:max context length )?by {_N}"), re.compile(r"at least 1, got -(\d+)"))

_MORE = (
    r"(?:>=?|exceed\w{0,3}|(?:longer|larger|greater|bigger|more) than|too (?:long|large)|\bover\b|beyond|not fit"
    r"|\bbut\b|maximum|\blimit\b)"
)
_LESS = (
    r"(?:max(?:imum)?\b|limit(?:ed)?\b|at most|up to|supports?|longer than|not exceed|n_ctx"
    rf"|context {_SIZE}|context|batch size)"
)
_COMPARED = (
    re.compile(rf"(?=(?P<size>{_N}){_GAP}{{0,60}}?{_MORE}{_GAP}{{0,70}}?(?P<limit>{_N}))"),
    re.compile(
        rf"(?={_LESS}{_GAP}{{0,60}}?(?P<limit>{_N}){_GAP}{{0,60}}?"
        rf"(?:but|got|get|received|given|requested|has|have|contains|take|while|exceeded){_GAP}{{0,40}}?(?P<size>{_N}))"
    ),
)
"""A size that is told to be more than a limit, in whatever words; believed only when it is more. Looked for from each
place on, since a status in front may look like a size."""

_LEAST = 64
"""A smaller number is not the limit of a model: it counts or orders something else."""

_OF_THE_PROMPT = re.compile(r"(?:prompt|input)s?\b(?=[^.,;]{0,40}$)(?![^.,;]{0,40}(?:output|completion))")
"""What stands before a size that is the prompt's alone."""


def amounts(texts: Iterable[str]) -> Amounts:
    """What plain texts say in numbers: of each amount the first that is found."""
    limit = requested = excess = prompt = None
    for text in texts:
        added = next((hit for pattern in _SUMS if (hit := pattern.search(text))), None)
        if added:
            prompt, limit = _number(added["prompt"]), _number(added["limit"])
            return complete(limit, prompt + _number(added["answer"]), None, prompt)
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
            size, most = _number(hit["size"]), _number(hit["limit"])
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
            return _number(next(group for group in hit.groups() if group))
    return None


def _number(digits: str) -> int:
    times = {"k": 1_000, "m": 1_000_000}.get(digits[-1], 1)
    return int(digits.rstrip("km").replace(",", "").replace("_", "")) * times
