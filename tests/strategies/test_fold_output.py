"""FoldOutput folds by what stands in a text; what an agent needs stays, and nothing gets larger."""

import re

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, Call, ConfigError, FitContextWindow, Pipeline, Text, ToolCall
from agentctx.line_numbers import between
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import FoldOutput
from agentctx.strategies.fold_output import (
    diffs,
    hits,
    html,
    matches,
    numbers,
    paths,
    progress,
    tenths,
    terminal,
    tests as passed,
    traces,
)
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio

MARK = re.compile(r"\[… (\d[\d,]*) .*…\]")
PYTEST = "\n".join(
    [
        "============ test session starts ============",
        *(f"tests/test_api.py::test_case[{number}] PASSED [ {number:2}%]" for number in range(50)),
        "tests/test_api.py::test_broken FAILED [ 99%]",
        *(f"tests/test_ui.py::test_case[{number}] PASSED [ 99%]" for number in range(5)),
        "E       AssertionError: assert 1 == 2",
        "tests/test_api.py:12: AssertionError",
        "============ 1 failed, 55 passed in 2.10s ============",
        "exit code 1",
    ]
)
GO = "\n".join(
    [
        *(f"=== RUN   TestCase{number}\n--- PASS: TestCase{number} (0.00s)" for number in range(30)),
        "--- FAIL: TestBroken (0.00s)",
        "    a_test.go:12: got 1, want 2",
        *(f"ok  \texample.com/pkg{number}\t0.1s" for number in range(9)),
        "FAIL\texample.com/broken\t0.4s",
        "exit status 1",
    ]
)
CARGO = "\n".join(
    [
        "running 21 tests",
        *(f"test case_{number} ... ok" for number in range(20)),
        "test broken ... FAILED",
        "test result: FAILED. 20 passed; 1 failed; 0 ignored",
    ]
)
JEST = "\n".join(
    [
        "FAIL src/a.test.ts",
        *(f"    ✓ does {number} (2 ms)" for number in range(20)),
        "    ✕ breaks (3 ms)",
        "    expect(received).toBe(expected)",
        "Tests:       1 failed, 20 passed, 21 total",
    ]
)
UNITTEST = "\n".join(
    [
        *(f"test_{number} (tests.Api) ... ok" for number in range(20)),
        "test_broken (tests.Api) ... FAIL",
        "Ran 21 tests in 0.1s",
        "FAILED (failures=1)",
    ]
)
RUNS = {"pytest": PYTEST, "go": GO, "cargo": CARGO, "jest": JEST, "unittest": UNITTEST}


def mark(what):
    """What stands for what is left out, without a handle."""
    return f"[… {what} …]"


def is_told(text, folded):
    """Whether what is left of a text are lines of it in their order, and marks that count those that are not there."""
    left = iter(text.split("\n"))
    missing = 0
    for line in folded.split("\n"):
        found = MARK.fullmatch(line)
        if found:
            for _ in range(int(found[1].replace(",", ""))):
                next(left)
            missing += 1
        elif next(left) != line:
            return False
    return missing > 0 and next(left, None) is None


@pytest.mark.parametrize("name", RUNS)
def test_of_a_test_run_failures_summary_and_exit_code_stay(name):
    """Only runs of lines that passed go, all but the first and the last; the counts are right."""
    folded = passed(RUNS[name], mark)
    assert is_told(RUNS[name], folded)
    assert len(folded) < len(RUNS[name]) * 0.7
    for line in RUNS[name].split("\n"):
        if re.search(r"(?i)fail|error|exit|broken|break|want|expect|passed,|ran ", line):
            assert line in folded.split("\n")


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"✓ wrote src/file{number}.py" for number in range(9)),
        "\n".join(f"test case_{number} ... ok" for number in range(9)),
        "\n".join(f"ok {number} things" for number in range(9)),
        "\n".join(f"def test_{number}(): assert passed" for number in range(9)),
        PYTEST.replace(" PASSED", " SKIPPED"),
        "\n".join([*(f"ok {number} - thing # SKIP no database" for number in range(1, 9)), "1..8"]),
        "\n".join([*(f"ok {number} - thing # TODO later" for number in range(1, 9)), "1..8"]),
        "\n".join(f"ok  \tapp/pkg{number}\t0.{number}s\tcoverage: {number}.0% of statements" for number in range(1, 9)),
    ],
)
def test_what_no_runner_has_summed_up_is_left(text):
    """Check marks, code, skipped tests and what says more are no tests that merely passed."""
    assert passed(text, mark) == text


