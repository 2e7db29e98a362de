"""Validate the requests of one conversation, one after the other, without reading all of them again at each.

Most of a long session is complete tool rounds in which no rule finds anything: a call and its results, words, signed
reasoning. The rules say the same of the rest of a request without such a round, so they are asked about the request
without it. What concerns the request as a whole (its size, whether ids differ, what reasoning was signed) is known of
each message from when it was first seen. Where that is not enough, the whole request is validated anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.core.message import CONTROL
from agentctx.models.profile import ModelProfile
from agentctx.providers.anthropic.rules import (
    ID,
    MOST_BYTES,
    RULES,
    RULES_OF_WHAT_CAME_BEFORE,
    THINKING,
    ContentBlock,
    Message,
    MessagesRequest,
    lay_out,
    lay_out_message,
    request_size,
    seal,
    string_bytes,
    violations,
)
from agentctx.providers.native import snapshot
from agentctx.providers.rules import checked, in_order, turns_of
from agentctx.wire_format import Violation

_KEYS = frozenset({"model", "messages", "system", "tools"})
_RULES = tuple(rule for rule in RULES if rule is not request_size)


@frozen
class _Facts:
    """What is known of one native message, wherever it stands.

    Args:
        native: The message itself, held so that nothing else gets its identity.
        copy: What it looked like: a dict that somebody has edited is read again.
        role: Its role.
        filled: Whether it has any block.
        calls: The ids of all its tool calls.
        answers: The ids of the calls that it answers, when it is half of a round.
        half: Whether it is half of a tool round in which no rule finds anything: calls, or nothing but results.
        seals: What its reasoning was signed with, and what it says.
        size: The bytes of its strings.
    """

    native: object
    copy: object
    role: str
    filled: bool
    calls: tuple[str, ...]
    answers: frozenset[str]
    half: bool
    seals: tuple[tuple[str, object], ...]
    size: int


@define
class _Original:
    """What the messages that a request was made from say of it; they are added to from step to step.

    Args:
        known: The messages.
        signed: Where each signature stands last, and what it signs.
        telling: Indices of the messages that are no half of a round.
    """

    known: list[_Facts] = field(factory=list)
    signed: dict[str, tuple[int, object]] = field(factory=dict)
    telling: list[int] = field(factory=list)

    def read(self, given: Sequence[_Facts]) -> None:
        """Read what is new; all of it where an earlier message is another one."""
        if len(given) < len(self.known) or not all(map(is_, self.known, given)):
            self.known, self.signed, self.telling = [], {}, []
        for index in range(len(self.known), len(given)):
            self.known.append(given[index])
            self.signed |= {name: (index, said) for name, said in given[index].seals}
            if not given[index].half:
                self.telling.append(index)

    def needed_for(self, entries: Sequence[Message]) -> tuple[Message, ...]:
        """The messages that decide what the comparisons find in these."""
        names = {name for entry in entries for block in entry.blocks if (name := _seal(block)) is not None}
        homes = {self.signed[name][0] for name in names if name in self.signed}
        return tuple(lay_out_message(self.known[index].native, index) for index in sorted(homes.union(self.telling)))


@define
class GrowingRequest:
    """Finds what ``violations`` finds in the requests of a conversation.

    Args:
        profile: What is known of the model.
    """

    profile: ModelProfile | None
    _facts: dict[int, _Facts] = field(factory=dict, init=False)
    _original: _Original = field(factory=_Original, init=False)

    def __call__(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """Every rule that the request breaks, in the order of its messages."""
        try:
            found = self._of_the_rest(request, before)
        except RecursionError:  # nested too deep to be copied: the rules never raise
            found = None
        return violations(request, self.profile, before) if found is None else found

    def _of_the_rest(
        self, request: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> tuple[Violation, ...] | None:
        """What is found without the rounds in which nothing is; None where that is not enough."""
        sent = self._known(request)
        given = self._known(before or {})
        self._facts = {id(facts.native): facts for facts in (*sent, *given)}  # what is in neither is forgotten
        if not self._enough(request, sent) or (before is not None and not given):
            return None
        self._original.read(given)
        short = self._without_rounds(request, sent, compared=before is not None)
        found = [*checked(_RULES, short)]
        if before is not None:
            found += self._compared(short, request, before)
        return in_order(found)

    def _known(self, request: Mapping[str, Any]) -> list[_Facts]:
        """The facts of each message; none where there is no list of them."""
        messages = request.get("messages")
        if not isinstance(messages, list):
            return []
        found = [self._facts.get(id(native)) or self._read(native) for native in messages]
        if [facts.copy for facts in found] != messages:
            pairs = zip(found, messages, strict=True)
            found = [facts if facts.copy == native else self._read(native) for facts, native in pairs]
        return found

    def _read(self, native: object) -> _Facts:
        self._facts[id(native)] = facts = _read(native)
        return facts

    def _enough(self, request: Mapping[str, Any], sent: Sequence[_Facts]) -> bool:
        """Whether complete rounds may be left out: nothing is found in them together with the rest."""
        if not sent or not sent[0].filled or not _KEYS.issuperset(request):
            return False
        calls = [call for facts in sent for call in facts.calls]
        if len(set(calls)) != len(calls):
            return False
        rest = string_bytes({**request, "messages": None}, MOST_BYTES)
        return rest + sum(facts.size for facts in sent) <= MOST_BYTES

    def _without_rounds(self, request: Mapping[str, Any], sent: Sequence[_Facts], *, compared: bool) -> MessagesRequest:
        """The request laid out, without the rounds in which nothing is found."""
        entries = tuple(lay_out_message(sent[index].native, index) for index in self._kept(sent, compared=compared))
        laid_out = lay_out({**request, "messages": []}, self.profile)
        return evolve(laid_out, data=request, entries=entries, turns=tuple(turns_of(entries)))

    def _kept(self, sent: Sequence[_Facts], *, compared: bool) -> Iterator[int]:
        """The indices of what stays."""
        index = 0
        while index < len(sent):
            if _round(sent, index) and not (compared and self._changed(sent[index])):
                index += 2
            else:
                yield index
                index += 1

    def _changed(self, facts: _Facts) -> bool:
        """Whether its reasoning is not what was signed."""
        signed = self._original.signed
        return any(name not in signed or signed[name][1] != said for name, said in facts.seals)

    def _compared(
        self, short: MessagesRequest, request: Mapping[str, Any], before: Mapping[str, Any]
    ) -> Iterator[Violation]:
        """What the comparisons find; all that came before is read where reasoning is bound to it."""
        if short.model.bound_thinking:
            whole, original = lay_out(request, self.profile), lay_out(before, self.profile)
            return checked((), whole, RULES_OF_WHAT_CAME_BEFORE, original)
        entries = self._original.needed_for(short.entries)
        original = evolve(short, data=before, entries=entries, turns=tuple(turns_of(entries)))
        return checked((), short, RULES_OF_WHAT_CAME_BEFORE, original)


def _round(sent: Sequence[_Facts], index: int) -> bool:
    """Whether a complete round stands there as two turns of its own: what is around it stays turns of their own."""
    if not 1 <= index < len(sent) - 2 or sent[index - 1].role != "user" or sent[index + 2].role != "assistant":
        return False
    calling, answering = sent[index], sent[index + 1]
    if not (calling.half and answering.half and calling.role == "assistant" and answering.role == "user"):
        return False
    return answering.answers == frozenset(calling.calls)


def _read(native: object) -> _Facts:
    entry = lay_out_message(native, 0)
    blocks = entry.blocks
    calls = tuple(name for block in blocks if block.kind == "tool_use" and (name := block.string("id")) is not None)
    answers = [name for block in blocks if (name := block.string("tool_use_id")) is not None]
    judge = _legal_call if entry.role == "assistant" else _legal_result
    half = type(native) is dict and isinstance(native.get("content"), list) and all(map(judge, blocks))
    return _Facts(
        native=native,
        copy=snapshot(native) if type(native) is dict else native,
        role=entry.role,
        filled=bool(blocks),
        calls=calls,
        answers=frozenset(answers),
        half=half and bool(calls or answers) and len(set(answers)) == len(answers),
        seals=tuple((name, block.data.get("thinking")) for block in blocks if (name := _seal(block)) is not None),
        size=string_bytes(native, MOST_BYTES),
    )


def _seal(block: ContentBlock) -> str | None:
    return (seal(block) or None) if block.kind in THINKING else None


def _legal_call(block: ContentBlock) -> bool:
    """Whether no rule finds anything in a block of an assistant message that calls tools, wherever it stands."""
    if CONTROL in block.data:
        return False
    if block.kind == "text":
        return _says(block) and "citations" not in block.data
    if block.kind == "tool_use":
        return _named(block, "id") and bool(block.string("name")) and isinstance(block.data.get("input"), dict)
    return _seal(block) is not None


def _legal_result(block: ContentBlock) -> bool:
    """Whether it is the result of a tool, in words, in which no rule finds anything."""
    if block.kind != "tool_result" or CONTROL in block.data or not _named(block, "tool_use_id"):
        return False
    return all(inner.kind == "text" and _says(inner) and CONTROL not in inner.data for inner in block.inner)


def _says(block: ContentBlock) -> bool:
    words = block.string("text")
    return bool(words) and not str(words).isspace()


def _named(block: ContentBlock, key: str) -> bool:
    return re.fullmatch(ID[1:-1], block.string(key) or "") is not None
