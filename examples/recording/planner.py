"""The planner: what a model would decide, as a script that looks at what the tools answered.

A plan is a generator. It yields what the user says (``Says``) or what the assistant does (``Does``), and is sent the
outcomes of the tools that it called. File names, lines and numbers are taken from those outcomes, so the plan still
holds when the repository has grown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

from attrs import frozen

from recording import texts
from recording.tools import Outcome

READ_AT_LEAST = 95_000
"""Characters of source to read before the first change; together with the rest this is well over 32k tokens."""
FILES_AT_MOST = 18
PYTEST = "python -m pytest -p no:cacheprovider"
QUICK_TESTS = ("tests/values/", "tests/tokens/")
"""Folders whose tests take a moment only; those in them that name the class are run before and after."""
SMALL, LARGE = 1_200, 20_000
"""Characters: taken for a file of unknown size, and the most that is read side by side."""
OFTEN = {1: "once", 2: "twice"}


@frozen
class Wants:
    """One tool call."""

    tool: str
    arguments: dict[str, Any]


@frozen
class Says:
    """The user's words."""

    text: str


@frozen
class Does:
    """The assistant's words and the tools it calls side by side; without any it waits for the user."""

    text: str
    calls: tuple[Wants, ...] = ()


Plan = Generator[Says | Does, Sequence[Outcome], None]
"""All of a session."""
Part = Generator[Says | Does, Sequence[Outcome], Any]
"""Some steps of it, which may come to a result."""


def does(text: str, *calls: Wants) -> Does:
    """The assistant's next turn."""
    return Does(text, calls)


def shell(command: str) -> Wants:
    """Run a command."""
    return Wants("shell", {"command": command})


def search(pattern: str, paths: str) -> Wants:
    """Search source files."""
    return Wants("search", {"pattern": pattern, "paths": paths})


def read(path: str) -> Wants:
    """Read a whole file."""
    return Wants("read_file", {"path": path})


def edit(path: str, old: str, new: str) -> Wants:
    """Replace a text in a file."""
    return Wants("edit_file", {"path": path, "old": old, "new": new})


def plan() -> Plan:
    """The session: a small feature, asked for, looked into, tested, built, mended, extended and committed."""
    yield Says(texts.TASK)
    home, example = yield from look_around()
    yield from read_on({home, example})
    suite = yield from run_what_is_there()
    yield from build(home)
    yield from tidy(home)
    yield Says(texts.FOLLOW_UP)
    yield from extend(home)
    yield from finish(home, suite)


def look_around() -> Part:
    """Find the class, and how its neighbours do it."""
    _, _, prints = yield does(
        "I'll get my bearings first: recent history, the layout, and which values already have a `__str__`.",
        shell("git log --oneline -12"),
        shell("git status --short; git ls-files | cut -d/ -f1-2 | sort | uniq -c"),
        search("def __str__", "agentctx"),
    )
    (found,) = yield does("Now the class itself.", search("^class Budget", "agentctx"))
    home, example = first_path(found), first_path(prints)
    neighbour = f" next to `{example}`, which prints itself in one line already" if example else ""
    yield does(f"`Budget` lives in `{home}`. I'll read it{neighbour}.", *map(read, filter(None, (home, example))))
    return home, example


def read_on(done: set[str]) -> Part:
    """Read who uses the class, until it is clear that nothing else prints it."""
    uses, formats = yield does(
        "Before I add anything: who uses budgets, and does anybody put one into a text by hand?",
        search(r"\bBudget\b", "agentctx tests"),
        search(r"f\".*\{[a-z_.]*budget\}", "agentctx tests"),
    )
    sizes = yield from largest_files()
    seen, wanted = 0, [path for path in order(uses.output, sizes) if path not in done][:FILES_AT_MOST]
    while wanted and seen < READ_AT_LEAST:
        group, wanted = together(wanted, sizes)
        outcomes = yield does(reading(group, uses.output), *map(read, group))
        seen += sum(len(outcome.output) for outcome in outcomes)
    by_hand = len(formats.output.splitlines()) if formats.ok else 0
    told = f"{by_hand} places put a whole budget into a text" if by_hand else "Nobody formats a whole budget by hand"
    yield does(
        f"{told}, so a `__str__` will do. Let me see the tests that budgets have.",
        shell(f"{PYTEST} -q tests/test_budget.py"),
    )


def largest_files() -> Part:
    """Lines of each source file, by path."""
    (listed,) = yield does(
        "How big are those files? I'd rather read whole files than guess from single lines.",
        shell("git ls-files 'agentctx/*.py' 'tests/*.py' | xargs wc -c | sort -n | tail -40"),
    )
    sizes = {}
    for line in listed.output.splitlines():
        size, _, path = line.strip().partition(" ")
        if path.endswith(".py"):
            sizes[path] = int(size)
    return sizes


def run_what_is_there() -> Part:
    """Find the tests and run them, one line each, to know what passes before anything changes."""
    _, users = yield does(
        "That path was a guess, and a wrong one: the tests mirror the package. Listing them.",
        shell("git ls-files 'tests/*.py' | head -120"),
        shell("git grep -l Budget -- 'tests/*.py' || echo 'none names Budget'"),
    )
    found = [path for path in users.output.split() if path.startswith(QUICK_TESTS)]
    suite = f"{PYTEST} -v {' '.join(found) or 'tests/testing'}"
    (outcome,) = yield does("What passes today, before I touch anything:", shell(suite))
    if not outcome.ok:
        yield does(
            "Not all of it. The failures alone, to know them again later:", shell(f"{suite} -q --tb=no | tail -40")
        )
    return suite