def test_installers_are_folded():
    """The first and the last line of what comes in a row, and all that is none of it."""
    lines = [f"   Compiling crate{number} v1.0.{number}" for number in range(30)]
    text = "\n".join([*lines, "warning: unused variable: `x`", "    Finished dev in 2s"])
    assert progress(text, mark).split("\n") == [
        lines[0],
        "[… 28 more lines of this kind …]",
        lines[-1],
        "warning: unused variable: `x`",
        "    Finished dev in 2s",
    ]


def test_repeated_frames_and_frames_of_libraries_are_folded():
    """The error, one's own frames, and the ends of what is folded stay."""
    own = '  File "/app/main.py", line 3, in main\n    run()'
    lib = "".join(f'  File "/x/site-packages/lib/a.py", line {n}, in f{n}\n    call{n}()\n' for n in range(8))
    two = '  File "/app/a.py", line 1, in a\n    b()\n  File "/app/a.py", line 2, in b\n    a()\n'
    text = f"Traceback (most recent call last):\n{own}\n{lib}{two * 90}RecursionError: too deep"
    folded = traces(text, mark)
    assert folded.split("\n") == [
        "Traceback (most recent call last):",
        *own.split("\n"),
        '  File "/x/site-packages/lib/a.py", line 0, in f0',
        "    call0()",
        "[… 6 more frames of libraries …]",
        '  File "/x/site-packages/lib/a.py", line 7, in f7',
        "    call7()",
        *two.rstrip().split("\n"),
        "[… the 2 frames above 89 times more …]",
        "RecursionError: too deep",
    ]


def test_a_line_that_a_log_repeats_is_said_once():
    """How often is told; short lines, as in code, stay."""
    assert traces("connection refused, retrying\n" * 50 + "gave up", mark).split("\n") == [
        "connection refused, retrying",
        "[… the line above 49 times more …]",
        "gave up",
    ]
    assert traces("}\n" * 50, mark) == "}\n" * 50


def test_long_contexts_of_a_diff_are_folded():
    """Three lines stay beside each change; what is no context stays, also code that looks like it."""
    around = [f" line {number}" for number in range(40)]
    text = "\n".join(
        ["--- a/x", "+++ b/x", "@@ -1,81 +1,81 @@", *around, "-old", "+new", *around, " after", "    not it"]
    )
    folded = diffs(text, mark)
    assert is_told(text, folded)
    assert folded.split("\n")[3:12] == [
        *around[:3],
        "[… 34 lines that are the same …]",
        *around[-3:],
        "-old",
        "+new",
    ]
    assert folded.endswith(" after\n    not it") or "    not it" in folded
    assert diffs("\n".join(around), mark) == "\n".join(around)


def padded(text):
    """Line numbers as ``cat -n`` writes them."""
    return re.sub(r"(?m)^(\d+)([→\t])", lambda found: f"{found[1]:>6}{found[2]}", text)


@given(st.lists(st.text(alphabet="ab \t→1", max_size=6), min_size=3, max_size=30), st.integers(1, 99_900))
def test_line_numbers_come_back(lines, first):
    """Only blanks go; the text of each line, its indentation included, is as it was."""
    text = "\n".join(f"{number:>6}→{line}" for number, line in enumerate(lines, first))
    assert numbers(text, mark) == "\n".join(f"{number}→{line}" for number, line in enumerate(lines, first))
    assert padded(numbers(text, mark)) == text


ODD = st.sampled_from(["", "1→x", "12→", "13\tx", "plain", "   7→x", "9", "→", "<system-reminder>"])
NUMBERED = st.lists(
    st.tuples(
        st.integers(1, 99_900), st.lists(st.text("a →\t12", max_size=4), max_size=25), st.lists(ODD, max_size=12)
    ),
    min_size=1,
    max_size=4,
)


def all_numbers(text):
    """A text with a number before each line whose number others tell."""
    lines = text.split("\n")
    for places in list(between(lines)):
        number, sign = re.match(r"(\d+)([→\t])", lines[places.start - 1]).groups()
        for place in places:
            lines[place] = f"{int(number) + place - places.start + 1}{sign}{lines[place]}"
    return "\n".join(lines)


