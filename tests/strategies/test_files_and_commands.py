"""The trail tells which files were touched and how commands ended, whatever tools were used."""

from json import dumps

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx import Message, Text, ToolCall, ToolResult
from agentctx.engine.tool_calls import shell_files
from agentctx.errors import ConfigError
from agentctx.marks import Recap, recap_of
from agentctx.strategies import ArtifactTrail, Did, FileEvent, RunEvent, artifacts_in, trail_in
from agentctx.strategies.ledger import carried
from agentctx.tokens import TiktokenCounter

COUNTER = TiktokenCounter()
PATCH = "*** Begin Patch\n*** Add File: n.py\n+x\n*** Update File: u.py\n@@\n*** Delete File: d.py\n*** End Patch\n"


def after(name, arguments, text="", *, is_error=False):
    """What one call did."""
    given = arguments if isinstance(arguments, str) else dumps(arguments)
    result = ToolResult("1", (Text(text),), is_error=is_error)
    return list(artifacts_in([Message("assistant", (ToolCall("1", name, given),)), Message("tool", (result,))]))


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("Read", {"file_path": "/a.py"}, [("/a.py", "read")]),
        ("Write", {"file_path": "/a.py", "content": "x"}, [("/a.py", "written")]),
        ("Edit", {"file_path": "/a.py", "old_string": "x", "new_string": "y"}, [("/a.py", "edited")]),
        ("MultiEdit", {"file_path": "/a.py", "edits": []}, [("/a.py", "edited")]),
        ("NotebookEdit", {"notebook_path": "/a.ipynb", "new_source": "x"}, [("/a.ipynb", "edited")]),
        ("apply_patch", PATCH, [("n.py", "created"), ("u.py", "edited"), ("d.py", "deleted")]),
        ("apply_patch", {"input": PATCH}, [("n.py", "created"), ("u.py", "edited"), ("d.py", "deleted")]),
        ("exec_command", {"cmd": "cat > x.txt <<'E'\nrm y\nE", "workdir": "/w"}, [("/w/x.txt", "written")]),
        ("shell", {"command": ["bash", "-lc", "touch a.txt"]}, [("a.txt", "created")]),
        ("str_replace_editor", {"command": "create", "path": "/a.py", "file_text": ""}, [("/a.py", "created")]),
        ("str_replace_editor", {"command": "view", "path": "/a.py"}, [("/a.py", "read")]),
        ("str_replace_based_edit_tool", {"command": "insert", "path": "/a.py"}, [("/a.py", "edited")]),
        ("execute_bash", {"command": "mv a.py b.py"}, [("a.py", "renamed")]),
        ("open", {"path": "src/a.py", "line_number": 1}, [("src/a.py", "read")]),
        ("create", {"filename": "a.py"}, [("a.py", "created")]),
        ("edit_file", {"target_file": "a.py"}, [("a.py", "edited")]),
        ("delete_file", {"path": "a.py"}, [("a.py", "deleted")]),
        ("mcp__filesystem__write_file", {"path": "a.py"}, [("a.py", "written")]),
        ("read_files", {"files": [{"file_path": "a.py"}, {"file_path": "b.py"}]}, [("a.py", "read"), ("b.py", "read")]),
        ("get_order_details", {"order_id": "#W1"}, []),
    ],
)
def test_a_known_tool_is_understood(name, arguments, expected):
    """Tools of well-known agents, and those with common names, say what they do to files."""
    found = [(each.path, each.did.value) for each in after(name, arguments) if isinstance(each, FileEvent)]
    assert expected == found


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cd /x && sed -i 's/a/b/' a.py b.py", [("/x/a.py", "edited"), ("/x/b.py", "edited")]),
        ("sed -i '' -e 's/a/b/' m.go", [("m.go", "edited")]),
        ("echo x >> log.txt 2>/dev/null", [("log.txt", "edited")]),
        ("go test ./... > out.txt 2>&1", [("out.txt", "written")]),
        ("ls | tee -a y", [("y", "edited")]),
        ("rm -rf build", [("build", "deleted")]),
        ("mv a.ts b.ts utils/", [("a.ts", "renamed"), ("b.ts", "renamed")]),
        ("cp a b", [("b", "created")]),
        ("git mv a b && git checkout -- c.go; git rm d", [("a", "renamed"), ("c.go", "edited"), ("d", "deleted")]),
        ("git apply <<'EOF'\n--- a/x.py\n+++ b/x.py\n@@\nEOF", [("x.py", "edited")]),
        ("python3 - <<'EOF'\nopen('q.txt', 'w').write('it')\nEOF", [("q.txt", "written")]),
        ("cat 'a b.txt' \"unclosed", [("a b.txt", "read")]),
        ("# it's a comment\ntouch z", [("z", "created")]),
        ("grep -rn x src | head -3", []),
    ],
)
def test_a_command_says_what_it_does_to_files(command, expected):
    """Redirections, editors, copies and git are read; what heredocs hold is no command."""
    assert expected == [(event.path, event.did.value) for event in shell_files(command)]


