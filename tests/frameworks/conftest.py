"""Each framework is tested as it is installed, over HTTP, to strict servers on this machine and nowhere else."""

import os
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_socket

from agentctx.testing.servers import Desk, serving

os.environ.update(LANGSMITH_TRACING="false", OPENAI_AGENTS_DISABLE_TRACING="1", PYTHON_DOTENV_DISABLED="1")
TABLE = tomllib.loads((Path(__file__).parent / "environments.toml").read_text(encoding="utf-8"))


def is_there(module):
    """Whether a module can be imported, without importing more than the packages around it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


collect_ignore = [name for each in TABLE.values() for name, module in each["tests"].items() if not is_there(module)]
"""Unless they are named: `sh scripts/frameworks` names each file, and runs it come what may."""


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

    def start(app, desk=None, **behaviour):
        desk = Desk(**behaviour) if desk is None else desk
        server = serving(app(desk))
        running.append(server)
        return desk, server.__enter__()

    yield start
    for server in running:
        server.__exit__(None, None, None)


MEASURED = []


@pytest.fixture
def measured():
    """Say at the end of the run what a framework's calls took: nothing is held to it, machines differ."""
    return MEASURED.append


def pytest_terminal_summary(terminalreporter):
    """Say what was measured."""
    for line in MEASURED:
        terminalreporter.write_line(line)