@given(NUMBERED, st.sampled_from("→\t"), st.data())
def test_numbers_that_others_tell_come_back(runs, sign, data):
    """Of line numbers that count on, those that go are told by those that stay, whatever stands between them."""
    lines = []
    for first, numbered, odd in runs:
        lines += [f"{number:>6}{sign}{line}" for number, line in enumerate(numbered, first)]
        lines += odd
        if odd and data.draw(st.booleans()):  # as if a line of the file itself had no number
            lines.append(f"{first + len(numbered) + len(odd):>6}{sign}on")
    text = "\n".join(lines)
    made = tenths(text, mark)
    assert all_numbers(made) == all_numbers(numbers(text, mark))
    assert made.count("\n") == text.count("\n")
    assert tenths(made, mark) == made
    if not any(between(numbers(text, mark).split("\n"))):
        assert all_numbers(made) == numbers(text, mark)


def in_full(text):
    """Search hits with the path in every line."""
    path, out = "", []
    for line in text.split("\n"):
        found = re.match(r"\d+[:-]", line)
        if found and path:
            out.append(f"{path}{found[0][-1]}{line}")
        else:
            path = line if re.fullmatch(r"[\w./-]+\.\w+", line) else path if line == "--" else ""
            out += [] if path == line else [line]
    return "\n".join(out)


@given(
    st.lists(
        st.tuples(st.sampled_from(("src/a.py", "old/src/a.py", "a.py", "z.md")), st.text(alphabet="ab :-1", max_size=5))
    )
)
def test_search_hits_come_back(found):
    """By file, the path once: with it in each line again they are what they were."""
    text = "\n".join(f"{path}:{number}:{said}" for number, (path, said) in enumerate(found, 7))
    assert in_full(hits(text, mark)) == text


def test_hits_with_lines_beside_them_are_by_file():
    """As ``grep -C`` shows them; a single hit, and what is none, stay as they are."""
    text = "Found 2 files\n" + "src/a.py-1-import x\nsrc/a.py:2:x()\nsrc/a.py-3-\n--\n"
    text += "src/a.py:9:x()\nsrc/b.py:4:x()\nabout 10:30"
    assert hits(text, mark).split("\n") == [
        "Found 2 files",
        "src/a.py",
        "1-import x",
        "2:x()",
        "3-",
        "--",
        "9:x()",
        "src/b.py:4:x()",
        "about 10:30",
    ]
    for other in (
        "10:30:12 started\n10:30:13 ended\n10:30:14 x",
        "a.py\n1:b\na.py:2:c\na.py:3:d\na.py:4:e",
        "k: 1:2\n" * 5,
    ):
        assert hits(other, mark) == other


def test_hits_are_below_the_whole_path():
    """A search may call a file by its whole path in lines beside a hit only: that is said, in its place."""
    text = "src/a.py:1:import x\n/home/dev/src/a.py-2-\n/home/dev/src/a.py-3-x()\nsrc/a.py:4:x()"
    assert hits(text, mark).split("\n") == ["/home/dev/src/a.py", "1:import x", "2-", "3-x()", "4:x()"]


