"""Rules of the Responses API about ids, reasoning and encrypted bytes, which tie items together."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.openai_responses.view import Item, Request, broken, too_many


def item_ids(request: Request) -> Iterator[Violation]:
    """R4: no two items have one id."""
    seen: set[str] = set()
    for item in request.items:
        if item.id is None or item.kind == "item_reference":
            continue
        if item.id in seen:
            text = f"Duplicate item found with id {item.id}. Remove duplicate items from your input and try again."
            yield broken("item_dup", item, "input", text)
        seen.add(item.id)


def missing_reasoning(request: Request) -> Iterator[Violation]:
    """R5: an item that the provider made after reasoning needs that reasoning before it, as long as it has its id."""
    if request.before is None or request.chained:
        return
    leader = dict(_led(request.before))
    seen: set[str] = set()
    for item in request.items:
        if item.kind == "reasoning":
            seen.add(_name(item))
        thought = leader.get(item.id) if item.id is not None else None
        if thought is not None and _name(thought) not in seen:
            text = (
                f"Item '{item.id}' of type '{item.kind}' was provided without its required 'reasoning' item: "
                f"'{_name(thought)}'."
            )
            yield broken("missing_reasoning", item, "input", text)


def _led(request: Request) -> Iterator[tuple[str, Item]]:
    """Each item with an id that belongs to reasoning, by its id: as ``core.units`` groups them."""
    thought: Item | None = None
    answered = False
    for item in request.items:
        if item.kind == "reasoning":
            thought, answered = (item, False) if _signed(item) else (thought, answered)
        elif item.is_output:
            answered = True
        elif not item.by_model or (answered and item.is_words):
            thought = None
        elif thought is not None and item.id is not None:
            yield item.id, thought


def _signed(item: Item) -> bool:
    return item.id is not None or isinstance(item.data.get("encrypted_content"), str)


def _name(item: Item) -> str:
    """What reasoning is known by: its id, else its encrypted bytes."""
    return item.id or str(item.data.get("encrypted_content"))


def unfollowed(request: Request) -> Iterator[Violation]:
    """R6: reasoning needs the item that it led to."""
    followers = {} if request.before is None else {_name(one): then for one, then in _followers(request.before)}
    for thought, then in _followers(request):
        was = followers.get(_name(thought))
        if then is None or (was is not None and not _may_be(then, was)):
            text = f"Item '{_name(thought)}' of type 'reasoning' was provided without its required following item."
            yield broken("reasoning_unfollowed", thought, "input", text)


def _followers(request: Request) -> Iterator[tuple[Item, Item | None]]:
    """Each piece of signed reasoning with the item of the model that follows it, if there is one."""
    then: Item | None = None
    found: list[tuple[Item, Item | None]] = []
    for item in reversed(request.items):
        if item.kind != "reasoning":
            then = item if item.by_model else None
        elif _signed(item):
            found.append((item, then))
    return reversed(found)


def _may_be(item: Item, was: Item) -> bool:
    """Whether the item may be what another was; ids may have been left out."""
    if item.kind != was.kind:
        return False
    return item.call_id == was.call_id if was.is_call else item.id is None or item.id == was.id


def not_stored(request: Request) -> Iterator[Violation]:
    """R7: nothing that is not stored can be referred to; reasoning without encrypted content is but a reference."""
    if request.body.get("store") is not False:
        return
    for item in request.items:
        bare = item.kind == "reasoning" and not isinstance(item.data.get("encrypted_content"), str)
        if item.id is not None and (bare or item.kind == "item_reference"):
            text = (
                f"Item with id '{item.id}' not found. Items are not persisted when `store` is set to false. "
                "Try again with `store` set to true, or remove this item from your input."
            )
            yield broken("item_not_found", item, "input", text)


def sealed(request: Request) -> Iterator[Violation]:
    """R9: encrypted content and fingerprints go back as they came, with the id that they came with."""
    if request.before is None:
        return
    known = set(map(_seal, request.before.items))
    for item in request.items:
        seal = _seal(item)
        if seal is not None and seal not in known:
            text = (
                f"The encrypted content for item {item.id} could not be verified. "
                "Reason: Encrypted content could not be decrypted or parsed."
            )
            yield broken("reasoning_modified", item, f"{item.path}.encrypted_content", text)


def _seal(item: Item) -> str | None:
    """What the provider checks of an item: its bytes and its id; None when it checks nothing."""
    key = "fingerprint" if item.kind == "program" else "encrypted_content"
    value = item.data.get(key)
    if value is None:
        return None
    code = item.data.get("code") if item.kind == "program" else None
    return json.dumps([item.kind, item.id, value, code], default=repr)


def same_family(request: Request) -> Iterator[Violation]:
    """R9: encrypted reasoning is read by the family of models that wrote it."""
    before = request.before
    if before is None or before.family is None or request.family in (None, before.family):
        return
    for item in request.items:
        if item.kind == "reasoning" and isinstance(item.data.get("encrypted_content"), str):
            text = "Reason: Encrypted content could not be decrypted or parsed."
            text = f"The encrypted content for item {item.id} could not be verified. {text}"
            yield broken("reasoning_family", item, f"{item.path}.encrypted_content", text)


def reasoning_content(request: Request) -> Iterator[Violation]:
    """R10: OpenAI takes no readable reasoning back; other providers of the format do."""
    if request.foreign:
        return
    for item in request.items:
        content = item.data.get("content")
        if item.kind == "reasoning" and isinstance(content, (list, tuple)) and content:
            yield too_many("reasoning_content", item, f"{item.path}.content", 0, len(content))


def trigger_last(request: Request) -> Iterator[Violation]:
    """A wish for compaction is the last item."""
    for item in request.items:
        if item.kind == "compaction_trigger" and item.index != request.total - 1:
            text = "Invalid input: 'compaction_trigger' must be the final input item."
            yield broken("trigger_not_last", item, item.path, text)
