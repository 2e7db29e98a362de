"""Shared vectors and recordings, where there are any beside the repository."""

import gzip
import json
from pathlib import Path

import pytest

from agentctx.formats.anthropic import Anthropic
from agentctx.rules import find_violations

wire = Anthropic()
SHARED = Path(__file__).parents[2] / "../shared"

NOT_HERE = [pytest.param(None, marks=pytest.mark.skip(reason="what is shared does not lie beside the repository"))]


def vectors():
    """The vectors of this format."""
    for path in SHARED.glob("vectors/wire_vectors.jsonl"):
        for line in path.read_text().splitlines():
            if (vector := json.loads(line))["id"].startswith("A-"):
                yield pytest.param(vector, id=vector["id"])


def recordings():
    """The files of recordings."""
    return [pytest.param(path, id=path.name) for path in sorted(SHARED.glob("transcripts/*.jsonl.gz"))]


def transcripts(path):
    """The recordings of this format in a file."""
    with gzip.open(path, "rt") as lines:
        return [found for line in lines if (found := json.loads(line))["format"] == wire.name]


@pytest.mark.parametrize("vector", [*vectors()] or NOT_HERE)
def test_a_vector_is_judged_as_labelled(vector):
    """A request is judged as it is labelled: in order, refused for this rule alone, or taken with a warning."""
    assert wire.recognises(vector["req"]) > 0
    found = find_violations(wire, vector["req"], None, vector.get("before"))
    errors = [violation.rule for violation in found if violation.severity == "error"]
    assert errors == ([vector["rule"]] if vector["expect"] == "error" else [])
    assert bool(found) == (vector["expect"] != "ok")


@pytest.mark.parametrize("path", recordings() or NOT_HERE)
def test_recordings_go_back_as_they_came(path):
    """Every recorded message is written as the object that it was read from, and recognised."""
    for transcript in transcripts(path):
        natives = transcript["messages"]
        read = [wire.read_message(native, index) for index, native in enumerate(natives)]
        assert all(native is wire.write_message(message) for native, message in zip(natives, read, strict=True))
        assert wire.recognises(transcript) > 0


@pytest.mark.parametrize("path", recordings() or NOT_HERE)
def test_recordings_are_legal_but_for_known_problems(path):
    """A recorded request breaks a rule only where the recording is known to have a problem.

    Recordings end with the model's answer, which as the end of a request would be a prefill.
    """
    for transcript in transcripts(path):
        keys = {key: transcript[key] for key in ("messages", "system", "tools") if transcript[key]}
        request = {**keys, "model": transcript["meta"].get("model")}
        found = {
            violation.rule
            for violation in find_violations(wire, request, None, request)
            if violation.severity == "error"
        }
        assert not found - {"anth.prefill"} or transcript["meta"]["native_problems"], transcript["id"]
