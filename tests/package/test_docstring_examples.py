"""Every public name shows in its docstring how it is used, and each example prints what it shows."""

import ast
import contextlib
import doctest
import inspect
import io
import os
import re
from enum import Enum
from importlib import import_module
from inspect import CO_COROUTINE
from pathlib import Path
from types import FunctionType
from typing import Protocol

import anyio
import pytest

from agentctx import frameworks

PACKAGE = Path(frameworks.__file__).parents[1]
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported: nothing is fetched
PARTS = (
    "agentctx",
    "agentctx.builder",
    "agentctx.economics",
    "agentctx.models",
    "agentctx.formats",
    "agentctx.session",
    "agentctx.sources",
    "agentctx.comparison",
    "agentctx.proxy",
    "agentctx.report",
    "agentctx.events",
    "agentctx.stores",
    "agentctx.strategies",
    "agentctx.testing",
    "agentctx.tokens",
    "agentctx.transcripts",
)
MODULES = {
    "agentctx.conversion": ("Converted",),
    "agentctx.errors": ("BigItem", "StoreConflict", "StoreFull", "StoreUnavailable"),
    "agentctx.strategies": tuple(
        name
        for name in import_module("agentctx.strategies").__all__
        if name not in ("Artifact", "ArtifactRule", "Extractor")  # names of types, which have no docstring
    ),
    "agentctx.presets": ("assistant", "coding_agent", "general", "thrifty"),
    "agentctx.protocols": (
        "HistorySnapshot",
        "HistoryStore",
        "Meter",
        "StateSnapshot",
        "StateStore",
        "Store",
        "Summarizer",
        "TextCutter",
        "TokenCounter",
    ),
    "agentctx.rules": ("find_violations",),
    "agentctx.replay": ("summarise",),
    "agentctx.retention": ("Retention", "Watch", "needs"),
    "agentctx.sources.gathering": ("ContextProvider",),
}


def hooks():
    """The hooks of each framework that is installed, and their names: all of them are in no environment."""
    for path in sorted(Path(frameworks.__file__).parent.glob("*.py")):
        with contextlib.suppress(ImportError):
            module = import_module(f"agentctx.frameworks.{path.stem}")
            own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
            yield module.__name__, [name for name in own if name.startswith("Context")]


PUBLIC = {part: import_module(part).__all__ for part in PARTS} | MODULES | dict(hooks())
COMPARED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def arguments_of(named):
    """What is passed to a function, or to make a value; nothing of errors, protocols, enumerations and tuples."""
    if not callable(named) or (
        isinstance(named, type) and (issubclass(named, (BaseException, Enum, tuple)) or Protocol in named.__bases__)
    ):
        return []
    return [name for name in inspect.signature(named).parameters if not name.startswith("_")]


def test_docstrings_name_what_is_passed():
    """The docstring of each public name has a word on each argument, by its name."""
    unsaid = {
        f"{part}.{name}": missing
        for part, names in PUBLIC.items()
        for name in names
        if (docstring := inspect.getdoc(named := getattr(import_module(part), name)))
        if (missing := [each for each in arguments_of(named) if not re.search(rf"\b{each}\b", docstring)])
    }
    assert unsaid == {}


PRESCRIBED = {"self", "cls", "context", "call"}
"""What every stage is passed: the protocols say it once."""


def methods():
    """The public methods of the public classes, each class once; without those that a framework's class prescribes."""
    classes = {
        named: f"{part}.{name}"
        for part, names in PUBLIC.items()
        for name in names
        if isinstance(named := getattr(import_module(part), name), type)
    }
    for owner, place in classes.items():
        for name, value in vars(owner).items():
            method = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if isinstance(method, FunctionType) and not name.startswith("_"):
                above = [each for each in owner.__mro__[1:] if name in vars(each)]
                if all(each.__module__.startswith("agentctx.") for each in above):
                    yield f"{place}.{name}", method, [method, *(vars(each)[name] for each in above)]


def test_docstrings_of_methods_name_what_is_passed():
    """The docstring of each public method, or of what it overrides, has a word on each argument, by its name."""
    unsaid = {}
    for place, method, said_by in methods():
        said = "\n".join(filter(None, map(inspect.getdoc, said_by)))
        passed = [name for name in arguments_of(method) if name not in PRESCRIBED]
        missing = [name for name in passed if not re.search(rf"\b{name}\b", said)]
        if missing or not said:
            unsaid[place] = missing
    assert unsaid == {}


def shown_imports():
    """What docstrings import from the package: the file, the module and the name; those of private names, too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not re.search(r">>> (from|import) agentctx", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                for example in doctest.DocTestParser().get_examples(ast.get_docstring(node) or ""):
                    if re.match(r"(from|import) agentctx\b", example.source):
                        said = ast.parse(example.source).body[0]
                        for each in said.names:
                            named = (said.module, each.name) if isinstance(said, ast.ImportFrom) else (each.name, None)
                            yield str(path.relative_to(PACKAGE)), *named


def is_there(module, name):
    """Whether a module is there and has a name; of one whose framework is not installed it is taken as said."""
    try:
        found = import_module(module)
        return name is None or hasattr(found, name) or bool(import_module(f"{module}.{name}"))
    except ImportError as error:
        return (error.name or "").partition(".")[0] != "agentctx"


def test_what_examples_import_is_there():
    """Each import from the package that stands in any docstring of it finds what it names."""
    found = sorted(set(shown_imports()), key=str)
    assert found
    assert [each for each in found if not is_there(*each[1:])] == []


@pytest.mark.parametrize(("part", "name"), [(part, name) for part, names in PUBLIC.items() for name in names])
def test_the_example_prints_what_it_shows(part, name):
    """The docstring has an example, and each line of it prints what stands under the line; a line may await."""
    docstring = inspect.getdoc(getattr(import_module(part), name))
    examples = doctest.DocTestParser().get_examples(docstring)
    assert examples, "there is no example"
    anyio.run(run, examples)


async def run(examples):
    """Run the lines one after the other with the names of those before, as a shell that awaits does."""
    names = {"__name__": "example"}
    for example in examples:
        code = compile(example.source, "<example>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            made = FunctionType(code, names)()
            if code.co_flags & CO_COROUTINE:
                await made
        shown = doctest.OutputChecker().check_output(example.want, printed.getvalue(), COMPARED)
        assert shown, f"{example.source}prints\n{printed.getvalue()}"