def test_lists_of_paths_are_by_folder():
    """What tools have made is folded where it stands among others; a text with paths in it is no list."""
    inside = [f"src/api/v{number}.py" for number in range(5)]
    made = [f"node_modules/left-pad/{number}.js" for number in range(20)]
    folded = paths("\n".join([*inside, *made, "README.md"]), mark).split("\n")
    assert folded == [
        "src/api/",
        *(f" v{number}.py" for number in range(5)),
        made[0],
        "[… 18 more paths in such folders …]",
        made[-1],
        "README.md",
    ]
    for text in ("\n".join(f"see src/api/v{n}.py" for n in range(9)), "a\nb\nc\nd\ne"):
        assert paths(text, mark) == text
    assert MARK.search(paths("\n".join(made), mark)) is None


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b[1;32mok\x1b[0m\tall", "ok\tall"),
        ("\x1b[1mok\x1b[0m\tall\x1b[K", "ok      all"),
        (" 10%|#   |\r 55%|##  |\r100%|####| done\nnext", "100%|####| done\nnext"),
        (
            "Receiving objects:  9% (1/9)\rReceiving objects: 100% (9/9), done.\n",
            "Receiving objects: 100% (9/9), done.\n",
        ),
        ("one: 1%\ntwo: 1%\x1b[1A\rone: done\x1b[1B\rtwo: done", "one: done\ntwo: done"),
        ("working |\b/\b-\bdone", "working done"),
        ("\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("日本 10%\r日", "日本 10%"),
        ("12%\r\x1b[2K", ""),
        ("a line\r\nand another\r\n", "a line\r\nand another\r\n"),
        ("an old\rtext of\rthe Macintosh\rwith lines", "an old\rtext of\rthe Macintosh\rwith lines"),
        ("\x1b[2J\x1b[Hfull screen", "\x1b[2J\x1b[Hfull screen"),
        ("x\x1b[9999Cy", "x\x1b[9999Cy"),
        ("\tindented\n 5%\r10%\n\tindented", "\tindented\n10%\n\tindented"),
    ],
)
def test_a_terminal_shows_it_so(text, seen):
    """Colours gone, what was written over as it ended; what is not known for sure stays."""
    assert terminal(text, mark) in (seen, seen or text)


def test_a_page_becomes_its_text():
    """Title, headings, lists, tables and links stay; scripts, styles, comments and attributes go."""
    noise = "<script>if (a < b) { document.write('<p>x</p>') }</script><style>p { color: red }</style>" * 40
    text = (
        f"<!DOCTYPE html><html><head><title>Caf&eacute; &amp; more</title>{noise}</head><body class='a > b'>"
        "<!-- <p>no --><h1>Head</h1><p>One\n  two <b>three</b>.</p>"
        "<ul><li>first<li><a href='/x?a=1&amp;b=2'>second</a></ul>"
        "<table><tr><td>1<td>2</tr></table><a href='#top'>up</a></body></html>"
    )
    assert html(text, mark).split("\n") == [
        f"[… the text of a page of HTML, {len(text):,} characters …]",
        "Café & more",
        "Head",
        "One two three.",
        "- first",
        "- second (/x?a=1&b=2)",
        "1 | 2",
        "up",
    ]
    for other in ("<p>a fragment</p>" * 20, "<html>" + "words " * 200 + "</html>", "use <html> in it"):
        assert html(other, mark) == other


def test_preformatted_text_of_a_page_stays_as_it_is():
    """Lines, indentation and blank lines of code stay, also where it is coloured."""
    code = ["def f(x):", "    if x:", "", '        return "a |"', "    return  2"]
    coloured = "\n".join(code).replace("return", "<span class='k'>return</span>")
    text = (
        f"<!DOCTYPE html><html><style>{'p {}' * 99}</style><p>Write:<pre><code>{coloured}</code></pre><p> a  b</html>"
    )
    assert html(text, mark).split("\n")[1:] == ["Write:", *code, "a b"]


PIECES = (
    *RUNS.values(),
    "\n".join(f"{number:>6}→    x = {number}" for number in range(1, 9)),
    "\n".join(f"src/a.py:{number}:  x" for number in range(9)),
    "\x1b[31mred\x1b[0m",
    " 5%\r10%",
    "\r\n",
    "def f(x):\n\tif x:\n\t    return 1  # note\n",
    "a: 1\nb:\n    - c:   2\n",
    "| a  | b |\n|----|---|\n",
    "ordinary words: 12:30",
)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=9)), max_size=6), st.sampled_from(("\n", "", " ")))
def test_nothing_gets_larger_and_a_second_time_does_nothing(pieces, between):
    """Whatever stands beside what; an ordinary text, code, YAML and tables stay to the byte."""
    counter, text = TiktokenCounter(), between.join(pieces)
    view = folded(text)
    assert counter.count(view) <= counter.count(text)
    assert folded(view) == view or counter.count(folded(view)) < counter.count(view)
    assert "\n".join(PIECES[-4:]) == folded("\n".join(PIECES[-4:]))


def folded(text):
    """The text as the stage leaves it where the call lets it be of any kind: a search that names an address."""
    if not FoldOutput().concerns_text(text):
        return text
    asked, told = ToolCall("a", "grep", '{"in": "https://example.com"}'), Call(MessageMeter(TiktokenCounter()))
    return FoldOutput().rewritten(Text(text), told, str, lambda: asked).text


FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]


def rounds(format_name):
    """A task, and a call for each kind of output."""
    turns = [user("task")]
    for place, text in enumerate((*RUNS.values(), *PIECES[5:])):
        turns += [assistant(call(f"c{place}", "bash", {"n": place})), result(f"c{place}", text)]
    return transcript(format_name, *turns)


