"""The documentation is built, and each of its links leads somewhere."""

import importlib.util
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages():
    """The hook of the build."""
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / "scripts" / "docs_pages.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    return hook


def test_every_stage_says_what_it_may_lose(pages):
    """Each public stage has an entry, and each entry is of a stage."""
    assert pages.stages().keys() == pages.loses().keys()
    table = (ROOT / "docs" / "stages" / "index.md").read_text(encoding="utf-8")
    assert [name for name in pages.stages() if f"({name}.md)" not in table] == []


def test_every_part_has_a_page_with_all_its_names(pages):
    """Each package with public names, each hook of a framework, and each public name of a part."""
    parts = pages.parts()
    files = (ROOT / "agentctx" / "frameworks").glob("*.py")
    hooks = {f"agentctx.frameworks.{path.stem}" for path in files if "class Context" in path.read_text("utf-8")}
    assert hooks == {part for part in parts if part.startswith("agentctx.frameworks.")}
    for part, homes in parts.items():
        if homes:
            assert sorted(home.rpartition(".")[2] for home in homes) == sorted(import_module(part).__all__)


def test_the_site_is_built_and_needs_nothing_from_elsewhere(pages, tmp_path):
    """Every link and every anchor is right, and no page loads a script, a style, a font or a picture from elsewhere."""
    pages.make(tmp_path / "made")
    command = [
        sys.executable,
        "-m",
        "zensical",
        "build",
        "--strict",
        "--config-file",
        str(tmp_path / "made/mkdocs.yml"),
    ]
    done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    built = sorted((tmp_path / "made" / "site").rglob("*.html"))
    assert len(built) > len(pages.generated())
    for path in built:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"""<(?:script|img|iframe)[^>]*\ssrc=["']https?:|<link[^>]*\shref=["']https?:""", text)