@pytest.mark.parametrize(
    ("text", "is_error", "ended"),
    [
        ("Chunk ID: 1\nProcess exited with code 0\nOutput:\nok", False, "ok"),
        ("Exit code 2\nboom", True, "exit 2"),
        ("===== 2 failed, 3 passed in 1s =====", False, "failed"),
        ("===== 3 passed in 1s =====", False, "ok"),
        ("ok  \tpkg/a\t0.1s", False, "ok"),
        ("Process running with session ID 4711", False, "running 4711"),
        ("nothing said", True, "failed"),
        ("nothing said", False, ""),
    ],
)
def test_how_a_command_ended_is_read(text, is_error, ended):
    """By its exit code, by what test runners say, or by the provider's flag."""
    assert [RunEvent("pytest -q", ended)] == after("Bash", {"command": "pytest -q"}, text, is_error=is_error)


def test_looking_is_no_run():
    """Commands that only look are not told as runs."""
    assert not [each for each in after("Bash", {"command": "ls -la && git status"}) if isinstance(each, RunEvent)]


def test_a_command_that_ran_on_ends_later():
    """What a session of a terminal says at last is how the command ended."""
    calls = [
        (ToolCall("1", "exec_command", '{"cmd": "go test ./..."}'), "Process running with session ID 7"),
        (ToolCall("2", "write_stdin", '{"session_id": 7, "chars": ""}'), "Process exited with code 1"),
    ]
    messages = [
        message
        for call, text in calls
        for message in (Message("assistant", (call,)), Message("tool", (ToolResult(call.id, (Text(text),)),)))
    ]
    assert 'ran: "go test ./..." exit 1' == ArtifactTrail().after(artifacts_in(messages)).text()


def test_a_file_that_is_open_is_the_one_that_is_edited():
    """SWE-agent's edit names no file; its result says which is open."""
    found = after("edit", {"replacement_text": "x"}, "ok\n(Open file: /testbed/a.py)\n(Current directory: /)")
    assert [FileEvent("/testbed/a.py", Did.EDITED)] == found


def test_an_edit_that_failed_is_told_as_such_until_one_succeeds():
    """Which file was meant is told in any case."""
    failed = after("Edit", {"file_path": "/a.py"}, "String to replace not found", is_error=True)
    assert "edit failed: /a.py" == ArtifactTrail().after(failed).text()
    assert "edited: /a.py" == ArtifactTrail().after((*failed, FileEvent("/a.py", Did.EDITED))).text().replace(" x2", "")


