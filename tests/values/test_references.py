"""What references in a request mean."""

from attrs import evolve

from agentctx import Message, Text, ToolCall, ToolResult
from agentctx.marks import OUTPUT, Run, Standing, digest_of


class Watched(Standing):
    """Counts how often the lines of an output are looked at."""

    looked = 0

    def lines(self, output):
        self.looked += 1
        return super().lines(output)


def read_often(times):
    standing = Watched()
    text = "\n".join(f"def function_{number}():" for number in range(20))
    for at in range(times):
        standing.hear(Message("assistant", (ToolCall(f"c{at}", "read", '{"path": "a.py"}'),)))
        answer = ToolResult(f"c{at}", (Text(text),))
        output = standing.add(Message("tool", (answer,)), answer, text)
    return standing, text.split("\n"), output.name


def test_no_more_outputs_are_looked_at_than_tell_which_is_meant():
    """However many outputs are named alike, what refers to the last one costs the same."""
    looked = set()
    for times in (2, 8, 32):
        standing, lines, name = read_often(times)
        reference = standing.reference(Run(name, 4, lines[4:], lines[4:]), OUTPUT, ())
        assert "of the last output of" in reference.text
        assert standing.is_right(reference)
        assert standing.meant(reference) == lines[4:]
        looked.add(standing.looked)
    assert len(looked) == 1


def test_lines_are_known_by_all_that_they_say_and_not_by_what_a_reference_shows_of_it():
    """The same words in a mark that was made for other lines mean nothing."""
    standing, lines, name = read_often(2)
    reference = standing.reference(Run(name, 4, lines[4:], lines[4:]), OUTPUT, ())
    others = evolve(reference, digest=digest_of("\n".join(reversed(lines[4:]))))
    assert standing.meant(others) is None
    assert not standing.is_right(others)
