"""Whoever imports a module of the package has the process that was there before."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import agentctx

ROOT = Path(agentctx.__file__).parent
PRELOAD = ROOT / "comparison" / "loaded.py"
"""What a process that is there to be forked imports, and nobody else."""
OF_OTHERS = ("frameworks", "testing", "clients/bedrock.py", "clients/litellm.py")
"""They import an SDK, which changes the process (LiteLLM begins a thread)."""
MODULES = [
    ".".join(("agentctx", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(ROOT.rglob("*.py"))
    if path != PRELOAD and path.name != "__main__.py" and not path.relative_to(ROOT).as_posix().startswith(OF_OTHERS)
]
LOOK = """
import importlib, json, logging, signal, sys, threading, warnings

def state():
    return {
        "hooks": [sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__],
        "threads": [each.name for each in threading.enumerate()],
        "signals": [repr(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM)],
        "logging": [repr(logging.getLogger().handlers), logging.getLogger().level],
        "warnings": repr(warnings.filters),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval()],
        "threads begin": repr(threading.Thread.start),
    }

for name in MODULES:
    before = state()
    importlib.import_module(name)
    after = state()
    if before != after:
        print(json.dumps([name, before, after]))
print(json.dumps("tiktoken" in sys.modules))
"""


@pytest.fixture(scope="module")
def changes():
    """What importing each module changes, one after the other in a process of its own."""
    script = f"MODULES = {MODULES!r}\n{LOOK}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_no_import_changes_the_process(changes):
    """No hook of the interpreter, no signal, no thread, no filter of warnings and no logger is another one then."""
    assert changes[:-1] == []


def test_no_import_loads_a_vocabulary(changes):
    """A program that counts nothing waits for no tokenizer, whichever module it imports."""
    assert changes[-1] is False
    assert "agentctx.comparison.run" in MODULES
