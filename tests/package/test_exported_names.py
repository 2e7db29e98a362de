"""The public surface is a list for each part, and importing it is cheap."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest

import agentctx
from agentctx.protocols import is_ours

ROOT = Path(agentctx.__file__).parent
INITS = [path for path in (ROOT / "__init__.py", *sorted(ROOT.glob("*/__init__.py"))) if "lazily(" in path.read_text()]
LAZY = [".".join(path.relative_to(ROOT.parent).parts[:-1]) for path in INITS]


def seen_by_type_checkers(package):
    """The names that a package imports for type checkers, and from which module."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {alias.asname: node.module for node in block.body for alias in node.names}


def test_at_most_sixty_names_come_from_the_package_itself():
    """The rest is imported from its part."""
    assert len(agentctx.__all__) <= 60


@pytest.mark.parametrize("package", LAZY)
def test_every_public_name_is_there_once(package):
    """Each name in the list can be had, each is listed once, and a name that is not public is not found."""
    part = import_module(package)
    assert all(getattr(part, name) is not None for name in part.__all__)
    assert sorted(set(part.__all__)) == sorted(part.__all__)
    assert not hasattr(part, "no_such_name")


@pytest.mark.parametrize("package", LAZY)
def test_type_checkers_see_what_programs_get(package):
    """What is imported for type checkers is what the name is at run time."""
    part = import_module(package)
    seen = seen_by_type_checkers(part)
    assert set(part.__all__) == set(seen)
    assert all(getattr(part, name) is getattr(import_module(home), name) for name, home in seen.items())


@pytest.mark.parametrize("package", LAZY)
def test_no_public_name_is_a_module(package):
    """A module of the same name would take the name's place as soon as it is imported."""
    part = import_module(package)
    assert set(part.__all__).isdisjoint(module.name for module in iter_modules(part.__path__))


def test_every_stage_that_is_public_is_known_as_ours():
    """What the library's own stages return is not mended as a user's is, wherever their modules stand."""
    parts = [package for package in LAZY if package != "agentctx.testing"]  # whose stages fail on purpose
    named = {getattr(import_module(package), name) for package in parts for name in import_module(package).__all__}
    bases = {agentctx.ContextStrategy, agentctx.Pipeline, agentctx.builder.Eviction}
    stages = {each for each in named if isinstance(each, type) and issubclass(each, agentctx.ContextStrategy)} - bases
    assert {agentctx.FitContextWindow, agentctx.Ledger, import_module("agentctx.strategies").Offload} <= stages
    assert [stage for stage in stages if not is_ours(object.__new__(stage))] == []


def test_a_stage_that_derives_from_one_of_ours_is_the_user_s():
    """The mark of the library's own stages is not inherited, and does not depend on a module's name."""

    class Mine(agentctx.TrimRounds):
        __module__ = "agentctx.strategies.drop_units"

    assert is_ours(agentctx.TrimRounds(3))
    assert not is_ours(Mine(3))


def test_no_name_is_public_twice():
    """Each public name is imported from one place, so that one word has one meaning."""
    names = [name for package in LAZY for name in import_module(package).__all__]
    assert sorted(set(names)) == sorted(names)


def test_importing_loads_no_tokenizer_and_no_sdk():
    """Using every public name loads neither tiktoken nor a provider's SDK."""
    code = (
        "import sys; from agentctx import *; "
        "print([m for m in ('tiktoken', 'regex', 'openai', 'anthropic', 'httpx', 'rich', 'trio') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_quick_start_loads_no_more_than_it_uses():
    """Its names load no sockets, no decimals, and nothing of building or remembering, but for what anyio loads."""
    code = (
        "import sys, anyio.lowlevel, anyio.to_thread; before = {*sys.modules}; "
        "from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs; new = {*sys.modules} - before; "
        "print([m for m in ('socket', 'decimal', 'agentctx.builder', 'agentctx.strategies.ledger') if m in new])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_no_other_class_has_a_public_name():
    """One word has one meaning: whoever reads a public name in the package reads of the public class."""
    classes = [
        (node.name, path)
        for path in ROOT.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    ]
    public = {name for package in LAZY for name in import_module(package).__all__}
    homes = {name: [str(path.relative_to(ROOT)) for each, path in classes if each == name] for name in public}
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}
