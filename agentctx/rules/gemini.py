"""The rules that make a generateContent request valid, each a small function, in one ordered list.

Error texts as captured from the API; a text for which there is no recording says what the documentation says.

The requests of one conversation are validated without a look at all of their messages again: ``GrowingContents``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from attrs import frozen

from agentctx.formats.gemini import (
    as_contents,
    data_key,
    generation_of,
    read_tools,
    signature_of,
    snake,
    value,
)
from agentctx.formats.native import fields_or_none, mapping_or_none, string_of
from agentctx.message import Native
from agentctx.models.profile import ModelProfile
from agentctx.rules.rule import (
    NOTHING,
    Rule,
    checked,
    in_order,
    refusing,
)
from agentctx.wire_format import Violation, WireFormat

refused = refusing("gem", "contents")
_CAMEL = re.compile(r"_([a-z])")


@frozen
class PartAt:
    """One part.

    Args:
        kind: What it holds, in the API's spelling; empty when it holds nothing.
    """

    index: int
    path: str
    kind: str
    data: Mapping[str, Any]
    held: Mapping[str, Any]

    @property
    def text(self) -> str | None:
        """Its text, when it is one."""
        return string_of(self.data, "text")

    @property
    def signature(self) -> str | None:
        """Its thought signature in base64, when it has one."""
        return signature_of(self.data)

    @property
    def name(self) -> str:
        """The function's name, when it is a call or a response and has one."""
        return string_of(self.held, "name") or ""

    @property
    def id(self) -> str | None:
        """The id of the call, when it is a call or a response and has one."""
        return string_of(self.held, "id") or None

    @property
    def field(self) -> str:
        """The place of what it holds; the provider's errors use the snake spelling."""
        return f"{self.path}.{snake(self.kind)}"


@frozen
class ContentAt:
    """One content."""

    index: int
    role: object
    data: Mapping[str, Any]
    parts: tuple[PartAt, ...]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"contents[{self.index}]"

    @property
    def by_model(self) -> bool:
        """Whether the model speaks."""
        return self.role == "model"

    @property
    def calls(self) -> tuple[PartAt, ...]:
        """Its function calls."""
        return tuple(part for part in self.parts if part.kind == "functionCall")

    @property
    def responses(self) -> tuple[PartAt, ...]:
        """Its function responses."""
        return tuple(part for part in self.parts if part.kind == "functionResponse")


@frozen
class GenerateRequest:
    """A request, laid out.

    Args:
        generation: The model's generation (2, 3, …); None when the model is not known.
    """

    data: Mapping[str, Any]
    contents: tuple[ContentAt, ...]
    generation: int | None

    def option(self, key: str) -> Native:
        """An option of the request, at its top or in the SDK's ``config``."""
        found = value(self.data, key)
        return value(fields_or_none(self.data.get("config")) or NOTHING, key) if found is None else found


def contents_of(data: Mapping[str, Any]) -> object:
    """The native contents of a request."""
    return data.get("contents", data.get("messages"))


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> GenerateRequest:
    """Lay a request out; without a profile its model is known by its name."""
    native = contents_of(data)
    given = native if isinstance(native, (list, tuple)) else () if native is None else (native,)
    contents = tuple(content_at(each, index) for index, each in as_contents(given))
    named = data.get("model")
    name = profile.family if profile is not None else named if isinstance(named, str) else ""
    return GenerateRequest(data, contents, generation_of(name.lower()))


def content_at(native: object, index: int) -> ContentAt:
    """One content laid out."""
    content = fields_or_none(native) or NOTHING
    natives = content.get("parts")
    parts = natives if isinstance(natives, (list, tuple)) else ()
    found = (_part(part, index, f"contents[{index}].parts[{place}]") for place, part in enumerate(parts))
    return ContentAt(index, content.get("role"), content, tuple(found))


def _part(native: object, index: int, path: str) -> PartAt:
    block = fields_or_none(native) or NOTHING
    key = data_key(block)
    if key is None:
        return PartAt(index, path, "", block, NOTHING)
    kind = _CAMEL.sub(lambda found: found[1].upper(), str(key))
    return PartAt(index, path, kind, block, fields_or_none(block[key]) or NOTHING)


