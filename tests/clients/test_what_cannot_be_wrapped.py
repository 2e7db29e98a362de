"""What ``wrap`` refuses, and why."""

from __future__ import annotations

import pytest

import agentctx
from agentctx import ConfigError, Pipeline


def test_what_is_no_client_is_named():
    """An object that is no known client is an error that names its class."""
    with pytest.raises(ConfigError, match=r"builtins\.dict"):
        agentctx.wrap({}, Pipeline())
