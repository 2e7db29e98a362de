"""Many conversations at once, and the proxy as a process of its own: keys, memory, an orderly end."""

import json
import re

import anyio
import pytest
from conftest import pipeline, proxying
from talks import TASK, chat, rounds

from agentctx.proxy import Proxy, Upstreams
from agentctx.stores import SQLiteStore
from agentctx.testing.servers import serving

STEPS = 3


@pytest.fixture(scope="module")
def provider_url(running):
    """A provider that answers with the canaries that it was shown, the first one after a moment."""

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        seen = sorted({each.decode() for each in re.findall(rb"canary-\d+", body)})
        said = json.dumps({"choices": [{"index": 0, "delta": {"content": " ".join(seen) or "none"}}]})
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": f"data: {said}\n\n".encode(), "more_body": True})
        await anyio.sleep(300 if b"linger" in body else 0.01)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    return running(serving(app))


async def post(port, body, key):
    """The bytes of an answer, by the shortest way: a client library would take most of the time."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {key}"
        )
        await stream.send(f"{head}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        return b"".join([piece async for piece in stream])


async def talk(port, number, mixed, turns):
    """One conversation of the same task: its canary comes with the first result."""
    messages, canary = [{"role": "user", "content": TASK}], f"canary-{number}"
    for step in range(STEPS):
        body = json.dumps({"model": "gpt-5.4", "stream": True, "messages": messages}).encode()
        async with turns:
            said = await post(port, body, f"sk-{number % 2}")
        if set(re.findall(rb"canary-\d+", said)) - {canary.encode()} or b"[DONE]" not in said:
            mixed.append((number, step, said))
        output = "What the tool says. " * (10 if number % 10 else 200)  # of which some must be cut
        messages += [
            {"role": "assistant", "content": f"Step {step} of {canary}."},
            {"role": "user", "content": f"{canary}: {step}. {output}"},
        ]


@pytest.mark.anyio
async def test_two_hundred_conversations_at_once_are_not_mixed_up(provider_url):
    """Of 200 conversations that begin with the same words none is ever shown another's, and each keeps its session."""
    mixed, proxy = [], Proxy(pipeline(), Upstreams(everything=provider_url))
    turns = anyio.Semaphore(100)
    with proxying(proxy) as url:
        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(talk, int(url.rpartition(":")[2]), number, mixed, turns)
    assert mixed == []
    sessions = next(iter(proxy.known._sessions.values()))
    assert len(sessions) == 200
    assert min(each.steps for each in sessions.values()) >= STEPS - 1


def test_two_workers_serve_one_conversation(provider, tmp_path):
    """Asked in turns, two workers with one store send what one proxy would send; no key is in the store."""
    at = provider("openai")
    places = [SQLiteStore(tmp_path / "proxy.db") for _ in range(2)]
    workers = [Proxy(pipeline(), Upstreams(everything=at.address), store=place) for place in places]
    with proxying(workers[0]) as first, proxying(workers[1]) as second:
        for number in range(8, 18):
            for url in (at.url, (first, second)[number % 2]):
                chat(url, rounds(number, "shared"), stream=True, key="sk-a-key-that-is-nowhere")
    alone, together = at.desk.accepted[::2], at.desk.accepted[1::2]
    assert together == alone
    assert len({name for worker in workers for each in worker.known._sessions.values() for name in each}) == 1
    assert b"sk-a-key-that-is-nowhere" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())
