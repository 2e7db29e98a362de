"""The public surface is a list, and importing it is cheap."""

from __future__ import annotations

import subprocess
import sys

import agentctx


def test_every_public_name_is_there():
    """Each name in the list can be had, and each is listed once."""
    assert all(getattr(agentctx, name) is not None for name in agentctx.__all__)
    assert sorted(set(agentctx.__all__)) == sorted(agentctx.__all__)


def test_the_list_and_the_homes_agree():
    """Every public name has a home, and every home is public."""
    assert set(agentctx.__all__) - {"__version__"} == set(agentctx._HOME_OF)


def test_an_unknown_name_is_an_attribute_error():
    """A name that is not public is not found."""
    assert not hasattr(agentctx, "no_such_name")


def test_importing_loads_no_tokenizer_and_no_sdk():
    """Using every public name loads neither tiktoken nor a provider's SDK nor a socket."""
    code = (
        "import sys; from agentctx import *; "
        "print([m for m in ('tiktoken', 'regex', 'openai', 'anthropic', 'httpx', 'rich', 'trio') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
