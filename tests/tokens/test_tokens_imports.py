import subprocess
import sys
from pathlib import Path

import pytest

import agentctx.tokens

MODULES = sorted(path.stem for path in Path(agentctx.tokens.__file__).parent.glob("*.py") if path.stem != "__init__")
ROOT = Path(agentctx.tokens.__file__).parents[2]


def run(program):
    """Run a program in a fresh interpreter and return what it printed."""
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("module", [name for name in MODULES if name != "tiktoken"])
def test_only_one_module_loads_tiktoken(module):
    """Importing any module about tokens but one leaves tiktoken unloaded."""
    assert run(f"import sys, agentctx.tokens.{module}; print('tiktoken' in sys.modules)") == "False\n"


def test_counters_are_built_without_tiktoken():
    """Building a counter and a meter loads no tiktoken; counting the first text does."""
    program = (
        "import sys\n"
        "from agentctx.tokens.counting import default_counter\n"
        "from agentctx.tokens.counting import MessageMeter\n"
        "count = MessageMeter(default_counter('gpt-5.4')).counter.count\n"
        "print('tiktoken' in sys.modules, count('hello world'), 'tiktoken' in sys.modules)"
    )
    assert run(program) == "False 2 True\n"


def test_the_warmup_loads_tiktoken():
    """After the warm-up no count waits for tiktoken."""
    assert run("import sys, agentctx; agentctx.warmup('gpt-4'); print('tiktoken' in sys.modules)") == "True\n"


def test_counting_needs_no_network():
    """The first count of a fresh process works with no socket and no cache of downloads."""
    program = (
        "import os, socket, tempfile\n"
        "def refuse(*_, **__): raise AssertionError('network')\n"
        "socket.socket = socket.create_connection = socket.getaddrinfo = refuse\n"
        "os.environ['TIKTOKEN_CACHE_DIR'] = tempfile.mkdtemp()\n"
        "from agentctx.tokens.tiktoken import TiktokenCounter\n"
        "print(TiktokenCounter().count('hello world'), TiktokenCounter('cl100k_base').count('hello world'))"
    )
    assert run(program) == "2 2\n"
