"""No value is told that nobody said: what stages write into a text is theirs."""

import json
import re

import pytest

from agentctx import ClearToolResults, CollapseRepeats, Ledger, Pipeline, Text, TrimRounds, TruncateToolOutputs
from agentctx.engine.reading import reader
from agentctx.marks import recap_of, without_marks
from agentctx.message import Mark
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import (
    CompactJson,
    CompressLayers,
    DropSuperseded,
    FoldOutput,
    Offload,
    ReuseLines,
    ShrinkArguments,
    TabulateJson,
    told_of,
    values_in,
)
from agentctx.strategies.ledger import VALUES
from agentctx.testing import assistant, call, result, transcript, user

FORMAT = "openai-chat"
LINES = "\n".join(f"the {n}th line of the text of /home/dev/project/src" for n in "abcdefghijklmnopqrstuvwxyz")
ROWS = json.dumps([{"seat": f"{n}A", "price": 99.5 + n, "order": f"W{n}551"} for n in range(40)])
LOG = "\n".join(f"12:0{n % 9}:00 worker-{n % 3} did the same job at /home/dev/project/src/lib" for n in range(70))
CALLS = [
    ("read", {"path": "a.py"}, LINES),
    ("read", {"path": "a.py", "limit": 9}, f"{LINES}\n{LINES}"),
    ("get", {"q": 1}, ROWS),
    ("log", {}, f"12:01:07 {LOG}"),
    ("write", {"path": "b.py", "content": LINES * 3}, "written"),
    ("log", {}, f"12:05:09 {LOG}"),
    ("read", {"path": "a.py"}, LINES),
    ("get", {"q": 1}, ROWS),
    *[("look", {"at": n}, "word of it " * 60) for n in range(4)],
]
STAGES = {
    "reuse": [ReuseLines()],
    "collapse": [CollapseRepeats()],
    "similar": [CollapseRepeats(similar=1)],
    "superseded": [DropSuperseded(stale=True, short=True)],
    "codes": [CompressLayers()],
    "fold": [FoldOutput()],
    "tables": [TabulateJson()],
    "json": [CompactJson()],
    "arguments": [ShrinkArguments(0, max_tokens=30)],
    "cut": [TruncateToolOutputs(80)],
    "cut and told": [TruncateToolOutputs(80, tell=told_of)],
    "offloaded": [Offload(over=200, preview=40)],
    "cleared": [ClearToolResults(keep_last=1)],
    "several": [ReuseLines(), CollapseRepeats(similar=1), TruncateToolOutputs(80), ClearToolResults(keep_last=2)],
}


@pytest.mark.anyio
@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
async def test_each_value_that_is_told_stands_in_what_was_passed(stages):
    """Checksums, handles and numbers of references, marks and codes are none, in a session with a store."""
    recall = Recall(MemoryStore())
    pipeline = Pipeline(*stages, TrimRounds(2), Ledger(max_tokens=600), store=recall.store)
    session, turns, told = pipeline.session(format=FORMAT), [user("Read it.")], []
    for at, (tool, asked, text) in enumerate(CALLS):
        turns += [assistant(call(f"c{at}", tool, asked)), result(f"c{at}", text)]
        view = await session.prepare(transcript(FORMAT, *turns), tools=[recall.definition(FORMAT)])
        read = reader(view.messages, format=FORMAT).messages(view.messages)
        recaps = [recap.sections.get(VALUES, "") for each in read if (recap := recap_of(each)) is not None]
        told += [value.text for text in recaps for line in text.split("\n") for value in values_in(line)]
    passed = "".join([*(text for _, _, text in CALLS), json.dumps([asked for _, asked, _ in CALLS])])
    assert told
    assert [] == [value for value in told if value not in passed]


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("fixed issue #123456", "fixed issue #123456"),
        ("[main 4c1f09d] mend it", "[main 4c1f09d] mend it"),
        ("[the same #4711]", "[the same #4711]"),
        ("[the same output of log came again later, but for 12:01:07 #123456; recall 3fa94c00d1b2e6a7]",
         "[the same output of log came again later, but for 12:01:07]"),
        ("a\n[30 lines shown again later #123456]\nb", "a\n\nb"),
        ("[… 88 more lines …; recall s3:x/3fa94c00]", ""),
        ("[offloaded: log of 3 lines, 1,200 characters; recall 3fa94c00d1b2e6a7]\nport 8080", "\nport 8080"),
    ],
)  # fmt: skip
def test_marks_are_taken_out_and_nothing_else(text, rest):
    """What others say in brackets stays, also where it looks like a mark."""
    marks = [Mark(found, 9) for found in re.findall(r"\[[^\]]*; recall [^\]]*\]|\[30 lines[^\]]*\]", text)]
    assert rest == without_marks(Text(text, marks=tuple(marks)))
    assert text == without_marks(Text(text))
