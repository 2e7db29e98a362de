"""What the extras declare, what the environments install and what ``constraints/`` pins agree."""

import sys
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "scripts"))

from environments import ALL, CONSTRAINTS, PROJECT, Environment, table  # noqa: E402 - the scripts are no package
from newest import LAGS, lag_errors, moves  # noqa: E402
from pins import versions  # noqa: E402

NOT_TESTED = {"bench", "mutation"}
SDKS = {"openai", "anthropic", "google-genai", "boto3"}
REACHED = {"openai": Version("3.49.0"), "httpx2": Version("2.16.2")}
NEWEST = {"openai": Version("3.57.0")}
ENTRY = {"version": "3.49.0", "reason": "It needs what the index does not have."}


def pins(name):
    return versions((CONSTRAINTS / f"{name}.txt").read_text(encoding="utf-8"))


def test_each_environment_is_pinned():
    """``constraints/`` has a file for each environment and no other."""
    assert {path.stem for path in CONSTRAINTS.glob("*.txt")} == ALL.keys()


@pytest.mark.parametrize("name", ALL)
def test_each_pin_is_a_version_that_is_declared(name):
    """What is installed is within the floors and caps of the project, its extras and the environment's table."""
    pinned = pins(name)
    declared = [each for each in ALL[name].declared() if each.marker is None or each.marker.evaluate()]
    assert len(declared) > 4
    for requirement in declared:
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)], prereleases=True)


def test_each_extra_is_tested():
    """Each extra of the project is installed in an environment."""
    installed = {extra for environment in ALL.values() for extra in environment.extras}
    declared = PROJECT["optional-dependencies"]
    of_dev = [requirement for requirement in declared["dev"] if requirement.startswith(PROJECT["name"])]
    within = {extra for each in of_dev for extra in each.partition("[")[2].removesuffix("]").split(",")}
    assert declared.keys() == installed | within | NOT_TESTED


@pytest.mark.parametrize("name", [name for name in table("sdks") if name != "litellm"])
def test_an_sdk_is_alone(name):
    """No other SDK is in its environment, and no HTTP library beside the one that it brings."""
    assert len(SDKS & pins(name).keys()) == 1
    assert not {"httpx", "httpx2"} <= pins(name).keys()


@pytest.mark.parametrize("name", LAGS)
def test_each_lag_has_its_reason(name):
    """The table of lags names packages that an environment declares, each with the version that it reaches and why."""
    declared = {requirement.name for requirement in ALL[name].declared()}
    for package, entry in LAGS[name].items():
        assert package in declared
        assert {"version", "reason"} == entry.keys()
        assert Version(entry["version"])
        assert len(entry["reason"]) > 20


@pytest.mark.parametrize(
    ("reached", "lags", "sentence"),
    [
        ("3.49.0", {}, "stops at 3.49.0, and the index has 3.57.0"),
        ("3.49.0", {"openai": {**ENTRY, "version": "3.40.0"}}, "stops at 3.49.0, and constraints/lags.toml has 3.40.0"),
        ("3.57.0", {"openai": ENTRY}, "reaches the newest, 3.57.0: take it out"),
        ("3.57.0", {"httpx2": ENTRY}, "is not declared: take it out"),
    ],
)
def test_a_lag_that_is_not_as_the_table_has_it_is_an_error(reached, lags, sentence):
    """A package that lags unseen, one that lags at another version, and entries that are no longer true."""
    errors = [*lag_errors("openai", {**REACHED, "openai": Version(reached)}, NEWEST, lags)]
    assert [package for package, _ in errors] == [*lags] or ["openai"] == [package for package, _ in errors]
    assert errors[0][1].startswith(sentence)


@pytest.mark.parametrize(("reached", "lags"), [("3.57.0", {}), ("3.49.0", {"openai": ENTRY})])
def test_what_is_as_the_table_has_it_is_no_error(reached, lags):
    """A package that reaches the newest version, and one whose lag is in the table."""
    assert not [*lag_errors("openai", {**REACHED, "openai": Version(reached)}, NEWEST, lags)]


def test_what_moved_is_told():
    """A declared package has a line of its own, and all others share one."""
    before = {"openai": Version("3.49.0"), "httpx2": Version("2.16.1"), "idna": Version("3.1"), "jiter": Version("1")}
    now = {"openai": Version("3.57.0"), "httpx2": Version("2.16.2"), "idna": Version("3.1"), "sniffio": Version("2")}
    assert [*moves(before, now, frozenset({"openai", "idna"}))] == [
        "  openai 3.49.0 -> 3.57.0",
        "  and of what they need: httpx2 2.16.1 -> 2.16.2, jiter 1 -> -, sniffio - -> 2",
    ]


def test_a_line_of_versions_is_declared_with_its_name():
    """An environment declares what the project, its extras and its table name, extras of extras included."""
    declared = {str(each) for each in Environment("any", ("docs",), ("openai==2.*",), ()).declared()}
    assert {"openai==2.*", "rich>=13.9", "zensical>=0.0.73", "tiktoken>=0.13"} <= declared
