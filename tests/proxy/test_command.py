"""``agentctx proxy`` as a process: what it says, what it never says, and how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import anyio
import httpx
import pytest
from typer.testing import CliRunner

from agentctx.cli.app import app
from agentctx.testing.servers import serving

SECRET = "sk-a-secret-that-nobody-may-see"  # noqa: S105 - which is what is tested


@pytest.fixture(scope="module")
def provider_url(running):
    """A provider that streams a word, and ends when the request says so: at once, or after two seconds."""

    async def app(scope, receive, send):
        body = (await receive()).get("body", b"")
        if b"nonsense" in body:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"Incorrect API key provided"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        word = json.dumps({"choices": [{"index": 0, "delta": {"content": "word"}}]})
        await send({"type": "http.response.body", "body": f"data: {word}\n\n".encode(), "more_body": True})
        await anyio.sleep(600 if b"hang" in body else 2 if b"slowly" in body else 0)
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    return running(serving(app))


@contextmanager
def command(*options, **environment):
    """The command, with its address; ended by force if the test did not end it."""
    asked = [sys.executable, "-m", "agentctx", "proxy", "--port", "0", *options]
    env = {**os.environ, **environment}
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as process:
        try:
            said = process.stderr.readline()
            process.head = [said, *(process.stderr.readline() for _ in range(4))]
            yield process, re.search(r"http://\S+?(?=;)", said)[0]
        finally:
            process.kill()


def ask(url, text, **more):
    body = {"model": "gpt-5.4", "stream": True, "messages": [{"role": "user", "content": text}]}
    headers = {"authorization": f"Bearer {SECRET}", **more}
    return httpx.stream("POST", f"{url}/v1/chat/completions", json=body, headers=headers, timeout=120)


def test_it_ends_in_order_and_never_says_a_key(provider_url):
    """It says what to set; told to stop, it lets a stream finish; no key is in what it writes, measures or answers."""
    options = ("--window", "32k", "--upstream", provider_url, "--upstream", "gemini=http://127.0.0.1:9")
    with command(*options, PYTHONUNBUFFERED="1") as (process, url):
        assert f"  OPENAI_BASE_URL={url}/v1\n" in process.head
        assert f"  ANTHROPIC_BASE_URL={url}\n" in process.head
        assert httpx.get(f"{url}/healthz").text == "ok\n"
        with ask(url, "nonsense") as answer:
            assert (answer.status_code, answer.read()) == (401, b"Incorrect API key provided")
        lost = f"{url}/v1beta/models/gemini-2.5-flash:generateContent?key={SECRET}"
        not_there = httpx.post(lost, json={"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]})
        unread = httpx.post(
            lost, json={"contents": [{"role": SECRET, "parts": 3}]}, headers={"x-agentctx-session": "s"}
        )
        assert (not_there.status_code, unread.status_code) == (502, 502)
        measured = httpx.get(f"{url}/metrics").text
        assert 'agentctx_proxy_requests_total{outcome="unchanged"} 2.0' in measured
        with ask(url, "slowly") as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            process.send_signal(signal.SIGTERM)
            rest = b"".join(pieces)
        out, err = process.communicate(timeout=120)
    assert (b"word" in first, rest) == (True, b"data: [DONE]\n\n")
    assert ("Traceback" in err, process.returncode) == (False, 0)
    written = f"{out}{err}{measured}{not_there.text}{unread.text}"
    assert SECRET not in written
    assert "127.0.0.1:9: ConnectError" in err


def test_a_stream_that_outlasts_the_grace_is_broken_off(provider_url):
    """Told to stop, it waits for a stream no longer than the grace; the client sees a broken stream, nothing else."""
    with command("--window", "32k", "--upstream", provider_url, "--grace", "1") as (process, url):
        with ask(url, "hang") as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            process.terminate()
            with pytest.raises(httpx.RemoteProtocolError):
                next(pieces)
        _, err = process.communicate(timeout=120)
    assert (b"word" in first, "Traceback" in err) == (True, False)


def test_as_many_connections_as_said_are_served(provider_url):
    """One connection is one; the next is told in the provider's words, also with a large body, and served later."""
    with command("--window", "32k", "--upstream", provider_url, "--max-connections", "1") as (_, url):
        with ask(url, "slowly"):
            body = {"model": "claude-sonnet-5-5", "messages": [{"role": "user", "content": "a" * 3_000_000}]}
            refused = httpx.post(f"{url}/v1/messages", json=body)
        later, until = b"too many requests", time.monotonic() + 60
        while b"too many requests" in later and time.monotonic() < until:  # until it has seen that the first one left
            with ask(url, "go") as answer:
                later = answer.read()
        assert b"[DONE]" in later
    said = refused.json()["error"]
    assert (refused.status_code, said["type"]) == (503, "overloaded_error")
    assert said["message"].startswith("agentctx proxy: too many requests are under way (--max-connections is 1)")


def test_it_is_not_its_own_provider(capsys):
    """An upstream at which the proxy itself listens is refused at the start, whichever way its address is written."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for host, upstream in (("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1")):  # noqa: S104 - refused
        options = ["--host", host, "--port", str(port), "--upstream", f"openai=http://{upstream}:{port}/v1"]
        result = CliRunner().invoke(app, ["proxy", *options])
        assert (result.exit_code, "is where the proxy itself listens" in " ".join(result.stderr.split())) == (2, True)


def test_several_workers_serve(provider_url, tmp_path):
    """With a store several processes serve one address, count together, and end together."""
    options = ("--workers", "2", "--store", str(tmp_path / "proxy.db"), "--window", "32k", "--upstream", provider_url)
    with command(*options) as (process, url):
        for number in range(4):
            with ask(url, f"go {number}") as answer:
                assert b"[DONE]" in answer.read()
        measured = httpx.get(f"{url}/metrics").text
        process.terminate()
        _, err = process.communicate(timeout=120)
    assert 'agentctx_proxy_requests_total{outcome="unchanged"} 4.0' in measured
    assert (process.returncode, err) == (0, "")
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--upstream", "nowhere"), "--upstream: 'nowhere' is not PROVIDER=URL or URL"),
        (("--upstream", "openai=ftp://x"), "is no address such as https://api.openai.com"),
        (("--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        (("--pipeline", "nothing"), "must be MODULE:NAME"),
        (("--workers", "2"), "pass --store PATH_OR_URL"),
        (("--max-body", "much"), "--max-body: 'much' is not"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options, said, capsys):
    """An option that makes no sense is one clear sentence, and nothing listens."""
    result = CliRunner().invoke(app, ["proxy", *options])
    assert (result.exit_code, said in " ".join(result.stderr.split())) == (2, True)
