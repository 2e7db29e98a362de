"""The rules that make an Anthropic Messages request valid, each a small function, in one ordered list.

Here: messages, roles, content, the system prompt, the end of the request, its size. Error texts as captured from
the API; a text for which there is no recording says what the documentation says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.anthropic import rules_before, rules_cache, rules_media, rules_thinking, rules_tools
from agentctx.wire.anthropic.request import Block, Entry, Request, lay_out, refused
from agentctx.wire.native import mapping_or_none

Rule = Callable[[Request], Iterable[Violation]]
Comparison = Callable[[Request, Request], Iterable[Violation]]

_MOST_MESSAGES = 100_000
_MOST_BYTES = 32 * 1024 * 1024


def violations(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its messages; never raises.

    Args:
        request: ``messages`` and what else the provider takes.
        profile: The model's profile; without it the model is known by the name in the request.
        before: The request that this one was made from, if signed bytes are to be compared.
    """
    laid = lay_out(request, profile)
    found = [violation for rule in RULES for violation in rule(laid)]
    if before is not None:
        original = lay_out(before, profile)
        found.extend(violation for compare in COMPARISONS for violation in compare(laid, original))
    return tuple(sorted(found, key=lambda violation: -1 if violation.index is None else violation.index))


def message_count(request: Request) -> Iterator[Violation]:
    """There is a message, and there are not too many."""
    messages = request.data.get("messages")
    if not isinstance(messages, (list, tuple)):
        wrong = "Field required" if messages is None else "Input should be a valid list"
        yield refused("messages_empty", None, f"messages: {wrong}")
    elif not messages:
        yield refused("messages_empty", None, "messages: at least one message is required")
    elif len(messages) > _MOST_MESSAGES:
        text = f"messages: at most {_MOST_MESSAGES} messages are allowed, found {len(messages)}"
        yield refused("messages_max", None, text)


def request_size(request: Request) -> Iterator[Violation]:
    """The request body has at most 32 MB."""
    if _string_bytes(request.data, _MOST_BYTES) > _MOST_BYTES:
        yield refused("request_size", None, "Request exceeds the maximum size")


def role(request: Request) -> Iterator[Violation]:
    """Messages have a role that the model knows."""
    for entry in request.entries:
        if entry.role not in {"user", "assistant", "system"}:
            path = f"{entry.path}.role"
            yield refused("role", entry, f"{path}: Input should be 'user' or 'assistant'", path)


def first_role(request: Request) -> Iterator[Violation]:
    """The first message is the user's; the API takes others since 2024-10, partner endpoints do not."""
    first = request.entries[0] if request.entries else None
    if first is None or first.role != "assistant":
        return
    if not (first.blocks and first.blocks[0].kind == "compaction"):
        text = 'messages: first message must use the "user" role'
        yield refused("first_user", first, text, severity="warn")


def content(request: Request) -> Iterator[Violation]:
    """Content is a string or a list of typed blocks, and only the final assistant message may have none."""
    last = request.entries[-1] if request.entries else None
    for entry in request.entries:
        native = entry.data.get("content")
        if not isinstance(native, (str, list, tuple)):
            if native is not None or not _settings_only(entry):
                path = f"{entry.path}.content"
                wrong = "Input should be a valid list" if "content" in entry.data else "Field required"
                yield refused("content_type", entry, f"{path}: {wrong}", path)
        elif not native and not (entry is last and entry.role == "assistant"):
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield refused("content_empty", entry, f"{entry.path}: {text}")


def block_type(request: Request) -> Iterator[Violation]:
    """Each block is an object with a type."""
    for block in request.blocks:
        for each in (block, *block.inner):
            if not each.kind:
                wrong = "Field required" if each.data else "Input should be a valid dictionary"
                yield refused("block_type", each, f"{each.path}.type: {wrong}", f"{each.path}.type")


def text(request: Request) -> Iterator[Violation]:
    """Text blocks hold text, and some of it is no white space."""
    for block in (*request.system, *request.blocks):
        # The empty string as content is judged as empty content; as system prompt it is none.
        whole = block.path == "system" or (block.path.endswith(".content") and not block.data["text"])
        for each in (block, *block.inner):
            if each.kind == "text" and not whole and (found := _text(each)) is not None:
                yield found


