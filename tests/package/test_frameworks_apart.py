"""No framework is needed, or loaded, by what does not name it."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

NOT_HERE = {
    "agent_framework": "agent_framework",
    "google_adk": "google.adk",
    "haystack": "haystack",
    "inspect_ai": "inspect_ai",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "llama_index": "llama_index",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "smolagents": "smolagents",
    "strands": "strands",
}


def is_there(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_the_package_loads_no_framework():
    """Importing the package of all hooks, and what they share, loads no module from outside that was not there."""
    load = "import sys, agentctx.clients.model_call as _; before = {*sys.modules}; import agentctx.frameworks.calls; "
    say = "print({name.partition('.')[0] for name in {*sys.modules} - before} - {'agentctx'})"
    done = subprocess.run([sys.executable, "-c", load + say], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", [name for name, module in NOT_HERE.items() if not is_there(module)])
def test_a_missing_framework_is_named(name):
    """The error says what to install."""
    extra = name.replace("_", "-")
    with pytest.raises(ImportError, match=rf"needs .*: pip install 'agentctx-middleware\[{extra}\]'"):
        __import__(f"agentctx.frameworks.{name}")
