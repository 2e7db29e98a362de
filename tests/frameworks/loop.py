"""An agent's loop of thirty tool calls that does not fit a window: the same for each framework, with what is asked."""

import json
import re
from itertools import pairwise
from pathlib import Path
from time import process_time

from agentctx import Budget, FitContextWindow, Pipeline
from agentctx.testing.servers import Desk, Said
from agentctx.testing.servers.desk import Verdict

TABLE = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
STEPS = 30
WINDOW = 12_000
MODEL = "gpt-5.4"
SYSTEM = "You read source files, one after another, and say what they have in common.\n" + "\n".join(
    f"{number}. Rule {number}: keep to what the files say, name the file for each claim, and do not guess."
    for number in range(60)
)
TASK = "Read alpha files until there are no more, then say done."


TOO_LONG = [{"role": "system", "content": SYSTEM}] + [
    {"role": role, "content": f"{role} {number}: " + "the quick brown fox jumps over the lazy dog. " * 30}
    for number in range(40)
    for role in ("user", "assistant")
]
"""A conversation of about 25,000 tokens."""
TOO_LONG.append({"role": "user", "content": "Go on."})


def read_file(path: str) -> str:
    """Read a file.

    Args:
        path: Where it stands.
    """
    number = int(re.findall(r"\d+", path)[0])
    return "\n".join(
        f"{path}:{line}: value_{number}_{line} = {(number + 7) * (line + 31) * 7919}" for line in range(22)
    )


def reading(body):
    """A model that reads thirty files one by one, whatever it is shown of what it has read, and then answers.

    It reads files of the name that the task gives, so that conversations can be told apart.
    """
    told = json.dumps(body)
    name = re.search(r"Read (\w+) files", told)[1]
    last = max((int(number) for number in re.findall(rf"{name}_(\d+)\.py", told)), default=0)
    if last == STEPS:
        return Said("All are read: done.")
    return Said("", calls=(("read_file", {"path": f"{name}_{last + 1}.py"}),))


class QuickDesk(Desk):
    """Takes whatever comes, so that little but the client is measured."""

    async def judge(self, body, _asked):
        self.accepted.append(body)
        return Verdict(1_000, None, too_large=False)


_KEPT = []


def kept(client):
    """Hold an async client to the end: one that is collected closes itself in whatever event loop runs then."""
    _KEPT.append(client)
    return client


def pipeline(window=WINDOW):
    """What is run beside the plain framework."""
    return Pipeline(FitContextWindow(), budget=Budget(window=window, output_reserve=500, trigger=0.85, target=0.5))


def documented(framework):
    """The lines of the documentation's table for a framework: what to import, what to write."""
    row = next(line for line in TABLE.splitlines() if line.startswith(f"| {framework} |"))
    return "\n".join(re.findall(r"`([^`]+)`", row))


def check(desk, calls=STEPS + 1):
    """Assert that each request was taken, none too large, and that most of each is the start of the one before."""
    assert calls == len(desk.accepted) == len(desk.requests)
    assert prefix_share(desk.accepted) >= 0.9


def prefix_share(bodies):
    """The share of all that was sent that is an unchanged start of the request before."""
    texts = [_text(body) for body in bodies]
    shared = sum(_common(*pair) for pair in pairwise(texts))
    return shared / sum(map(len, texts[1:]))


def _common(one, other):
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


_HEAD = ("tools", "toolConfig", "system", "systemInstruction", "instructions")
_MESSAGES = ("messages", "input", "contents")


def _text(body):
    """A request as a cache sees it: tools, system prompt, messages."""
    return "".join(json.dumps(body[key]) for key in (*_HEAD, *_MESSAGES) if key in body)


def beside(framework, plain, ours, *, rounds=1):
    """Say what a call of ours takes beside a plain one, in milliseconds of processor time, at best.

    The server is in this process: what it takes is in both.

    Args:
        framework: Its name.
        plain: Runs a whole loop.
        ours: Runs the same loop with a pipeline that has nothing to cut.
        rounds: How many loops of each.
    """
    took = {plain: [], ours: []}
    for run in (plain, ours) * rounds:
        began = process_time()
        run()
        took[run].append(1000 * (process_time() - began) / (STEPS + 1))
    alone, with_us = min(took[plain]), min(took[ours])
    return f"{framework}: {alone:.1f} ms of processor time a call, {with_us:.1f} ms with us: {with_us - alone:+.1f}"