@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_laws_hold(format_name):
    """Alone and before a cut, in every format."""
    for budget in (Budget(20_000), Budget(900, trigger=800, target=500)):
        await check_laws(Pipeline(FoldOutput(), FitContextWindow()), rounds(format_name), budget, format_name)


async def test_what_is_left_out_can_be_had_back():
    """The first mark of a text names the handle, where the store and the recall tool are there."""
    store = MemoryStore()
    recall = Recall(store, max_tokens=100_000)
    turns = transcript("openai-chat", user("Test it."), assistant(call("a", "bash")), result("a", PYTEST))
    view = await Pipeline(FoldOutput(), store=store).prepare(turns, tools=[recall.definition("openai-chat")])
    marks = re.findall(r"\[… .*…\]", view.messages[2]["content"])
    assert [len(marks), marks[1]] == [2, "[… 3 more lines, passed or without tests …]"]
    handle = re.search(r"recall (\S+)", marks[0])[1]
    assert await recall({"handle": handle}) == PYTEST
    assert [change.reason for change in view.report.in_force] == ["output folded by its kind"]


@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
async def test_a_page_is_folded_where_it_was_fetched_and_not_where_a_file_is_read(format_name, preparing):
    """A file may be read to be edited: its markup stays; the call tells which of them it is."""
    page = "<!DOCTYPE html><html><body>" + '<form action="/orders"><p>Order this</p></form>\n' * 20 + "</body></html>"
    asked = [{"url": "https://shop.example/orders"}, {"path": "templates/orders.html"}, {"command": "cat orders.html"}]
    turns = [each for number, given in enumerate(asked) for each in (
        assistant(call(f"c{number}", "look", given)), result(f"c{number}", page))]  # fmt: skip
    view = await preparing(Pipeline(FoldOutput()), format_name)(transcript(format_name, user("Mend it."), *turns))
    shown = [each.text for message in view.context.messages for each in message.results]
    assert ["/orders" in each for each in shown] == [False, True, True]
    assert "Order this" in shown[0]


async def test_of_many_hits_in_a_file_the_first_and_the_last_stay():
    """Of many lines found in one file the first two and the last stay, with how many there were; each file is named."""
    text = "\n".join(
        f"src/{name}.py:{7 * number + 3}:    x = {name}({number})" for name in "ab" for number in range(20)
    )
    mark = "[… 17 more lines found in this file …]"
    expected = [
        line
        for name in "ab"
        for line in (f"src/{name}.py", f"3:    x = {name}(0)", f"10:    x = {name}(1)", mark, f"136:    x = {name}(19)")
    ]
    assert matches(text, "[… {} …]".format).split("\n") == expected


@pytest.mark.parametrize(
    "form", ["{0}:    x = f({0})", "{1}:12: E501 line too long", "{1}: error: no name x", "{1} hits"]
)
async def test_what_is_no_search_stays(form):
    """Lines of a file in a row, what linters and compilers say, and other numbers are no hits of a search."""
    text = "\n".join(form.format(number, 7 * number) for number in range(1, 40))
    assert matches(text, "[… {} …]".format) == text


@pytest.mark.parametrize(
    ("tool", "asked", "folds"),
    [
        ("bash", {"command": "grep -rn 'x' src"}, True),
        ("bash", {"command": "cd /a && git grep -n x | head -90"}, True),
        ("bash", {"command": "find src | xargs rg -n x"}, True),
        ("grep_search", {"query": "x"}, True),
        ("bash", {"command": "pylint src"}, False),
        ("bash", {"command": "make 2>&1 | grep -n x"}, False),
        ("bash", {"command": "cat ports.yaml"}, False),
        ("read", {"path": "rg.txt"}, False),
    ],
    ids=["grep", "git-grep", "xargs", "tool", "linter", "filter", "file", "read"],
)
@pytest.mark.parametrize("colour", ["", "\x1b[35m"], ids=["plain", "coloured"])
async def test_only_of_what_a_search_found_lines_go(tool, asked, folds, colour):
    """Whether lines with numbers are hits is told by the call: of what linters, compilers and files say each counts."""
    text = "\n".join(f"{colour}src/a.py:{7 * number + 3}: unused function 'f{number}'" for number in range(30))
    messages = transcript("openai-chat", user("x"), assistant(call("a", tool, asked)), result("a", text))
    view = await Pipeline(FoldOutput()).prepare(messages)
    assert ("more lines found in this file" in view.messages[-1]["content"]) is folds


