"""A format lives in its file: no other module of the package knows a format by its name."""

import ast
import subprocess
import sys
from pathlib import Path

import agentctx
from agentctx.formats.registry import _PROVIDERS

ROOT = Path(agentctx.__file__).parent
KNOWING = {
    "formats/registry.py": "the one table",
    "wire_format.py": "what stands for messages that every format would write alike",
    "models/profile.py": "families of models, and formulas of pictures",
    "models/table.py": "who serves a model",
    "tokens/media.py": "formulas of pictures",
    "clients/model_call.py": "the paths at which a provider is spoken to in a format",
    "clients/wrap.py": "packages of SDKs",
    "clients/anthropic.py": "packages of SDKs",
    "clients/litellm.py": "packages of SDKs",
}
SPEAKING = {
    "rules": "a file has the rules of a format",
    "frameworks": "each speaks the format in which it writes a framework's messages",
    "transcripts": "each names the format in which a tool's log is written",
    "proxy": "the addresses at which a provider is spoken to",
    "testing": "fakes of providers",
}
"""Packages whose modules stand each between one program and the format that it speaks."""


def strings(path):
    """The strings in a module that are no docstrings."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return {node.value for node in constants if isinstance(node.value, str)}


def test_no_other_module_names_a_format():
    """Outside the formats' files, the packages and the modules that are named here, no module holds a format's name."""
    files = {f"{module.rpartition('.')[2]}.py" for module, _ in _PROVIDERS.values()}
    found = {}
    for path in ROOT.rglob("*.py"):
        place = path.relative_to(ROOT)
        own = place.parts[0] in SPEAKING or (place.parts[0] == "formats" and place.parts[1] in files)
        if not own and (named := strings(path) & _PROVIDERS.keys()):
            found[place.as_posix()] = named
    assert found.keys() <= KNOWING.keys(), found


def test_cache_markers_are_named_once():
    """The keys of cache markers stand in one module."""
    keys = {"cache_control", "prompt_cache_breakpoint"}
    assert [path.name for path in ROOT.rglob("*.py") if strings(path) & keys and "testing" not in path.parts] == [
        "message.py"
    ]


def test_a_step_loads_no_rules():
    """What a provider refuses is loaded where something is validated, and not to prepare a request."""
    code = """
import sys
from agentctx import FitContextWindow, Pipeline, blocking
from agentctx.formats.registry import FORMATS
said = {"gemini": {"role": "user", "parts": [{"text": "Hi"}]}, "bedrock": {"role": "user", "content": [{"text": "Hi"}]}}
for name in FORMATS:
    given = said.get(name, {"role": "user", "content": "Hi"})
    view = blocking(Pipeline(FitContextWindow(1_000)).prepare, [given], format=name)
    assert view.messages == [given]
print([name for name in sys.modules if name.startswith("agentctx.rules")])
"""
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
