import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "transcript.py"


@pytest.fixture(scope="module")
def made() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("benchmark_transcript", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_same_seed_makes_the_same_messages(made):
    """Two transcripts with one seed are equal, and with another seed they are not."""
    assert made.transcript(300, seed=3) == made.transcript(300, seed=3)
    assert made.transcript(300, seed=3) != made.transcript(300, seed=4)


def test_a_longer_transcript_begins_with_the_shorter_one(made):
    """The first messages do not depend on how many follow."""
    assert made.transcript(1_000)[:100] == made.transcript(100)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_messages_have_the_promised_size(made, seed):
    """Over 10,000 messages the average is the stated number of characters, to two in a hundred."""
    sizes = [made.characters(message) for message in made.transcript(10_000, seed=seed)]
    assert sum(sizes) / len(sizes) == pytest.approx(made.AVERAGE_CHARACTERS, rel=0.02)


@pytest.mark.parametrize("length", [2, 4, 44, 200])
def test_an_even_cut_leaves_every_call_with_its_result(made, length):
    """Each call is answered by the very next message, with its id, and no result stands alone."""
    messages = made.transcript(length)
    for index, message in enumerate(messages):
        for call in message.get("tool_calls", ()):
            assert messages[index + 1]["tool_call_id"] == call["id"]
        if message["role"] == "tool":
            assert message["tool_call_id"] == messages[index - 1]["tool_calls"][0]["id"]


def test_a_blob_has_the_length_that_was_asked_for(made):
    """A text of n characters has n characters, whatever pieces it is made of."""
    assert [len(made.blob(size)) for size in (1, 999, 70_000)] == [1, 999, 70_000]
