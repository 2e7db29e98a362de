"""Rules of Converse about tools: pairs, ids, inputs, ``toolConfig``.

Source: https://docs.aws.amazon.com/bedrock/latest/userguide/tool-use.html and the service model in botocore; error
texts as captured from the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from agentctx.core.violation import Violation
from agentctx.wire.bedrock.mend import ID, NAME
from agentctx.wire.bedrock.place import REFUSES_MIXED
from agentctx.wire.bedrock.request import NOTHING, BlockAt, Request, refused
from agentctx.wire.native import fields_or_none

_CHOICES = ("auto", "any", "tool")


def unanswered(request: Request) -> Iterator[Violation]:
    """Each ``toolUse`` is answered in the next user turn."""
    for turn, after in pairwise((*request.turns, None)):
        if turn is None or turn.role != "assistant":
            continue
        given = set() if after is None else {block.call for block in after.of_kind("toolResult")}
        if missing := [block.call or "" for block in turn.of_kind("toolUse") if block.call not in given]:
            last = turn.entries[-1]
            text = (
                f"Expected toolResult blocks at messages.{last.index + 1}.content for the following Ids: "
                f"{', '.join(missing)}"
            )
            yield refused("tool_use_unanswered", last, text)


def excess(request: Request) -> Iterator[Violation]:
    """A user turn has no more results than the turn before it has calls."""
    for before, turn in pairwise((None, *request.turns)):
        if turn is None or turn.role != "user":
            continue
        asked = 0 if before is None else len(before.of_kind("toolUse"))
        answers = turn.of_kind("toolResult")
        if len(answers) > asked:
            at = answers[asked]
            text = (
                f"The number of toolResult blocks at messages.{at.message}.content exceeds the number of toolUse "
                "blocks of previous turn."
            )
            yield refused("tool_result_excess", at, text, f"messages.{at.message}.content")


def unique_calls(request: Request) -> Iterator[Violation]:
    """The ids of all calls differ; only Claude is known to insist on it."""
    seen: set[str] = set()
    for block in request.blocks:
        if block.kind != "toolUse" or block.call is None:
            continue
        if block.call in seen:
            text = f"{block.path}: `tool_use` ids must be unique"
            yield refused("tool_use_dup", block, text, severity="error" if request.family == "claude" else "warn")
        seen.add(block.call)


def results_first(request: Request) -> Iterator[Violation]:
    """In a user message results stand before everything else; Claude may miss them otherwise."""
    for entry in request.entries:
        others = False
        for block in entry.blocks:
            if block.call is not None and block.kind == "toolResult" and others:
                text = f"{block.path}: toolResult blocks must come first in the content"
                yield refused("tool_result_late", block, text, severity="warn")
                break
            others = others or block.kind not in {"toolResult", "cachePoint"}


def mixed(request: Request) -> Iterator[Violation]:
    """Some models refuse results and anything else in one turn; Claude and Nova take them."""
    if request.family in {"claude", "nova"}:
        return
    for entry in request.entries:
        others = [block for block in entry.blocks if block.kind not in {"toolResult", "cachePoint"}]
        if others and entry.role == "user" and any(block.kind == "toolResult" for block in entry.blocks):
            text = (
                f"{entry.path}.content: Conversation blocks and tool result blocks cannot be provided in the same turn."
            )
            sure = REFUSES_MIXED.search(request.family)
            yield refused("mixed_result_turn", entry, text, f"{entry.path}.content", "error" if sure else "warn")


def sides(request: Request) -> Iterator[Violation]:
    """Calls are the assistant's, results the user's."""
    for block in request.blocks:
        owner = {"toolUse": "assistant", "toolResult": "user"}.get(block.kind)
        if owner is not None and block.call is not None and block.role != owner:
            text = f"{block.path}: {block.kind} blocks can only be in {owner} messages"
            yield refused("tool_role", block, text)


def ids(request: Request) -> Iterator[Violation]:
    """Ids and names are there, and consist of the characters that they may have. An id is named where it is first."""
    seen: set[str] = set()
    for block in request.blocks:
        if block.kind not in {"toolUse", "toolResult"}:
            continue
        if str(block.held.get("toolUseId")) not in seen:
            yield from _spelled(block, "toolUseId", "id_pattern", ID)
        seen.add(str(block.held.get("toolUseId")))
        if block.kind == "toolUse":
            yield from _spelled(block, "name", "name_pattern", NAME)


def inputs(request: Request) -> Iterator[Violation]:
    """The input of a call is an object, the content of a result a list, which some models want to hold something."""
    for block in request.blocks:
        if block.kind == "toolUse" and fields_or_none(block.held.get("input")) is None:
            path = f"{block.path}.toolUse.input"
            text = f"The format of the value at {path} is invalid. Provide a json object for the field and try again."
            yield refused("input_object", block, text, path)
        if block.kind == "toolResult":
            path, given = f"{block.path}.toolResult.content", block.held.get("content")
            if not isinstance(given, (list, tuple)):
                text = f"Invalid type for parameter {path}, valid types: list, tuple"
                yield refused("result_content", block, text, path)
            elif not given:
                text = f"The content field in the ToolResultBlock object at {path} is empty."
                yield refused("result_empty", block, text, path, "warn")


def config_there(request: Request) -> Iterator[Violation]:
    """While a tool block remains there is a ``toolConfig``. A request that names no model is a part of one."""
    used = next((block for block in request.blocks if block.kind in {"toolUse", "toolResult"}), None)
    if used is not None and request.tools is None and ("modelId" in request.data or "model" in request.data):
        text = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        yield refused("toolconfig_missing", used, text, "toolConfig")


def config(request: Request) -> Iterator[Violation]:
    """``toolConfig`` lists a tool, and its choice is one of them."""
    given = fields_or_none(request.data.get("toolConfig"))
    if given is None:
        return
    tools = request.tools
    if not tools:
        text = "Invalid length for parameter toolConfig.tools, value: 0, valid min length: 1"
        yield refused("tools_empty", None, text, "toolConfig.tools")
    choice = fields_or_none(given.get("toolChoice"))
    if choice is None:
        return
    kinds = [key for key, held in choice.items() if held is not None]
    if len(kinds) != 1 or kinds[0] not in _CHOICES:
        text = "Invalid number of parameters set for tagged union structure toolConfig.toolChoice: auto, any, tool"
        yield refused("tool_choice", None, text, "toolConfig.toolChoice")
        return
    wanted = (fields_or_none(choice.get("tool")) or NOTHING).get("name")
    names = [(fields_or_none(tool.get("toolSpec")) or NOTHING).get("name") for tool in tools or ()]
    if "tool" in choice and wanted not in names:
        text = f"The provided toolChoice names the tool {wanted!r}, which toolConfig.tools does not define."
        yield refused("tool_choice", None, text, "toolConfig.toolChoice.tool.name")


RULES = (
    unanswered,
    excess,
    unique_calls,
    results_first,
    mixed,
    sides,
    ids,
    inputs,
    config_there,
    config,
)


def _spelled(block: BlockAt, key: str, rule: str, pattern: re.Pattern[str]) -> Iterator[Violation]:
    path = f"{block.path}.{block.kind}.{key}"
    found = block.held.get(key)
    if not isinstance(found, str):
        text = f'Missing required parameter in {block.path}.{block.kind}: "{key}"'
        yield refused(f"{rule.partition('_')[0]}_missing", block, text, path)
    elif not pattern.fullmatch(found):
        text = (
            f"Value '{found}' at '{path}' failed to satisfy constraint: Member must satisfy regular expression "
            f"pattern: {pattern.pattern}"
        )
        yield refused(rule, block, text, path)