def build(home: str) -> Part:
    """Tests first, then a first version, then one that passes."""
    yield does(
        "I'll write down what it shall say as tests first.",
        Wants("write_file", {"path": test_file(home), "content": texts.TESTS}),
    )
    run = shell(f"{PYTEST} -q {test_file(home)}")
    yield does("They must fail now, with the representation that attrs makes.", run)
    (outline,) = yield does("As expected. Where do the properties begin?", search("^    @|^class |    def ", home))
    anchor = first_property(outline.output)
    yield does("I'll put it in front of them.", edit(home, anchor, texts.FIRST_VERSION + anchor))
    (outcome,) = yield does("And again:", run)
    failed = len(re.findall(r"^FAILED", outcome.output, re.MULTILINE))
    yield does(
        f"{failed} still fail: amounts given as a share of the window are printed as the share, not in tokens. "
        "`reserved`, `trigger_tokens` and `target_tokens` work that out already.",
        edit(home, texts.FIRST_VERSION, texts.SECOND_VERSION),
    )
    yield does(
        "Once more, with the tests around it.", run, shell(f"git status --short; {PYTEST} -q {beside(home)} | tail -15")
    )


def tidy(home: str) -> Part:
    """Ask the linter, do what it says, and tell the user."""
    lint = shell(f"python -m ruff check --no-cache --output-format concise {home} {test_file(home)}")
    (outcome,) = yield does("Green. What does the linter say?", lint)
    if "E711" in outcome.output:
        yield does(
            "Right, `None` is compared with `is`.", edit(home, "self.trigger != None", "self.trigger is not None")
        )
        (outcome,) = yield does("", lint)
    clean = "The linter has nothing to say." if outcome.ok else "What the linter still says is not about this change."
    yield does(f"{texts.DONE} {clean}")


def extend(home: str) -> Part:
    """What the user asked for in the middle: separators, and no word about a reserve of zero."""
    path, run = test_file(home), shell(f"{PYTEST} -q {test_file(home)}")
    yield does(
        "Tests first again: the numbers change and one case is new.",
        Wants("write_file", {"path": path, "content": texts.MORE_TESTS}),
    )
    yield does("", run)
    current = texts.SECOND_VERSION.replace("self.trigger != None", "self.trigger is not None")
    (outcome,) = yield does("Now the method.", edit(home, current, texts.THIRD_VERSION))
    if not outcome.ok:
        yield does("It reads differently by now.", edit(home, texts.SECOND_VERSION, texts.THIRD_VERSION))
    yield does(
        "", run, shell(f"python -m ruff check --no-cache --output-format concise {home} {path}"), shell("git diff")
    )


def finish(home: str, suite: str) -> Part:
    """Run everything beside it once more, commit, and say what was done."""
    (outcome,) = yield does("The diff is what I meant. Everything beside it, line by line:", shell(suite))
    words = "All of it passes." if outcome.ok else "What fails there failed before this change."
    commit = f"git add {home} {test_file(home)} && git commit --quiet -m 'Print a budget in one line'"
    yield does(f"{words} Committing.", shell(f"{commit} && git show --stat --format=%s HEAD"))
    yield does("A last look at how it prints.", shell(texts.SHOW))
    yield does(texts.SUMMARY)


def first_path(outcome: Outcome) -> str:
    """The first path that a search found, or nothing."""
    return outcome.output.partition(":")[0] if outcome.ok else ""


def order(uses: str, sizes: dict[str, int]) -> list[str]:
    """Files to read: a big one early, the package's by how often they use the class, then tests, then others."""
    counted = Counter(line.partition(":")[0] for line in uses.splitlines() if line.partition(":")[0].endswith(".py"))
    used = [path for path, _ in counted.most_common() if not path.startswith("tests/examples/")]
    package = [path for path in used if path.startswith("agentctx/")]
    tests = [path for path in used if path.startswith("tests/")]
    others = [path for path in sorted(sizes, key=lambda path: -sizes[path]) if path.startswith("agentctx/")]
    big = max(package[:6], key=lambda path: sizes.get(path, 0), default=others[0])
    return list(dict.fromkeys((*package[:2], big, *package, *tests[:4], *others)))


def together(wanted: list[str], sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """The files of the next turn, small ones side by side, and those that are left."""
    group: list[str] = []
    room = LARGE
    while wanted and len(group) < 3 and (not group or sizes.get(wanted[0], SMALL) <= room):
        room -= sizes.get(wanted[0], SMALL)
        group, wanted = [*group, wanted[0]], wanted[1:]
    return group, wanted


def reading(group: list[str], uses: str) -> str:
    """Why these files."""
    counts = [(path, sum(line.startswith(f"{path}:") for line in uses.splitlines())) for path in group]
    told = [f"`{path}` ({OFTEN.get(times, f'{times} times')})" for path, times in counts if times]
    if told:
        return f"Uses it: {', '.join(told)}."
    return f"Not a user of it; I read on for how things are worded here: {', '.join(f'`{path}`' for path in group)}."


def beside(home: str) -> str:
    """Return the folder of the tests for a module of the package; those of its root are the values."""
    return "tests/" + ("/".join(home.split("/")[1:-1]) or "values")


def test_file(home: str) -> str:
    """Where the new tests go."""
    return f"{beside(home)}/test_budget_in_words.py"


def first_property(outline: str) -> str:
    """The two lines with which the properties of the class begin, whatever kind of property they are."""
    lines = [line.split(":", 2)[2] for line in outline.splitlines() if line.count(":") >= 2]
    inside = lines[next(at for at, line in enumerate(lines) if line.startswith("class Budget")) :]
    at = next(at for at, line in enumerate(inside) if line.strip().endswith("property"))
    return f"{inside[at]}\n{inside[at + 1]}\n"