DUMMIES = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""What stands for a signature on a call that the model did not make; the provider lets it pass."""

# The SDK holds signatures as bytes.
_DUMMY_BYTES = frozenset(b64encode(dummy.encode()).decode() for dummy in DUMMIES)


def first_signed(request: GenerateRequest) -> Iterator[Violation]:
    """From Gemini 3 on, the first call of each step of the current turn bears its thought signature."""
    if request.generation is None or request.generation < 3:
        return
    turn: list[ContentAt] = []
    for content in request.contents:
        if not content.by_model and (not content.responses or any(part.kind == "text" for part in content.parts)):
            turn = []  # the user says something, and not only functions answer
        else:
            turn.append(content)
    for content in turn:
        first = content.calls[0] if content.by_model and content.calls else None
        if first is not None and not first.signature:
            yield refused(
                "sig_missing",
                first,
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{first.name}` , position {content.index + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
            )


def signatures_kept(request: GenerateRequest, before: GenerateRequest) -> Iterator[Violation]:
    """A thought signature stands on the part that it was made for, and that part says what it said."""
    known: dict[str, list[object]] = {}
    for part in _signed(before):
        known.setdefault(part.signature or "", []).append(_said(part))
    for part in _signed(request):
        if (signature := checked_signature(part)) is None:
            continue
        if signature not in known:
            yield refused("sig_modified", part, "Invalid thought signature")
            continue
        try:
            corrupted = _said(part) not in known[signature]
        except RecursionError:  # nested deeper than any request that the provider reads
            corrupted = True
        if corrupted:
            yield refused("sig_modified", part, "Corrupted thought signature")


def checked_signature(part: PartAt) -> str | None:
    """The signature of a part, where it has one that the provider does not let pass unseen."""
    signature = part.signature
    return None if not signature or signature in DUMMIES or signature in _DUMMY_BYTES else signature


def _signed(request: GenerateRequest) -> Iterator[PartAt]:
    return (part for content in request.contents for part in content.parts if part.signature)


def _said(part: PartAt) -> object:
    """What was signed: the kind of part, and what it holds."""
    if part.kind == "functionCall":
        return part.kind, part.name, mapping_or_none(part.held.get("args")) or {}
    return part.kind, part.text if part.kind == "text" else dict(part.held)


_ALTERNATING = re.compile(r"gemini-1\.0|gemini-pro(?:-vision)?\Z")
_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
_SAME_NUMBER = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)


def violations(
    _wire: WireFormat, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its contents; never raises."""
    original = None if before is None else lay_out(before, profile)
    return in_order(checked(RULES, lay_out(request, profile), (signatures_kept,), original))


def contents_given(request: GenerateRequest) -> Iterator[Violation]:
    """There is a content."""
    native = contents_of(request.data)
    if native and (isinstance(native, (str, list, tuple)) or fields_or_none(native) is not None):
        return
    yield refused("contents_empty", None, "* GenerateContentRequest.contents: contents is not specified")


def role(request: GenerateRequest) -> Iterator[Violation]:
    """The user and the model speak, and nobody else; ``function`` and ``tool`` are taken for responses."""
    for content in request.contents:
        known = isinstance(content.role, str) and content.role in {"user", "model", "function", "tool"}
        if not known and (content.role is not None or not content.data):
            text = f"Role '{content.role}' is not supported. Please use a valid role: SYSTEM, MODEL, USER."
            yield refused("role", content, text)


def parts_given(request: GenerateRequest) -> Iterator[Violation]:
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


def text(request: GenerateRequest) -> Iterator[Violation]:
    """A text is a string; one that is empty and unsigned is refused by some endpoints."""
    for content in request.contents:
        for part in content.parts:
            if part.kind == "text" and part.text is None:
                yield refused("text_type", part, f"Invalid value at '{part.field}' (TYPE_STRING)")
            elif part.text == "" and signature_of(part.data) is None:
                wrong = "Unable to submit request because it has an empty text parameter."
                yield refused("text_empty", part, wrong, severity="warn")


def functions(request: GenerateRequest) -> Iterator[Violation]:
    """Calls and responses have a name, and arguments and response are objects."""
    for part in (part for content in request.contents for part in content.parts):
        if part.kind not in {"functionCall", "functionResponse"}:
            continue
        key = "args" if part.kind == "functionCall" else "response"
        if not part.name:
            text = f"* GenerateContentRequest.{part.field}.name: Name cannot be empty."
            yield refused("name_missing", part, text)
        given = part.held.get(key)
        if given is not None and fields_or_none(given) is None:
            text = f"Invalid value at '{part.field}.{key}' (type.googleapis.com/google.protobuf.Struct), {given!r}"
            yield refused(f"{key}_object", part, text)


