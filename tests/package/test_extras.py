"""What is said where an optional package is missing, too old, too new, or has changed."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from agentctx import lazy
from agentctx.lazy import unmet

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
STRANDS = {
    "strands/__init__.py": "",
    "strands/agent/__init__.py": "",
    "strands/agent/conversation_manager.py": "class ConversationManager: ...",
    "strands/hooks.py": "class AgentInitializedEvent: ...\nclass HookRegistry: ...",
}
MIDDLEWARE = {"strands/middleware.py": "", "strands/types/__init__.py": "", "strands/types/events.py": ""}


@pytest.fixture
def error_of(tmp_path):
    """Import a module in a fresh interpreter in which these files and versions are installed: the error's last line."""

    def install(name, version, *requires):
        folder = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *requires]
        (folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def run(module, files, installed, requires=()):
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        for name, version in installed.items():
            install(name, version)
        if requires:
            install("agentctx-middleware", "9.9", *(f"Requires-Dist: {each}" for each in requires))
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        code = f"import {module}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
        assert done.returncode, done.stdout
        return done.stderr.splitlines()[-1].replace(str(tmp_path), "SITE")

    return run


def test_a_package_that_is_not_there_is_named_with_the_version_that_is_needed(error_of):
    """Where the package is not installed, the error names the version and the extra."""
    absent = {"strands.py": "raise ModuleNotFoundError('gone', name='strands')"}
    said = error_of("agentctx.frameworks.strands", absent, {}, ['strands-agents[a2a]>=1.62,<2; extra == "strands"'])
    assert said == (
        "ImportError: ContextConversationManager needs strands-agents>=1.62,<2 (not installed): "
        "pip install 'agentctx-middleware[strands]'"
    )


@pytest.mark.parametrize("version", ["1.50.0", "1.62.0rc1", "2.1"])
def test_a_version_that_does_not_do_is_named_with_the_one_that_is_needed(error_of, version):
    """Where the package is too old or too new, the error names both versions, and does not call it missing."""
    requires = ["Requires-Dist: anyio>=4", "strands-agents<2,>=1.62; (python_version < '4') and extra == 'strands'"]
    said = error_of("agentctx.frameworks.strands", STRANDS, {"strands-agents": version}, requires)
    assert said == (
        f"ImportError: ContextConversationManager needs strands-agents<2,>=1.62 ({version} is installed): "
        "pip install 'agentctx-middleware[strands]'"
    )


def test_a_name_that_a_good_version_lacks_is_named(error_of):
    """Where the version is accepted, the error says what it lacks and which versions were tested."""
    files = STRANDS | MIDDLEWARE
    requires = ["strands-agents>=1.62; extra == 'strands'", "redis>=6; extra == 'redis'"]
    said = error_of("agentctx.frameworks.strands", files, {"strands-agents": "1.99.0"}, requires)
    assert said == (
        "ImportError: ContextConversationManager does not work with the installed strands-agents 1.99.0 "
        "(tested: >=1.62): cannot import name 'InvokeModelStage' from 'strands.middleware' (SITE/strands/middleware.py)"
    )


@pytest.mark.parametrize(
    ("module", "package", "distribution", "extra"),
    [
        ("agentctx.stores.redis", "redis", "redis", "redis"),
        ("agentctx.stores.postgres", "psycopg", "psycopg", "postgres"),
        ("agentctx.events.terminal", "rich", "rich", "cli"),
        ("agentctx.testing.servers", "starlette", "starlette", "testing"),
    ],
)
def test_an_old_package_of_any_part_is_named(error_of, module, package, distribution, extra):
    """Stores, sinks and servers name the version that is there and the one that this distribution asks for."""
    wanted = next(Requirement(each) for each in EXTRAS[extra] if Requirement(each).name == distribution)
    said = error_of(module, {f"{package}/__init__.py": ""}, {distribution: "0.0.1"})
    assert f" {distribution}{wanted.specifier} (0.0.1 is installed)" in said
    assert said.endswith(f": pip install 'agentctx-middleware[{extra}]'")
    assert "not installed" not in said


def test_an_extra_with_several_packages_names_those_that_do_not_do(error_of):
    """Of several packages the error names those that are missing or old, and no other."""
    files = {"typer.py": "raise ImportError('too new for rich', name='typer')"}
    requires = [f"{name}>=2; extra == 'cli'" for name in ("typer", "rich", "nowhere-else")]
    said = error_of("agentctx.cli; agentctx.cli.main()", files, {"typer": "2.1", "rich": "1.9"}, requires)
    assert said == (
        "error: the command line needs rich>=2 (1.9 is installed) and nowhere-else>=2 (not installed): "
        "pip install 'agentctx-middleware[cli]'"
    )


def test_an_sdk_that_is_too_old_is_not_wrapped(error_of):
    """A client of a version before the first that was run is refused with the version that is needed."""
    files = {
        "openai/__init__.py": "class OpenAI: ...",
        "program.py": "import agentctx, openai\nagentctx.wrap(openai.OpenAI(), agentctx.Pipeline(budget=9))",
    }
    error = error_of("program", files, {"openai": "1.50.0"}, ['openai>=1.109,<4; extra == "openai"'])
    assert error == (
        "agentctx.errors.ConfigError: wrap needs openai>=1.109,<4 (1.50.0 is installed): "
        "pip install 'agentctx-middleware[openai]'"
    )


def test_an_extra_that_is_unknown_is_named_with_the_error():
    """Where this distribution does not say what an extra needs, the error stands in for it."""
    said = unmet("it", "nowhere", ImportError("No module named 'x'"))
    assert said == "it needs more packages (No module named 'x'): pip install 'agentctx-middleware[nowhere]'"


def test_what_an_extra_needs_is_read_as_its_metadata_say():
    """Each extra of this distribution has the packages and versions that the library packaging reads."""
    lines = [Requirement(line) for line in metadata.requires("agentctx-middleware")]
    for extra in EXTRAS:
        read = [Requirement("".join(requirement)) for requirement in lazy._requirements(extra)]
        asked = [line for line in lines if line.marker and f'extra == "{extra}"' in str(line.marker)]
        assert [(one.name, one.specifier) for one in read] == [(one.name, one.specifier) for one in asked], extra
        assert {bound.operator for one in asked for bound in one.specifier} <= {*lazy._COMPARED}, extra


RELEASES = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda numbers: ".".join(map(str, numbers)))
BOUNDS = st.builds("{}{}".format, st.sampled_from(sorted(lazy._COMPARED)), RELEASES)


@given(st.lists(BOUNDS, max_size=3).map(",".join), RELEASES, st.sampled_from(["", ".post1", "+local"]))
def test_versions_are_compared_as_pip_does(versions, version, more):
    """A version is in a range where the library packaging says so."""
    if more == ".post1" and ("==" in versions or ">" in versions or "<=" in versions):
        more = ""  # which release a post-release belongs to is not looked at
    assert lazy._is_in(versions, version + more) == SpecifierSet(versions).contains(version + more)


@given(RELEASES, st.sampled_from(["a1", "b2", "rc1", ".dev3", "-rc.1"]))
def test_a_pre_release_comes_before_its_release(version, early):
    """A pre-release is older than its release and newer than all before."""
    assert not lazy._is_in(f">={version}", version + early)
    assert lazy._is_in(f"<={version},>=0.0.0a0", version + early)
