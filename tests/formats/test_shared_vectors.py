"""The shared vectors of all five formats, through the one public call."""

import json
from pathlib import Path

import pytest

from agentctx import AmbiguousFormat, InvalidInput, validate

FORMATS = {"C": "openai-chat", "R": "openai-responses", "A": "anthropic", "G": "gemini", "B": "bedrock"}
VECTORS = Path(__file__).parents[2] / "../shared/vectors/wire_vectors.jsonl"

OWN = Path(__file__).parent / "vectors"


def lines(path):
    """The vectors in a file; none when there is no such file."""
    return map(json.loads, path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()


SHARED_CASES = [pytest.param(FORMATS[vector["id"][0]], vector, id=vector["id"]) for vector in lines(VECTORS)]
OWN_CASES = [
    pytest.param(name, vector, id=f"{name}: {vector['id']}")
    for name in FORMATS.values()
    for vector in lines(OWN / f"{name}.jsonl")
]
CASES = [*SHARED_CASES, *OWN_CASES]


def verdict(found):
    """What violations come to."""
    severities = {violation.severity for violation in found}
    return "error" if "error" in severities else "warn" if severities else "ok"


@pytest.mark.parametrize("name", FORMATS.values())
def test_every_format_has_vectors(name):
    """Each format has vectors that are taken and vectors that are refused."""
    expected = [vector["expect"] for format_name, vector in (case.values for case in OWN_CASES) if format_name == name]
    assert min(expected.count("ok"), expected.count("error")) > 8


@pytest.mark.parametrize(("name", "vector"), CASES)
def test_a_vector_is_judged_as_labelled(name, vector):
    """A vector in its named format comes out as labelled, for the labelled rule before any other."""
    found = validate(vector["req"], format=name, before=vector.get("before"))
    assert verdict(found) == vector["expect"], [violation.rule for violation in found]
    refused_by = [violation.rule for violation in found if violation.severity == "error"]
    if vector["expect"] == "error" and "rule" in vector:
        assert refused_by[0] == vector["rule"]


@pytest.mark.parametrize(("name", "vector"), CASES)
def test_a_violation_says_where_and_what(name, vector):
    """Each violation has the provider's words, a place, and the index of a message when it is about one."""
    given = vector["req"]
    total = len(given.get("messages", given.get("input", given.get("contents", ()))))
    for violation in validate(given, format=name, before=vector.get("before")):
        assert len(violation.message) > 10
        assert violation.path
        assert violation.index is None or violation.index < total


def could_be_either(case):
    """Messages with the role system and plain texts could be Anthropic's, and are taken for Chat Completions."""
    name, vector = case.values
    return name == "anthropic" and any(each.get("role") == "system" for each in vector["req"].get("messages", ()))


@pytest.mark.parametrize(("name", "vector"), [case for case in CASES if not could_be_either(case)])
def test_a_vector_whose_format_is_found_is_judged_alike(name, vector):
    """Without the format's name, a vector is judged the same, or the caller is asked for the name."""
    try:
        found = validate(vector["req"], before=vector.get("before"))
    except (AmbiguousFormat, InvalidInput):
        assert name == "openai-chat" or vector["expect"] == "error"
    else:
        assert verdict(found) == vector["expect"]