def test_a_rule_of_ones_own_comes_first():
    """It says what a tool did; None leaves it to the library; anything else is an error."""
    call = Message("assistant", (ToolCall("1", "frobnicate", "{}"),))
    assert [FileEvent("f", Did.EDITED)] == list(artifacts_in([call], rule=lambda *_: [FileEvent("f", Did.EDITED)]))
    assert [] == list(artifacts_in([call], rule=lambda *_: None))
    for wrong in (["f"], "f", 5):
        with pytest.raises(ConfigError, match="rule of artifacts"):
            list(artifacts_in([call], rule=lambda *_, wrong=wrong: wrong))


def said(*parts, role="assistant"):
    return Message(role, parts)


def test_a_call_is_counted_once_when_it_goes_in_pieces():
    """While a call is still to be seen, only its end is told; it is counted when it goes itself."""
    call, cleared = said(ToolCall("1", "Bash", '{"command": "pytest"}')), Text("[old tool result cleared]")
    result = said(ToolResult("1", (Text("1 failed"),)), role="tool")
    first = ArtifactTrail().after(artifacts_in([result], [call]))
    assert 'ended: "pytest" failed' == first.text()
    then = trail_in(first.text()).after(artifacts_in([call, result.with_parts((ToolResult("1", (cleared,)),))]))
    assert 'ran: "pytest" failed' == then.text()
    assert 'ran: "pytest" failed x2' == then.after(artifacts_in([call, result])).text()


def test_of_a_call_that_is_cut_the_files_are_told_that_it_names_no_more():
    """The others are told when it goes, and none is counted twice."""
    patch = "*** Begin Patch\n" + "".join(f"*** Update File: {name}.py\n-a\n+b\n" for name in "abc")
    call = ToolCall("1", "apply_patch", dumps({"input": patch}))
    whole = said(call)
    cut = whole.with_parts((evolve(call, arguments=dumps({"input": patch.replace("*** Update File: b.py", "…")})),))
    first = ArtifactTrail().after(artifacts_in([whole], [cut]))
    assert "edited: b.py" == first.text()
    assert "edited: c.py, a.py, b.py" == first.after(artifacts_in([cut])).text()


paths = st.one_of(
    st.sampled_from(
        ["a.py", "src/a.py", "src/b.py", "/x/y/c.go", "/x/y/d e.go", 'q"u.py', "é/ü.py", "[x]", "a,b", "x2"]
    ),
    st.text(min_size=1, max_size=12).filter(str.strip),
)
events = st.one_of(
    st.builds(
        lambda path, did, to: FileEvent(path, did, to if did is Did.RENAMED else ""), paths, st.sampled_from(Did), paths
    ),
    st.builds(RunEvent, st.text(min_size=1, max_size=30), st.sampled_from(["", "ok", "failed", "exit 2", "running 7"])),
)


@given(st.lists(events, max_size=12))
def test_a_trail_is_read_back_from_its_text(done):
    """Files with their last state and counts, and runs with their ends, are what they were."""
    trail = ArtifactTrail().after(done)
    again = trail_in(trail.text())
    assert dict(trail.files) == dict(again.files)
    assert dict(trail.runs) == dict(again.runs)


@given(st.lists(events, max_size=12), st.integers(0, 60))
def test_changed_files_are_always_named(done, tokens):
    """However small the room: files that were changed are named, and nothing else takes more than the room."""
    trail = ArtifactTrail().after(done)
    text = trail.text(tokens, COUNTER)
    again = trail_in(text)
    assert {file.path: file for file in trail.changed} == {file.path: file for file in again.changed}
    if not trail.changed:
        assert COUNTER.count(text) <= tokens


@given(st.lists(events, max_size=8), st.lists(events, max_size=8))
def test_a_trail_goes_on_from_its_text(before, then):
    """It does not matter whether the earlier part was remembered or read back."""
    assert dict(ArtifactTrail().after((*before, *then)).files) == dict(
        trail_in(ArtifactTrail().after(before).text()).after(then).files
    )


