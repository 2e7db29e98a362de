"""What references in a request mean."""

from agentctx import Message, Text, ToolCall, ToolResult
from agentctx.marks import OUTPUT, Run, Standing


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
        assert standing.is_right(reference.text)
        assert standing.meant(reference.text) == lines[4:]
        looked.add(standing.looked)
    assert len(looked) == 1
