"""The proxy is tested over real HTTP: real SDKs, a real proxy, and the local servers that stand for the providers."""

import os
from contextlib import contextmanager
from threading import Thread
from time import sleep
from types import SimpleNamespace

import pytest
import pytest_socket
import uvicorn
from talks import OPEN, made

import agentctx
from agentctx.proxy import Proxy, Upstreams
from agentctx.proxy.server import Listening, address_of, bound, settings
from agentctx.testing.servers import (
    Desk,
    Said,
    chat_completions,
    converse,
    generate_content,
    messages,
    responses,
    serving,
)

WINDOW = 1_600
SPOKEN = Said("One word after another.")

PROVIDERS = {
    "openai": chat_completions,
    "responses": responses,
    "anthropic": messages,
    "gemini": generate_content,
    "bedrock": converse,
}


@pytest.fixture(autouse=True)
def only_this_machine():
    """Let these tests open connections, to this machine alone."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@contextmanager
def proxying(proxy):
    """Serve a proxy in a thread, as its command does it."""
    listening = Listening(port=0, grace=1)
    with bound(listening) as listener:
        server = uvicorn.Server(settings(proxy, listening))
        thread = Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            sleep(0.005)
        yield address_of(listener)
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def running():
    """Start servers that end with the module: ``running(serving(app))`` gives an address."""
    pytest_socket.enable_socket()
    servers = []

    def start(server):
        servers.append(server)
        return server.__enter__()

    yield start
    pytest_socket.enable_socket()
    made.cache_clear()
    while OPEN:
        OPEN.pop().close()
    for server in reversed(servers):
        server.__exit__(None, None, None)


def pipeline(window=WINDOW):
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window))


@pytest.fixture(scope="module")
def aws():
    """Credentials of the proxy's machine, which are not the client's."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "AKIAPROXY")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "the proxy's")
        yield


@pytest.fixture(scope="module")
def provider(running, aws):
    """For each provider its desk, its address, and a proxy before it; made once a module, emptied for each test."""
    made = {}

    def get(name, **behaviour):
        if name not in made:
            desk = Desk()
            address = running(serving(PROVIDERS[name](desk)))
            proxy = Proxy(pipeline(), Upstreams(everything=address), sign_aws=name == "bedrock")
            made[name] = SimpleNamespace(desk=desk, address=address, proxy=proxy, url=running(proxying(proxy)))
        found = made[name]
        fresh = {"window": 1_000_000, "answer": lambda _body: SPOKEN, "refuses": "status", "overflows": 0, "pause": 0.0}
        for key, value in {**fresh, **behaviour}.items():
            setattr(found.desk, key, value)
        found.desk.requests.clear()
        found.desk.accepted.clear()
        return found

    return get


os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
