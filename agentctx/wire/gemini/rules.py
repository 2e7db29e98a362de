"""The rules that make a generateContent request valid, each a small function, in one ordered list.

Here: contents, parts, roles, and the order of calls and responses. Error texts as captured from the API; a text for
which there is no recording says what the documentation says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.gemini import rules_signatures
from agentctx.wire.gemini.names import signature_of
from agentctx.wire.gemini.request import ContentAt, PartAt, Request, contents_of, lay_out, refused
from agentctx.wire.native import fields_or_none

Rule = Callable[[Request], Iterable[Violation]]
Comparison = Callable[[Request, Request], Iterable[Violation]]

_ALTERNATING = re.compile(r"gemini-1\.0|gemini-pro(?:-vision)?\Z")
_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
_SAME_NUMBER = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)


def violations(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its contents; never raises.

    Args:
        request: ``contents`` (or ``messages``) and what else the provider takes.
        profile: The model's profile; without it the model is known by the name in the request.
        before: The request that this one was made from, if signatures are to be compared.
    """
    laid = lay_out(request, profile)
    found = [violation for rule in RULES for violation in rule(laid)]
    if before is not None:
        original = lay_out(before, profile)
        found.extend(violation for compare in COMPARISONS for violation in compare(laid, original))
    return tuple(sorted(found, key=lambda violation: -1 if violation.index is None else violation.index))


def contents_given(request: Request) -> Iterator[Violation]:
    """There is a content."""
    native = contents_of(request.data)
    if native and (isinstance(native, (str, list, tuple)) or fields_or_none(native) is not None):
        return
    yield refused("contents_empty", None, "* GenerateContentRequest.contents: contents is not specified")


def role(request: Request) -> Iterator[Violation]:
    """The user and the model speak, and nobody else; ``function`` and ``tool`` are taken for responses."""
    for content in request.contents:
        known = isinstance(content.role, str) and content.role in {"user", "model", "function", "tool"}
        if not known and (content.role is not None or not content.data):
            text = f"Role '{content.role}' is not supported. Please use a valid role: SYSTEM, MODEL, USER."
            yield refused("role", content, text)


def parts_given(request: Request) -> Iterator[Violation]:
    """Each content has parts, and each part holds something."""
    for content in request.contents:
        if content.data and not content.parts:
            wrong = f"* GenerateContentRequest.{content.path}.parts: contents.parts must not be empty."
            yield refused("parts_empty", content, wrong)
        for part in content.parts:
            if not part.kind:
                text = (
                    f"* GenerateContentRequest.{part.path}.data: required oneof field 'data' must have one "
                    "initialized field"
                )
                yield refused("part_empty", part, text)


def text(request: Request) -> Iterator[Violation]:
    """A text is a string; one that is empty and unsigned is refused by some endpoints."""
    for content in request.contents:
        for part in content.parts:
            if part.kind == "text" and part.text is None:
                yield refused("text_type", part, f"Invalid value at '{part.field}' (TYPE_STRING)")
            elif part.text == "" and signature_of(part.data) is None:
                wrong = "Unable to submit request because it has an empty text parameter."
                yield refused("text_empty", part, wrong, severity="warn")


def functions(request: Request) -> Iterator[Violation]:
    """Calls and responses have a name, and arguments and response are objects."""
    for part in _functions(request):
        key = "args" if part.kind == "functionCall" else "response"
        if not part.name:
            text = f"* GenerateContentRequest.{part.field}.name: Name cannot be empty."
            yield refused("name_missing", part, text)
        given = part.held.get(key)
        if given is not None and fields_or_none(given) is None:
            text = f"Invalid value at '{part.field}.{key}' (type.googleapis.com/google.protobuf.Struct), {given!r}"
            yield refused(f"{key}_object", part, text)


def sides(request: Request) -> Iterator[Violation]:
    """Calls are the model's, responses are not."""
    for content in request.contents:
        for part in content.responses if content.by_model else content.calls:
            other = "model" if part.kind == "functionCall" else "user"
            yield refused("side", part, f"a {part.kind} part belongs to the role '{other}'", severity="warn")


