"""Rules of Converse about signed reasoning: those of Anthropic's Messages API, whose words Bedrock passes on.

The request is laid out as the Messages API would see it, and its rules are asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import evolve

from agentctx.core.violation import Violation
from agentctx.wire.anthropic import request as anthropic_request
from agentctx.wire.anthropic import rules_before as anthropic_rules_before
from agentctx.wire.anthropic import rules_thinking as anthropic_rules_thinking
from agentctx.wire.bedrock.read import as_text
from agentctx.wire.bedrock.request import NOTHING, BlockAt, Entry, Request
from agentctx.wire.native import fields_or_none

_RULES = {
    "anth.thinking_modified": "br.reasoning_modified",
    "anth.signature_invalid": "br.reasoning_signature",
    "anth.thinking_bound": "br.reasoning_bound",
    "anth.thinking_missing": "br.reasoning_missing",
    "anth.signature_missing": "br.reasoning_unsigned",
    "anth.encrypted_modified": "br.encrypted_modified",
}
_PLACE = re.compile(r"messages\.(\d+)\.content\.(\d+)")


def reasoning(request: Request, before: Request | None) -> Iterator[Violation]:
    """Reasoning leads an open tool round, is signed, and says what it said when it was signed."""
    laid = _as_anthropic(request)
    found: list[Violation] = []
    if request.family == "claude":
        found.extend(anthropic_rules_thinking.leads_round(laid))
        found.extend(anthropic_rules_thinking.signatures(laid))
    if before is not None:
        original = _as_anthropic(before)
        for compare in anthropic_rules_before.RULES:
            found.extend(compare(laid, original))
    yield from (_renamed(violation, request) for violation in found)


def _renamed(violation: Violation, request: Request) -> Violation:
    """The violation under our name for the rule, at the place in this request."""

    def place(found: re.Match[str]) -> str:
        kept = _kept(request.entries[int(found[1])])
        return kept[int(found[2])].path

    rule = _RULES.get(violation.rule, violation.rule.replace("anth.", "br."))
    return evolve(
        violation, rule=rule, path=_PLACE.sub(place, violation.path), message=_PLACE.sub(place, violation.message)
    )


def _as_anthropic(request: Request) -> anthropic_request.Request:
    messages = [{"role": entry.role, "content": [_block(block) for block in _kept(entry)]} for entry in request.entries]
    extra = fields_or_none(request.data.get("additionalModelRequestFields")) or NOTHING
    data = {
        "model": request.model,
        "messages": messages,
        "system": [_block(block) for block in request.system if block.kind != "cachePoint"],
        "tools": [_tool(tool) for tool in request.tools or () if "cachePoint" not in tool],
        "thinking": extra.get("thinking"),
    }
    return anthropic_request.lay_out(data, request.profile)


def _kept(entry: Entry) -> list[BlockAt]:
    """The blocks without cache points, which in the Messages API are a mark on the block before."""
    return [block for block in entry.blocks if block.kind != "cachePoint"]


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    spec = fields_or_none(tool.get("toolSpec")) or tool
    return {"name": spec.get("name"), "description": spec.get("description"), "input_schema": spec.get("inputSchema")}


def _block(block: BlockAt) -> dict[str, Any]:
    held = block.held
    if block.kind == "text":
        return {"type": "text", "text": block.text or ""}
    if block.kind == "toolUse":
        return {"type": "tool_use", "id": held.get("toolUseId"), "name": held.get("name"), "input": held.get("input")}
    if block.kind == "toolResult":
        inner = [_block(each) for each in block.inner]
        return {"type": "tool_result", "tool_use_id": held.get("toolUseId"), "content": inner}
    if block.kind == "reasoningContent":
        said = fields_or_none(held.get("reasoningText"))
        if said is not None:
            return {"type": "thinking", "thinking": said.get("text"), "signature": said.get("signature")}
        return {"type": "redacted_thinking", "data": as_text(held.get("redactedContent"))}
    return {"type": block.kind, "held": block.data.get(block.kind)}
