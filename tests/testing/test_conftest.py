"""What every test can ask for."""

import socket
import sys

import anyio.lowlevel
import pytest
import pytest_socket
from hypothesis import settings


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_both_event_loops_run(anyio_backend_name):
    """An async test runs on the loop that its name says."""
    with anyio.fail_after(60):
        await anyio.lowlevel.checkpoint()
    assert anyio_backend_name in sys.modules


def test_the_network_is_refused():
    """No test can open an internet socket: pytest-socket warns, and then it raises."""
    with (
        pytest.warns(UserWarning, match="tried to use socket"),
        pytest.raises(pytest_socket.SocketBlockedError),
    ):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def test_examples_have_no_deadline():
    """A slow machine fails no property."""
    assert settings().deadline is None


def test_shared_is_a_folder_or_nothing(shared):
    """The shared recordings are beside the repository, or they are None."""
    assert shared is None or shared.joinpath("transcripts").is_dir()
