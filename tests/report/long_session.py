"""A session of 2,000 calls and 5 MB, made without a replay of it, which would take a minute."""

from random import Random

from attrs import evolve, frozen

from agentctx import Budget, Change, Message, Outcome, Text, ToolCall, ToolResult
from agentctx.events.window import KINDS
from agentctx.marks import Recap
from agentctx.replay import Recording, Step
from agentctx.report import SessionData
from agentctx.report.page import Added, Layout, RowChange, ShownCall, State, costs, growing

CALLS = 2_000
BETWEEN = 200
"""So many calls from one compaction to the next."""

_RESULT = 2_500
_WORDS = [f"{word}{number}" for number in range(400) for word in ("read", "error", "path/", "line", "value", "test_")]


@frozen
class Sizes:
    """Counts a message as a quarter of its characters."""

    def message(self, message):
        """Tokens of a message."""
        return 4 + self.parts(message.parts)

    def parts(self, parts):
        """Tokens of parts."""
        return sum(len(getattr(part, "arguments", None) or part.text) // 4 for part in parts)


def _messages():
    """The task, and for each call what the assistant asks for and what the tool says."""
    random = Random(1)  # noqa: S311 - the same session each time
    yield Message("user", (Text("Find out why the build fails."),))
    for number in range(CALLS):
        yield Message(
            "assistant", (ToolCall(f"c{number}", "read_file", f'{{"path": "src/{random.choice(_WORDS)}.py"}}'),)
        )
        lines = [" ".join(random.choices(_WORDS, k=9)) for _ in range(_RESULT // 70)]
        yield Message("tool", (ToolResult(f"c{number}", (Text("\n".join(lines)),)),))


def long_session():
    """What the page of such a session is told, and the size of its texts in bytes."""
    meter, messages = Sizes(), list(_messages())
    sizes = [meter.message(message) for message in messages]
    items, changes, layouts, calls = [*messages], [], [], []
    start, recap = 1, 0
    for number in range(1, CALLS + 1):
        seen = 2 * number - 1
        cut = number % BETWEEN == 0
        if cut:
            gone, start = range(start, seen - 20), seen - 20
            state = State(Outcome.DROPPED.value, None, "FitContextWindow", "over 60,000 tokens: oldest first")
            changes += [RowChange(index, number, state) for index in gone]
            items.append(Recap(start - 1, start // 2, sections={"Files": f"read: {number} files"}).written())
            recap = meter.message(items[-1])
            layouts.append(
                Layout(number, (Added(1, State("added", len(items) - 1, "Ledger", "stands for what went")),))
            )
        results, asked = sum(sizes[start + 1 : seen : 2]), sum(sizes[start:seen:2])
        tokens = dict.fromkeys(KINDS, 0) | {"recap": recap, "user": sizes[0], "calls": asked, "results": results}
        sent, prefix = sum(tokens.values()), sizes[0] if cut else sum(tokens.values()) - sizes[seen - 1]
        step = Step(number, seen, seen - 2, seen, seen - start + 2, sum(sizes[:seen]), sent, prefix, 200_000)
        step = evolve(step, changes=tuple(_changes(step, changes[-1:])) if cut else ())
        calls.append(ShownCall(step, tuple(tokens.values()), 1 if cut else seen - 1))
    whole = growing([call.step.tokens_given for call in calls])
    data = SessionData(
        recording=Recording(messages, id="two-thousand"),
        model="claude-sonnet-4-5",
        format="openai-chat",
        budget=Budget(200_000),
        stages=("FitContextWindow",),
        calls=tuple(calls),
        given=tuple(range(len(messages))),
        items=tuple(items),
        system=None,
        tools=(),
        head={},
        changes=tuple(sorted(changes, key=lambda change: (change.index, change.call))),
        layouts=tuple(layouts),
        costs=costs(Recording(messages), [call.step for call in calls], whole),
        meter=meter,
    )
    texts = (result.text for message in messages for result in message.results)
    return data, sum(map(len, texts))


def _changes(step, changes):
    for change in changes:
        yield Change(change.index, "tool", Outcome.DROPPED, change.state.stage, tokens_before=100)