def call_position(request: Request) -> Iterator[Violation]:
    """A content with calls stands directly behind the user's words or behind responses."""
    for before, content in pairwise((None, *request.contents)):
        if content is not None and content.by_model and content.calls and (before is None or before.by_model):
            yield refused("call_position", content, _CALL_TURN)


def count(request: Request) -> Iterator[Violation]:
    """The content after one with calls has as many responses as that has calls; no other content has any."""
    due = named = False
    for content, after in _with_next(request):
        if content.by_model:
            due, named = bool(content.calls), False
            given = 0 if after is None or after.by_model else len(after.responses)
            if due and given != len(content.calls):
                named = True
                yield refused("count", content, _SAME_NUMBER)
            continue
        if content.responses and not due and not named:
            yield refused("count", content, _SAME_NUMBER)
        due = False


def ids(request: Request) -> Iterator[Violation]:
    """Where calls and responses have ids, these agree."""
    for content, after in _with_next(request):
        asked = content.calls if content.by_model else ()
        calls = {part.id for part in asked}
        answers = [part.id for part in after.responses] if after is not None and not after.by_model else []
        given = [name for name in answers if name is not None]
        if len(asked) == len(answers) and None not in calls:
            strangers = [name for name in given if name not in calls] or _repeated(given)
            if strangers:
                text = f"Function response id {', '.join(strangers)} does not match the id of a function call."
                yield refused("id_mismatch", after, text)


def names(request: Request) -> Iterator[Violation]:
    """Responses without ids are named like the calls that they answer."""
    for content, after in _with_next(request):
        calls = sorted(part.name for part in content.calls) if content.by_model else []
        answers = after.responses if after is not None and not after.by_model else ()
        if len(calls) == len(answers) and calls != sorted(part.name for part in answers):
            text = "the names of the function responses are not those of the function calls"
            yield refused("name_mismatch", after, text, severity="warn")


def text_beside(request: Request) -> Iterator[Violation]:
    """Text beside a response is taken, but may be read as the model's own."""
    for content in request.contents:
        if content.responses and not content.by_model and any(part.kind == "text" for part in content.parts):
            text = "text beside function responses may be read as the model's: put it into the next user content"
            yield refused("text_beside_response", content, text, severity="warn")


def alternation(request: Request) -> Iterator[Violation]:
    """The first models take user and model by turns only."""
    model = request.data.get("model")
    if not isinstance(model, str) or not _ALTERNATING.search(model):
        return
    for before, content in pairwise(request.contents):
        if before.by_model == content.by_model:
            text = "Please ensure that multiturn requests alternate between user and model."
            yield refused("alternate", content, text)


def cached_end(request: Request) -> Iterator[Violation]:
    """With an explicit cache the request does not end on the model."""
    last = request.contents[-1] if request.contents else None
    if last is not None and last.by_model and request.option("cachedContent"):
        yield refused("cached_end", last, "Requests ending with a model turn are not supported")


RULES: tuple[Rule, ...] = (
    contents_given,
    role,
    parts_given,
    text,
    functions,
    sides,
    call_position,
    count,
    ids,
    names,
    text_beside,
    alternation,
    cached_end,
    *rules_signatures.RULES,
)

COMPARISONS: tuple[Comparison, ...] = rules_signatures.COMPARISONS


def _functions(request: Request) -> Iterator[PartAt]:
    """All calls and responses."""
    for content in request.contents:
        yield from (part for part in content.parts if part.kind in {"functionCall", "functionResponse"})


def _with_next(request: Request) -> Iterator[tuple[ContentAt, ContentAt | None]]:
    """Each content with the one after it."""
    return ((content, after) for content, after in pairwise((*request.contents, None)) if content is not None)


def _repeated(given: list[str]) -> list[str]:
    seen: set[str] = set()
    repeated = []
    for name in given:
        if name in seen:
            repeated.append(name)
        seen.add(name)
    return repeated
