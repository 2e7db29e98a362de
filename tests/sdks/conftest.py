"""Each SDK is tested with nothing else installed, over HTTP, to strict servers on this machine and nowhere else."""

import os
from pathlib import Path

import pytest
import pytest_socket

from agentctx.testing.servers import Desk, serving

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported: nothing is fetched
DROPPED = "Exception ignored in. <async_generator object:pytest.PytestUnraisableExceptionWarning"

collect_ignore_glob = ["test_*.py"]
"""Unless they are named: `sh scripts/sdks` names each file in the environments that have nothing but its SDK."""


def pytest_collection_modifyitems(items):
    """Overlook what SDKs do by themselves on trio: at the end of a stream they drop generators unfinished."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings(f"ignore:{DROPPED}"))


@pytest.fixture(autouse=True)
def only_this_machine():
    """Let these tests open connections, to this machine alone."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1"], allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@pytest.fixture
def serve():
    """Serve a provider's application behind a desk until the test ends; gives the desk and the server's address."""
    running = []

    def start(app, **behaviour):
        desk = Desk(**behaviour)
        server = serving(app(desk))
        running.append(server)
        return desk, server.__enter__()

    yield start
    for server in running:
        server.__exit__(None, None, None)
