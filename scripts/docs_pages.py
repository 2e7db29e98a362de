# ruff: noqa: INP001 - a script, not a package
"""Pages of the documentation that are made of the code: one for each stage, and a reference of each public part.

Run as ``python scripts/docs_pages.py FOLDER``: puts these pages, those of ``docs/`` and ``mkdocs.yml`` with all of
them in its navigation into FOLDER, where zensical builds ``site/`` of it. What each stage may lose stands in
``docs/stages/loses.toml``.
"""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import attrs
import griffe
import yaml

import agentctx
from agentctx.protocols import ContextStrategy, When

ROOT = Path(agentctx.__file__).parent
PROJECT = Path(__file__).parents[1]
STAGES_IN = ("agentctx", "agentctx.strategies", "agentctx.strategies")
HOLD_STAGES = ("when", "first_of")
NO_STAGE = frozenset({"Pipeline", "ContextStrategy"})
MODULES = (
    "agentctx.conversion",
    "agentctx.errors",
    "agentctx.presets",
    "agentctx.protocols",
    "agentctx.replay",
    "agentctx.retention",
)
WHEN = {
    When.ALWAYS: "at every step, on the whole context",
    When.ON_ARRIVAL: "on what is new, at every step",
    When.UNDER_PRESSURE: "when the trigger is passed",
}


def stages() -> dict[str, str]:
    """The public stages, each with the part that it is imported from."""
    found = {
        name: part
        for part in STAGES_IN
        for name in import_module(part).__all__
        if name not in NO_STAGE and inspect.isclass(value := getattr(import_module(part), name))
        if issubclass(value, ContextStrategy)
    }
    return dict(sorted(found.items())) | dict.fromkeys(HOLD_STAGES, "agentctx")


def loses() -> dict[str, str]:
    """What each stage may lose."""
    return tomllib.loads((PROJECT / "docs" / "stages" / "loses.toml").read_text(encoding="utf-8"))


def parts() -> dict[str, list[str]]:
    """The public parts, and where each of their names is defined; of a module none: all of it is shown."""
    packages = [path.parent.name for path in sorted(ROOT.glob("*/__init__.py")) if "lazily(" in path.read_text()]
    listed = {part: list(_homes(part)) for part in ("agentctx", *(f"agentctx.{name}" for name in packages))}
    files = sorted((ROOT / "frameworks").glob("*.py"))
    hooks = [path.stem for path in files if "class Context" in path.read_text(encoding="utf-8")]
    modules = (*MODULES, *(f"agentctx.frameworks.{name}" for name in hooks))
    return dict(sorted({**listed, **{name: [] for name in modules}}.items()))


def _homes(part: str) -> Iterator[str]:
    """Where each public name of a package is defined: the package itself only leads there."""
    tree = inspect.getsource(import_module(part))
    for module, names in re.findall(r"^    from ([\w.]+) import (\([^)]*\)|[^\n]*)", tree, re.MULTILINE):
        for name in re.findall(r"\w+(?= as )", names):
            yield f"{module}.{name}"


def stage_page(name: str, part: str, lost: str) -> str:
    """What one stage does, when, and what it may lose."""
    value = getattr(import_module(part), name)
    when = WHEN.get(getattr(value, "scope", None), "as the stages in it")
    if name == "RepairHistory":
        when = "first of all, by itself, on what is new"
    if name == "PlaceCacheMarkers":
        when = "at every step, last"
    how = "" if attrs.has(value) else f"\n\n{name}{_signature(value)}"
    return f"""# {name}

Runs **{when}**.

!!! warning "What it may lose"
    {lost}

```python
from {part} import {name}{how}
```

::: {value.__module__}.{name}
    options:
      show_root_heading: false
      show_root_toc_entry: false
      members: []
      show_signature: false
"""


def _signature(value: object) -> str:
    """The options, as they are given, with their defaults."""
    told = []
    for each in inspect.signature(value).parameters.values():  # type: ignore[arg-type]
        star = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        default = "" if each.default is each.empty else f"={_default(each.default)}"
        told.append(f"{star}{each.name}{default}")
    line = ", ".join(told)
    return f"({line})" if len(line) < 80 else "(\n    " + ",\n    ".join(told) + ",\n)"


def _default(value: object) -> str:
    text = "()" if value == frozenset() else repr(value)
    return text if len(text) < 40 and "<" not in text and value is not attrs.NOTHING else "…"