def prefill(request: Request) -> Iterator[Violation]:
    """Whether the request may end on words of the assistant, and on which."""
    last = request.entries[-1] if request.entries else None
    end = last.blocks[-1] if last is not None and last.blocks else None
    if last is None or end is None or last.role != "assistant" or end.kind != "text" or not end.string("text"):
        return
    if not request.model.prefill:
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield refused("prefill", last, text)
    elif (end.string("text") or "")[-1].isspace():
        text = "messages: final assistant content cannot end with trailing whitespace"
        yield refused("prefill_whitespace", last, text)


def system_model(request: Request) -> Iterator[Violation]:
    """System messages among the messages need a model that takes them."""
    if request.model.system_in_messages:
        return
    for entry in request.entries:
        if entry.role == "system":
            text = f"{entry.path}.role: role 'system' is not supported on this model"
            yield refused("system_unsupported", entry, text, f"{entry.path}.role")


def system_place(request: Request) -> Iterator[Violation]:
    """A system message stands behind a user turn, before an assistant turn or last, and never in a tool round."""
    if not request.model.system_in_messages:
        return
    entries = request.entries
    for entry in entries:
        if entry.role != "system":
            continue
        before, after = _neighbour(entries, entry.index, -1), _neighbour(entries, entry.index, 1)
        if before is None:
            text = f"{entry.path}: use the top-level 'system' parameter for the initial system prompt"
            yield refused("system_first", entry, text)
        elif _has(after, "tool_result") or (before.role == "assistant" and _has(before, "tool_use")):
            text = f"{entry.path}: a system message cannot stand between `tool_use` and `tool_result` blocks"
            yield refused("system_in_round", entry, text)
        elif not _may_precede_system(before) or (after is not None and after.role != "assistant"):
            text = (
                f"{entry.path}: a system message must follow a user turn and be last or followed by an assistant turn"
            )
            yield refused("system_position", entry, text)


RULES: tuple[Rule, ...] = (
    message_count,
    request_size,
    role,
    first_role,
    content,
    block_type,
    text,
    prefill,
    system_model,
    system_place,
    *rules_tools.RULES,
    *rules_cache.RULES,
    *rules_thinking.RULES,
    *rules_media.RULES,
)

COMPARISONS: tuple[Comparison, ...] = rules_before.RULES


def _text(block: Block) -> Violation | None:
    words = block.string("text")
    if words is None:
        path = f"{block.path}.text"
        wrong = "Field required" if block.data.get("text") is None else "Input should be a valid string"
        return refused("text_type", block, f"{path}: {wrong}", path)
    if not words:
        # With a cache marker the provider complains of the marker.
        marked = mapping_or_none(block.data.get("cache_control")) is not None
        return None if marked else refused("text_empty", block, "messages: text content blocks must be non-empty")
    if words.isspace():
        return refused("text_blank", block, "messages: text content blocks must contain non-whitespace text")
    return None


def _settings_only(entry: Entry) -> bool:
    return entry.role == "system" and bool(entry.data.get("output_config"))


def _neighbour(entries: tuple[Entry, ...], index: int, step: int) -> Entry | None:
    """The nearest message on one side that is no system message."""
    index += step
    while 0 <= index < len(entries):
        if entries[index].role != "system":
            return entries[index]
        index += step
    return None


def _has(entry: Entry | None, kind: str) -> bool:
    return entry is not None and any(block.kind == kind for block in entry.blocks)


def _may_precede_system(entry: Entry) -> bool:
    """A user turn, or an assistant turn that ends in the result of a server tool."""
    if entry.role == "user":
        return True
    return bool(entry.blocks) and entry.blocks[-1].kind.endswith("_tool_result")


def _string_bytes(value: object, enough: int) -> int:
    """The bytes of all strings in a JSON value: less than its body has. Stops when there are more than enough.

    A value that contains itself is counted once: what is open is not opened again.
    """
    total, opened = 0, [(0, iter((value,)))]
    open_ids: set[int] = set()
    while opened and total <= enough:
        for item in opened[-1][1]:
            if isinstance(item, str):
                total += len(item) if item.isascii() else len(item.encode("utf-8", "surrogatepass"))
            elif id(item) not in open_ids and (held := _held(item)) is not None:
                open_ids.add(id(item))
                opened.append((id(item), iter(held)))
                break
        else:
            open_ids.discard(opened.pop()[0])
    return total


def _held(item: object) -> Iterable[object] | None:
    """What a list or an object holds; None for what holds nothing."""
    if isinstance(item, (list, tuple)):
        return item
    if item is None or isinstance(item, (int, float)):
        return None
    return None if (mapping := mapping_or_none(item)) is None else mapping.values()
