"""What a provider's server put into a conversation is never split, never edited, and counted."""

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    Pipeline,
    TrimRounds,
    TruncateToolOutputs,
    count,
    validate,
)

STAGES = {
    "TrimRounds": TrimRounds(2),
    "ClearToolResults": ClearToolResults(keep_last=1),
    "TruncateToolOutputs": TruncateToolOutputs(max_tokens=20),
    "FitContextWindow": FitContextWindow(Budget(900)),
    "all": Pipeline(TruncateToolOutputs(max_tokens=20), ClearToolResults(keep_last=1), TrimRounds(1)),
}
LONG = "a long passage of a page " * 20


def search(number):
    """Anthropic: a search of the server's, cited in the answer."""
    page = {"type": "web_search_result", "url": "https://a.example", "title": "a", "encrypted_content": f"RW5j{number}"}
    cited = {"type": "web_search_result_location", "url": "https://a.example", "title": "a", "cited_text": LONG}
    return [
        {"type": "server_tool_use", "id": f"srvtoolu_{number}", "name": "web_search", "input": {"query": LONG}},
        {"type": "web_search_tool_result", "tool_use_id": f"srvtoolu_{number}", "content": [page]},
        {"type": "text", "text": "found", "citations": [{**cited, "encrypted_index": f"SW5k{number}"}]},
    ]


def remote(number):
    """Anthropic: a tool of an MCP server."""
    call = {"type": "mcp_tool_use", "id": f"mcptoolu_{number}", "name": "f", "server_name": "s", "input": {"q": LONG}}
    content = [{"type": "text", "text": LONG}]
    result = {"type": "mcp_tool_result", "tool_use_id": f"mcptoolu_{number}", "is_error": False, "content": content}
    return [call, result, {"type": "text", "text": "done"}]


def anthropic():
    """A history with a compaction, searches, remote tools, and calls of the caller's own."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "compaction", "content": LONG}, {"type": "text", "text": "so far"}]},
    ]
    for number in range(4):
        own = {"type": "tool_use", "id": f"toolu_{number}", "name": "f", "input": {}}
        blocks = [*(search(number) if number % 2 else remote(number)), own]
        answer = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": LONG}
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [answer]}]
    return [*messages, {"role": "assistant", "content": "done"}, {"role": "user", "content": "and now?"}]


def responses():
    """A history with a compaction item, searches, remote tools and reasoning of the Responses API."""
    items = [{"role": "user", "content": "go"}, {"type": "compaction", "id": "cmp", "encrypted_content": "Q29t" * 90}]
    for number in range(4):
        name = {"id": f"x_{number}", "status": "completed"}
        server = (
            {"type": "web_search_call", **name, "action": {"type": "search", "query": LONG}}
            if number % 2
            else {"type": "mcp_call", **name, "server_label": "s", "name": "f", "arguments": "{}", "output": LONG}
        )
        items += [
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"RW5j{number}"},
            server,
            {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{number}", "output": LONG},
        ]
    said = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x", "annotations": []}],
    }
    return [*items, said, {"role": "user", "content": "and now?"}]


HISTORIES = {"anthropic": ("messages", anthropic()), "openai-responses": ("input", responses())}


def blocks_of(natives):
    """All blocks, or items, of a history."""
    for native in natives:
        content = native.get("content")
        yield from content if isinstance(content, list) and "type" not in native else [native]


def by_server(native):
    """Whether the provider's server made it."""
    kind = native.get("type", "")
    own = {"tool_use", "tool_result", "text", "message", "function_call", "function_call_output", ""}
    return kind not in own or "citations" in native


@pytest.mark.anyio
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("format_name", HISTORIES)
async def test_what_the_server_made_is_kept_whole_or_dropped(preparing, format_name, stage):
    """A block of the server's is in the view as the caller's own object or not at all, and nothing is split."""
    key, messages = HISTORIES[format_name]
    budget = (
        None if isinstance(stage, ClearToolResults) else Budget(100_000, trigger=0.001)
    )  # which clears what must go
    view = await preparing(Pipeline(stage, budget=budget), format_name)(messages)
    assert view.report.changes
    given = {id(block) for block in blocks_of(messages)}
    assert all(id(block) in given for block in blocks_of(view.messages) if by_server(block))
    before = {key: messages}
    broken = validate({key: view.messages}, format=format_name, before=before)
    assert not [str(found) for found in broken if found.severity == "error"]


def alone():
    """Each block of the server's, as a message with it and the message without.

    Of a cited text the text is counted: Anthropic's page on citations says that what they cite costs no tokens when
    it is passed back.
    """
    for block in filter(by_server, blocks_of(anthropic())):
        with_it, without = {"role": "assistant", "content": [block]}, {"role": "assistant", "content": []}
        least = 1 if block["type"] == "text" else 5
        yield pytest.param("anthropic", [with_it], [without], least, id=f"anthropic-{block['type']}")
    for item in filter(by_server, responses()):
        if item["type"] != "reasoning":
            more = [item, {"role": "user", "content": "x"}]
            yield pytest.param("openai-responses", more, more[1:], 5, id=f"responses-{item['type']}-{item['id']}")


@pytest.mark.parametrize(("format_name", "with_it", "without", "least"), [*alone()])
def test_what_the_server_made_is_counted(format_name, with_it, without, least):
    """A block of the server's is never free."""
    assert count(with_it, format=format_name) >= count(without, format=format_name) + least


@pytest.mark.anyio
async def test_options_of_the_server_do_not_hinder():
    """A request that asks the server to edit its context is judged, and its messages are prepared like any other's."""
    edits = {"edits": [{"type": "clear_tool_uses_20250919"}, {"type": "compact_20260112"}]}
    request = {"model": "claude-opus-4-8", "messages": anthropic(), "context_management": edits}
    assert not [found for found in validate(request, format="anthropic") if found.severity == "error"]
    items = {"input": responses(), "context_management": [{"type": "compaction", "compact_threshold": 1_000}]}
    assert not validate(items, format="openai-responses")