def part_page(part: str, homes: list[str]) -> str:
    """The reference of a part: what its docstring says, and each public name."""
    about = inspect.cleandoc(_docstring(part))
    if not homes:
        shown = f"::: {part}\n    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
        return f"# {part}\n\n{shown}"
    named = "\n".join(f"::: {home}\n" for home in sorted(homes, key=lambda home: home.rpartition(".")[2].lower()))
    return f"# {part}\n\n{about}\n\n{named}"


def _docstring(part: str) -> str:
    """Read, not imported: a framework's hook imports the framework."""
    path = PROJECT.joinpath(*part.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return griffe.visit(part, source, source.read_text(encoding="utf-8")).docstring.value  # type: ignore[union-attr]


def reference_page() -> str:
    """The list of the parts."""
    rows = "\n".join(
        f"| [`{part}`]({part}.md) | {_docstring(part).splitlines()[0]} | {_names(homes)} |"
        for part, homes in parts().items()
    )
    return f"""# Reference

From `agentctx` itself come the pipeline, the session, the stages, the budget, the errors, and what a stage's author
needs. The rest is imported from its part. Each name shows in its docstring how it is used; the tests run every example.

| part | what is in it | names |
|---|---|---|
{rows}
"""


def _names(homes: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(home.rpartition(".")[2] for home in homes))


def moved(text: str) -> str:
    """A text from the root of the project as a page of ``docs/``: what it links to outside of that is named only."""
    text = re.sub(r"\]\((?:\.\./)?docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]*\)", r"\1", text)


def generated() -> dict[str, str]:
    """Path in ``docs/`` and text of each page that is made."""
    lost = loses()
    pages = {f"stages/{name}.md": stage_page(name, part, lost[name]) for name, part in stages().items()}
    pages |= {f"reference/{part}.md": part_page(part, homes) for part, homes in parts().items()}
    pages["reference/index.md"] = reference_page()
    pages["changelog.md"] = moved((PROJECT / "CHANGELOG.md").read_text(encoding="utf-8"))
    pages["benchmarks.md"] = moved((PROJECT / "benchmarks" / "README.md").read_text(encoding="utf-8"))
    return pages


def configured() -> dict[str, Any]:
    """What zensical is told: ``mkdocs.yml`` with the made pages in the navigation, and paths that hold anywhere."""
    config: dict[str, Any] = yaml.safe_load((PROJECT / "mkdocs.yml").read_text(encoding="utf-8"))
    for section in config["nav"]:
        if "Stages" in section:
            section["Stages"].append({"Each stage": [{name: f"stages/{name}.md"} for name in stages()]})
        if "Reference" in section:
            each = [{part.removeprefix("agentctx."): f"reference/{part}.md"} for part in parts()]
            section["Reference"].append({"Each part": each})
    python = next(each["mkdocstrings"] for each in config["plugins"] if "mkdocstrings" in each)["handlers"]["python"]
    python["paths"] = [str(PROJECT)]
    python["options"]["extensions"] = [f"{Path(__file__).resolve()}:Examples"]
    return config


def without_empty_list(text: str) -> str:
    """A page without sections gets the room of their list."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    sections = re.search(r"^(?:##+ |:::)", prose, flags=re.MULTILINE)
    return text if sections else f"---\nhide: [toc]\n---\n\n{text}"


def make(folder: Path) -> None:
    """Put all that the site is built of into a folder, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PROJECT / "docs", folder / "docs")
    for path, text in generated().items():
        page = folder / "docs" / path
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, encoding="utf-8")
    for page in (folder / "docs").rglob("*.md"):
        page.write_text(without_empty_list(page.read_text(encoding="utf-8")), encoding="utf-8")
    config = yaml.safe_dump(configured(), sort_keys=False, allow_unicode=True)
    (folder / "mkdocs.yml").write_text(config, encoding="utf-8")


@cache
def _made_how() -> dict[str, str]:
    """How objects of the public classes of attrs are made, by where they are defined."""
    values = {home: attrgetter(home.rpartition(".")[2]) for homes in parts().values() for home in homes}
    found = {home: get(import_module(home.rpartition(".")[0])) for home, get in values.items()}
    return {
        home: f"```python\n{value.__name__}{_signature(value)}\n```\n\n"
        for home, value in found.items()
        if inspect.isclass(value) and attrs.has(value)
    }


class Examples(griffe.Extension):
    """Reads ``Example:`` of a docstring as the section of examples, so that it is shown as code.

    A class of attrs is shown with what it is made of: griffe reads files, in which its ``__init__`` does not stand.
    """

    def on_object(self, *, obj: griffe.Object, **_rest: object) -> None:
        """Rename the section."""
        if obj.docstring:
            obj.docstring.value = _made_how().get(obj.path, "") + obj.docstring.value
            obj.docstring.value = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
