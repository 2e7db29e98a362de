"""Wrapped clients are tested with the real SDKs over HTTP, to servers on this machine and nowhere else."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pytest_socket
from both_kinds import now

from agentctx.testing.servers import Desk, serving

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported: nothing is fetched
DROPPED = "Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"


def pytest_collection_modifyitems(items):
    """Overlook what OpenAI's SDK does by itself on trio: at the end of a stream it drops generators unfinished."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{DROPPED}"))


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """Collect what a file's tests dropped while its complaints are overlooked, and not in another folder's test.

    What is there before is not looked through again each time that garbage is collected.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def only_this_machine():
    """Let these tests open connections, to this machine alone."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@pytest.fixture(scope="module")
def ending():
    """End a server while the next tests run, before the module ends: uvicorn takes more than a tenth of a second."""
    with ThreadPoolExecutor() as threads:
        ended = []
        yield lambda server: ended.append(threads.submit(server.__exit__, None, None, None))
    for each in ended:
        each.result()


@pytest.fixture
def serve(ending):
    """Serve a provider's application behind a desk until the test ends; gives the desk and the server's address."""
    running = []

    def start(app, **behaviour):
        desk = Desk(**behaviour)
        server = serving(app(desk))
        running.append(server)
        return desk, server.__enter__()

    yield start
    for server in running:
        ending(server)


@pytest.fixture
async def closing(anyio_backend):
    """Close the clients of either kind that a test hands over when it ends; gives each back as it came."""
    kept = []

    def keep(client):
        kept.append(client)
        return client

    yield keep
    for client in kept:
        await now(client.close())
