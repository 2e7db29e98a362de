"""The name that is installed, and what is said where another package's files stand in the place of ours."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import agentctx
from agentctx import lazy

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
THEIRS = '"""agentctx: kubectx-like Codex auth profile switcher."""\n\n__version__ = "0.6.0"\n'


def test_the_name_is_the_one_that_is_installed():
    """The package, its errors and the project file say one name."""
    assert PROJECT["name"] == agentctx.__distribution__ == lazy.OURS
    assert PROJECT["version"] == agentctx.__version__


def test_every_hint_installs_an_extra_that_is_there():
    """What the package, the documents and the examples tell to install is our name with an extra of ours."""
    texts = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "benchmarks" / "README.md"]
    texts += (ROOT / "docs").rglob("*.md")
    for folder in ("agentctx", "examples", "benchmarks"):
        texts += (ROOT / folder).rglob("*.py")
    hint = re.compile(r"(?<![\w.])(agentctx[\w-]*)\[([a-z][a-z,_-]*)\](?=[\"'`\s])")
    found = [(path.name, *each) for path in texts for each in hint.findall(path.read_text(encoding="utf-8"))]
    assert len(found) > 10
    for path, name, extras in found:
        assert name == lazy.OURS, path
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"]), path


@pytest.fixture
def mixed(tmp_path):
    """Run code where our package's files lie beside another ``__init__.py``, or none; what it writes to stderr."""
    folder = tmp_path / "agentctx"
    folder.mkdir()
    for path in Path(agentctx.__file__).parent.iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (folder / path.name).symlink_to(path)

    def run(code, init):
        if init is not None:
            (folder / "__init__.py").write_text(init)
        apart = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-S", "-c", code]  # without what is installed, of which ours is
        return subprocess.run(command, check=False, cwd=tmp_path, env=apart, capture_output=True, text=True)

    return run


@pytest.mark.parametrize("init", [THEIRS, None], ids=["overwritten", "taken away"])
def test_another_package_in_the_place_of_ours_is_told(mixed, init):
    """Whichever part is imported first, the error names both packages and what to do; the command says it in a line."""
    done = mixed("from agentctx.stores import SQLiteStore", init)
    said = done.stderr.splitlines()[-1]
    assert said.startswith("ImportError: ")
    assert "the __init__.py in " in said
    assert said.endswith("pip install --force-reinstall agentctx-middleware")
    done = mixed("from agentctx.cli import main; main()", init)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == said.replace("ImportError", "error") + "\n"


def test_the_other_package_is_named_where_it_is_installed(tmp_path, monkeypatch):
    """The error says which version of it, and to take it away first."""
    told = tmp_path / "agentctx-0.6.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.4\nName: agentctx\nVersion: 0.6.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    said = str(lazy.mixed_up(agentctx))
    assert said.startswith("agentctx 0.6.0, another program of that import name, is installed beside")
    assert "pip uninstall agentctx, then pip install" in said
