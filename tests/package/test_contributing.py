"""The guide leads to where things are."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:agentctx|tests|scripts)/[\w./]*)`", GUIDE)))
NAMED = re.findall(r"`(agentctx/[\w./]+\.py)` \(((?:`[\w.]+`(?:, )?)+)\)", GUIDE)


@pytest.mark.parametrize("path", PATHS)
def test_what_the_guide_names_is_there(path):
    """Each file and folder exists."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize(("path", "names"), NAMED, ids=[path for path, _ in NAMED])
def test_what_the_guide_finds_in_a_file_is_defined_there(path, names):
    """Each name that stands behind a file is a class, a function or a value of it, or of the class before its dot."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for owner, name in re.findall(r"(?:(\w+)\.)?(\w+)", names):
        within = re.search(rf"^class {owner}\b.*?(?=^\w|\Z)", text, re.MULTILINE | re.DOTALL) if owner else None
        assert within or not owner, owner
        defined = rf"^ *(?:async )?(?:def|class) {name}\b|^{name}\b.*="
        assert re.search(defined, within.group() if within else text, re.MULTILINE), name


def test_the_layers_are_those_that_are_checked():
    """The boxes of the picture are the layers of the check of imports, in the same order."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = [layer.replace("agentctx.", "").split(" | ") for layer in contract["layers"]]
    boxes = re.findall(r'\["([^:"]*): ', GUIDE.split("```mermaid")[1].split("```")[0])
    assert [box.split(" | ") for box in boxes] == layers
