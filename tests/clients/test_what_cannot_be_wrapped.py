"""What ``wrap`` refuses, and why."""

from __future__ import annotations

import pytest

import agentctx
from agentctx import ConfigError, Pipeline


def test_what_is_no_client_is_named():
    """An object that is no known client is an error that names its class."""
    with pytest.raises(ConfigError, match=r"builtins\.dict"):
        agentctx.wrap({}, Pipeline())


def test_request_options_cannot_be_wrapped():
    """A pipeline that leaves reasoning to the provider needs request options: wrapping says so at once."""
    with pytest.raises(ConfigError, match="drop_block"):
        agentctx.wrap({}, Pipeline(thinking="drop_block"))
