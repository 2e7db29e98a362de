"""The requests of coding agents: bodies as Claude Code and Codex send them, several agents' at once."""

import gzip
import json
from itertools import count, pairwise

import httpx
import pytest
from conftest import proxying

from agentctx import Budget
from agentctx.presets import coding_agent
from agentctx.proxy import Proxy, Upstreams
from agentctx.testing.servers import Desk, messages, responses, serving

CALLS = 16
WINDOW = 24_000


def claude_code(said, number, system="You are Claude Code, Anthropic's official CLI for Claude."):
    """A request as Claude Code sends it: cache markers on the prompt and on the last message, which move."""
    *before, last = said
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    marked = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return {
        "model": "claude-sonnet-5-5",
        "system": [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
        "messages": [*before, {**last, "content": marked}],
        "max_tokens": 2_000,
        "metadata": {"user_id": f"user_{number}"},
        "stream": True,
    }


def codex(said, number, system="You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI."):
    """A request as Codex sends it: nothing kept by the provider, reasoning in ciphers."""
    return {
        "model": "gpt-5.5",
        "instructions": system,
        "input": said,
        "tools": [],
        "store": False,
        "stream": True,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": f"thread-{number}",
    }


def own_claude_code(number):
    """A small recording of our own: a tool is called at every step, with numbers that differ."""
    said = [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>Today.</system-reminder>"}]}]
    said[0]["content"].append({"type": "text", "text": "Fix the failing test."})
    for step in range(CALLS + 1):
        call = {
            "type": "tool_use",
            "id": f"toolu_{number}_{step}",
            "name": "Bash",
            "input": {"command": f"make {step}"},
        }
        output = "\n".join(f"canary-{number} line {place} of {step}: all is well" for place in range(200))
        said.append({"role": "assistant", "content": [{"type": "text", "text": "I look."}, call]})
        said.append(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": output}]}
        )
    return said


def own_codex(number):
    """The same as Codex writes it."""
    said = [
        {
            "type": "message",
            "role": "developer",
            "content": [{"type": "input_text", "text": "<permissions>All.</permissions>"}],
        },
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context/>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the failing test."}]},
    ]
    for step in range(CALLS + 1):
        output = "\n".join(f"canary-{number} line {place} of {step}: all is well" for place in range(200))
        name = {"name": "shell", "arguments": json.dumps({"command": ["make", str(step)]})}
        said.append({"type": "function_call", "call_id": f"call_{number}_{step}", **name})
        said.append({"type": "function_call_output", "call_id": f"call_{number}_{step}", "output": output})
    return said


def recorded(folder, name, longest):
    """The two first recordings of a file that are not too long for a test."""
    with gzip.open(folder / "transcripts" / f"{name}.jsonl.gz") as lines:
        fitting = (json.loads(line) for line in lines if 60_000 < len(line) < longest)
        return [[_without_status(item) for item in next(fitting)["messages"]] for _ in range(2)]


def _without_status(item):
    """An item without what the local server, stricter than the provider, does not know."""
    return {key: value for key, value in item.items() if key != "status"}


def calls_of(said):
    """Where the model was called at the end: what comes next is its own; not too many."""
    ends = [
        place for place in range(1, len(said)) if _is_the_models(said[place]) and not _is_the_models(said[place - 1])
    ]
    return ends[-CALLS:]


def _is_the_models(item):
    return item.get("role") == "assistant" or item.get("type") in {"function_call", "custom_tool_call", "reasoning"}


AGENTS = {
    "claude code": (messages, "/v1/messages", claude_code, own_claude_code, ("coding-anthropic", 100_000), "messages"),
    "codex": (responses, "/v1/responses", codex, own_codex, ("codex-responses", 130_000), "input"),
}


@pytest.mark.parametrize("which", ["our own", "recorded"])
@pytest.mark.parametrize("agent", AGENTS)
def test_coding_agents_get_through_a_small_window(agent, which, running, shared):
    """Of two agents with one key each request is legal and fits, and begins as the one before; they are never mixed."""
    app, path, request, own, file, key = AGENTS[agent]
    if which == "recorded" and shared is None:
        pytest.skip("no shared recordings here")
    talks = [own(0), own(1)] if which == "our own" else recorded(shared, *file)
    desk = Desk(window=WINDOW)
    proxy = Proxy(coding_agent(Budget(WINDOW, 4_000)), Upstreams(everything=running(serving(app(desk)))))
    sent, turn = {0: [], 1: []}, count()
    with proxying(proxy) as url, httpx.Client(timeout=30) as client:
        for ends in zip(*map(calls_of, talks), strict=False):
            for number, end in enumerate(ends):
                body = request(talks[number][:end], number)
                answer = client.post(f"{url}{path}", json=body, headers={"x-api-key": "sk-one"})
                assert answer.status_code == 200, (next(turn), answer.text)
                sent[number].append(desk.accepted[-1][key])
    assert len(desk.accepted) == len(desk.requests) == sum(map(len, sent.values()))
    assert len(next(iter(proxy.known._sessions.values()))) == 2
    for number, each in sent.items():
        assert f"canary-{1 - number} " not in json.dumps(each)
        stays = [_unmarked(after)[: len(before)] == _unmarked(before) for before, after in pairwise(each)]
        assert sum(stays) >= len(stays) * 0.8
    assert len(json.dumps(sent[0][-1])) < len(json.dumps(talks[0][: calls_of(talks[0])[-1]]))


def _unmarked(said):
    return json.loads(json.dumps(said).replace(', "cache_control": {"type": "ephemeral"}', ""))