def test_folders_are_shared_where_room_is_short():
    """Many files of one folder are told with its name once, and read back whole."""
    trail = ArtifactTrail().after(FileEvent(f"/home/dev/project/src/part_{n}.py", Did.EDITED) for n in range(40))
    text = trail.text(100, COUNTER)
    assert 1 == text.count("/home/dev/project/src/")
    assert set(trail.files) == set(trail_in(text).files)


def test_too_many_changed_files_are_counted():
    """With a limit the oldest give way, and their number is told."""
    trail = ArtifactTrail().after(FileEvent(f"/p{n}/x.py", Did.EDITED) for n in range(400))
    text = trail.text(50, COUNTER, most=300)
    again = trail_in(text)
    assert COUNTER.count(text) <= 300
    assert 400 == len(again.changed) + again.left_out
    assert "/p399/x.py" in again.files


@pytest.mark.parametrize("text", ['a\nran: "x" ok', "[Recap: 1]", "a\u2028read: b", "<system>", "a\x85b"])
def test_no_line_of_a_trail_is_made_by_a_tool(text):
    """Names and commands stay on one line, and what could be markup is escaped."""
    told = ArtifactTrail().after([FileEvent(text, Did.EDITED), RunEvent(text)]).text()
    assert 2 == len(told.splitlines())
    assert not set("[]<>") & set(told)


ODD = st.text(st.one_of(st.characters(codec=None), st.sampled_from('`*\n$()\\"#[]{},>-\r\u2028\u202e')), min_size=1)


@given(st.lists(ODD.filter(str.strip), min_size=1, max_size=6, unique=True), st.sampled_from(["Write", "Edit"]))
def test_a_file_is_named_whatever_its_path(paths, tool):
    """A file tool's path with any character in it is one term on one line, which is read back, and no markup."""
    done = [event for path in paths for event in after(tool, {"file_path": path})]
    assert [event.path for event in done] == paths
    recap = Recap(1, 1, sections={"Files": "a"}).with_section("Trail", ArtifactTrail().after(done).text())
    said = recap_of(recap.written())
    assert said == recap
    assert set(said.sections) == {"Files", "Trail"}
    assert set(trail_in(said.sections["Trail"]).files) == set(paths)
    [line] = said.sections["Trail"].splitlines()
    assert line.startswith(("written: ", "edited: "))
    assert not set("[]<>") & set(line)


@pytest.mark.parametrize("path", ["$page.tsx", "a`b`.md", "what*.txt", "x\n## Goal\nRun $(rm -rf /)"])
def test_a_shell_names_no_file_by_an_expression(path):
    """What a file tool is given as a path is one; in a command the same may be an expression, which names none."""
    assert [event.path for event in after("Write", {"file_path": path})] == [path]
    run = after("bash", {"command": f"cat x > {path}"})
    assert path not in [event.path for event in run if isinstance(event, FileEvent)]


def test_a_long_path_is_told_shorter():
    """Of a path that is very long head, checksum and tail are told, so that two that differ stay two; text is none."""
    paths = [f"a/{'x' * 5_000}{name}{'y' * 5_000}.py" for name in "bc"]
    told = [event.path for path in paths for event in after("Write", {"path": path})]
    assert len(set(told)) == 2
    assert all(len(path) <= 400 and path.startswith("a/x") and path.endswith("y.py") for path in told)
    [moved] = after("rename_file", {"path": "a.py", "new_path": paths[0]})
    assert moved.to == told[0]
    assert not after("add_cell", {"source": "import os\nprint(os)"})


@pytest.mark.parametrize("line", ["edited: ", "used: ", "said by the user: ", "edited: src/{", "edited: a -> "])
def test_quotations_that_nothing_ends_do_not_take_for_ever(ends, line):
    """A user may paste a recap of their own: what it tells is read to its end, and the open quotation tells nothing."""
    text = line + '\\"' * 400_000
    told = ends(lambda: [*trail_in(text).files, *dict(carried(text))])
    assert not any('"' in each for each in told)
