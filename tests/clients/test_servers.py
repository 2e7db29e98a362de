"""The local servers: as strict as the providers, in the providers' words."""

import httpx
import pytest

from agentctx.testing.servers import chat_completions, converse, generate_content, messages, responses

CALLS = {
    "openai-chat": (
        chat_completions,
        "/v1/chat/completions",
        {"model": "gpt-4o", "messages": [{"role": "tool", "tool_call_id": "lost", "content": "found"}]},
        "must be a response to a preceeding message with 'tool_calls'",
    ),
    "openai-responses": (
        responses,
        "/v1/responses",
        {"model": "gpt-5.4", "input": [{"type": "function_call_output", "call_id": "lost", "output": "found"}]},
        "No tool call found for function call output with call_id lost.",
    ),
    "anthropic": (
        messages,
        "/v1/messages",
        {
            "model": "claude-sonnet-5-5",
            "max_tokens": 10,
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "lost", "content": "found"}]}
            ],
        },
        "unexpected `tool_use_id` found in `tool_result` blocks: lost",
    ),
    "gemini": (
        generate_content,
        "/v1beta/models/gemini-3.5-flash:generateContent",
        {"contents": []},
        "contents is not specified",
    ),
    "bedrock": (
        converse,
        "/model/us.anthropic.claude-sonnet-5-5/converse",
        {"messages": [{"role": "user", "content": [{"text": " "}]}]},
        "blank",
    ),
}


@pytest.mark.parametrize("provider", CALLS)
def test_an_illegal_request_is_refused_in_the_providers_words(serve, provider):
    """A request that breaks a rule gets status 400 and the provider's sentence, and counts as not accepted."""
    app, path, body, words = CALLS[provider]
    desk, url = serve(app)
    answer = httpx.post(f"{url}{path}", json=body)
    assert answer.status_code == 400
    assert words in answer.json().get("message", "") + str(answer.json().get("error", ""))
    assert desk.accepted == []
    assert len(desk.requests) == 1


def test_claude_needs_the_answers_length(serve):
    """A request without ``max_tokens`` is refused as Anthropic refuses it."""
    _, url = serve(messages)
    body = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "Hello."}]}
    answer = httpx.post(f"{url}/v1/messages", json=body)
    assert answer.json()["error"] == {"type": "invalid_request_error", "message": "max_tokens: Field required"}