def sides(request: GenerateRequest) -> Iterator[Violation]:
    """Calls are the model's, responses are not."""
    for content in request.contents:
        for part in content.responses if content.by_model else content.calls:
            other = "model" if part.kind == "functionCall" else "user"
            yield refused("side", part, f"a {part.kind} part belongs to the role '{other}'", severity="warn")


def call_position(request: GenerateRequest) -> Iterator[Violation]:
    """A content with calls stands directly behind the user's words or behind responses."""
    for before, content in pairwise((None, *request.contents)):
        if content is not None and content.by_model and content.calls and (before is None or before.by_model):
            yield refused("call_position", content, _CALL_TURN)


def count(request: GenerateRequest) -> Iterator[Violation]:
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


def ids(request: GenerateRequest) -> Iterator[Violation]:
    """Where calls and responses have ids, these agree."""
    for content, after in _with_next(request):
        asked = content.calls if content.by_model else ()
        calls = {part.id for part in asked}
        answers = [part.id for part in after.responses] if after is not None and not after.by_model else []
        given = [name for name in answers if name is not None]
        if len(asked) == len(answers) and None not in calls:
            strangers = [name for name in given if name not in calls]
            if strangers := strangers or [name for place, name in enumerate(given) if name in given[:place]]:
                text = f"Function response id {', '.join(strangers)} does not match the id of a function call."
                yield refused("id_mismatch", after, text)


def names(request: GenerateRequest) -> Iterator[Violation]:
    """Responses without ids are named like the calls that they answer."""
    for content, after in _with_next(request):
        calls = sorted(part.name for part in content.calls) if content.by_model else []
        answers = after.responses if after is not None and not after.by_model else ()
        if len(calls) == len(answers) and calls != sorted(part.name for part in answers):
            text = "the names of the function responses are not those of the function calls"
            yield refused("name_mismatch", after, text, severity="warn")


def text_beside(request: GenerateRequest) -> Iterator[Violation]:
    """Text beside a response is taken, but may be read as the model's own."""
    for content in request.contents:
        if content.responses and not content.by_model and any(part.kind == "text" for part in content.parts):
            text = "text beside function responses may be read as the model's: put it into the next user content"
            yield refused("text_beside_response", content, text, severity="warn")


def alternation(request: GenerateRequest) -> Iterator[Violation]:
    """The first models take user and model by turns only."""
    model = request.data.get("model")
    if not isinstance(model, str) or not _ALTERNATING.search(model):
        return
    for before, content in pairwise(request.contents):
        if before.by_model == content.by_model:
            text = "Please ensure that multiturn requests alternate between user and model."
            yield refused("alternate", content, text)


def cached_end(request: GenerateRequest) -> Iterator[Violation]:
    """With an explicit cache the request does not end on the model."""
    last = request.contents[-1] if request.contents else None
    if last is not None and last.by_model and request.option("cachedContent"):
        yield refused("cached_end", last, "Requests ending with a model turn are not supported")


def tools(request: GenerateRequest) -> Iterator[Violation]:
    """Tools have legal names; a config of their calls has functions, and names those that there are."""
    with suppress(AttributeError, TypeError, ValueError):  # what cannot be read
        names = {tool.name for tool in read_tools(request.option("tools"))}
        for name in names:
            if not re.fullmatch(r"(?a)([a-zA-Z_][\w.:-]{0,63})?", name):
                yield refused("tool_name", None, f"Invalid function name {name!r}.", "tools")
        allowed = value(value(request.option("toolConfig"), "functionCallingConfig"), "allowedFunctionNames")
        if not (names and names.issuperset(allowed or ())):
            yield refused("tool_choice", None, "Function calling config is set without function_declarations.", "tools")


RULES: tuple[Rule[GenerateRequest], ...] = (
    contents_given, role, parts_given, text, functions, sides, call_position, count, ids, names, text_beside,
    alternation, cached_end, first_signed, tools,
)  # fmt: skip


def _with_next(request: GenerateRequest) -> Iterator[tuple[ContentAt, ContentAt | None]]:
    """Each content with the one after it."""
    return ((content, after) for content, after in pairwise((*request.contents, None)) if content is not None)