HEAD = "Chunk ID: dd327a\nWall time: {} seconds\nProcess exited with code 1\nOriginal token count: 1960\nOutput:\n"


@pytest.mark.parametrize(
    ("said", "command", "expected"),
    [
        (HEAD.format("0.0021"), "", "Process exited with code 1\nOutput:\n"),
        (HEAD.format("61.5"), "", "Wall time: 61.5 seconds\nProcess exited with code 1\nOutput:\n"),
        (
            HEAD.format("0.0021") + "Total output lines: 533\n\n",
            "",
            "Process exited with code 1\nOriginal token count: 1960\nOutput:\nTotal output lines: 533\n\n",
        ),
        (
            "Command: /bin/zsh -lc 'rg -n '\"'a b'\"\n" + HEAD.format("0.0"),
            "rg -n 'a b'",
            "Process exited with code 1\nOutput:\n",
        ),
        (
            "Command: /bin/zsh -lc 'rg -n x; rm y'\n" + HEAD.format("0.0"),
            "rm y",
            "Command: /bin/zsh -lc 'rg -n x; rm y'\nProcess exited with code 1\nOutput:\n",
        ),
        ("Chunk ID: of the day\nOutput:\n", "", "Chunk ID: of the day\nOutput:\n"),
    ],
)
async def test_of_a_header_what_tells_stays(said, command, expected):
    """Of what Codex says before an output stay how it ended, a long time, and a command that the call does not name."""
    text = "".join(f"line {number} of the output\n" for number in range(9))
    asked = call("a", "exec_command", {"cmd": command, "workdir": "/"})
    messages = transcript("openai-responses", user("x"), assistant(asked), result("a", said + text))
    view = await Pipeline(FoldOutput(kinds=["headers"])).prepare(messages, format="openai-responses")
    assert view.context.messages[-1].results[0].text == expected + text


async def test_a_file_that_begins_with_a_header_stays():
    """What a tool shows of a recorded session is no header of the tool's own."""
    text = HEAD.format("0.1") + "\n".join(f"line {number} of the record" for number in range(40))
    messages = transcript("openai-chat", user("x"), assistant(call("a", "read", {"path": "f"})), result("a", text))
    assert (await Pipeline(FoldOutput()).prepare(messages)).messages[-1] is messages[-1]


@pytest.mark.parametrize("name", ["x", "𓀀𓁀𓂀" * 9], ids=["words", "many-tokens-a-character"])
async def test_shorter_outputs_than_asked_for_stay(name):
    """With a number of tokens, outputs that have no more are sent as they are."""
    passed = [f"tests/test_api.py::test_{number}[{name}] PASSED" for number in range(40)]
    text = "\n".join([*passed, "=== 40 passed in 2.1s ==="])
    messages = transcript("openai-chat", user("x"), assistant(call("a", "bash")), result("a", text))
    size = TiktokenCounter().count(text)
    for over, expected in ((size, text), (size - 1, "[… 38 more lines")):
        view = await Pipeline(FoldOutput(over=over)).prepare(messages)
        assert expected in view.messages[-1]["content"]
    with pytest.raises(ConfigError, match="over"):
        FoldOutput(over=-1)


async def test_kinds_and_tools_can_be_left_out():
    """Unknown kinds are refused."""
    turns = transcript("openai-chat", user("Test it."), assistant(call("a", "bash")), result("a", PYTEST))
    for stage in (FoldOutput(kinds=["hits"]), FoldOutput(exclude=["bash"])):
        assert (await Pipeline(stage).prepare(turns)).messages == turns
    for wrong in (["test"], "tests", 5):
        with pytest.raises(ConfigError):
            FoldOutput(kinds=wrong)


@pytest.mark.parametrize(
    "piece",
    [
        "a::",
        "./",
        "a.b-1",
        "= 1 passed ",
        "\x1b[199Gx\n",
        "\x1b]0;",
        "a\r",
        "    at a (b:1)\n",
        " ",
        "1",
        "<a b='",
        "<!--",
        "<a",
    ],
)
def test_no_text_takes_for_ever(ends, piece):
    """A million characters are folded to their end, whatever they repeat."""
    text = ("<html></p>" if piece.startswith("<") else "") + (piece * 1_000_000)[:1_000_000]
    for fold in (terminal, html, tenths, numbers, hits, paths, passed, progress, traces, diffs):
        ends(fold, text, mark)
