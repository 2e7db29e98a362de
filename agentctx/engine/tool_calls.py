"""What tool calls did, by the names and the arguments of well-known tools."""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from zlib import crc32

from attrs import define, evolve, field, frozen

from agentctx.core.message import Message, ToolCall, ToolResult
from agentctx.engine.artifacts import Artifact, Did, FileEvent, RunEvent, how_it_ended
from agentctx.engine.shell import patched_files, runs_something, shell_files
from agentctx.errors import ConfigError

ArtifactRule = Callable[[ToolCall, ToolResult | None], Iterable[Artifact] | None]
"""What a call of one's own tool did; None: what the library takes it for."""

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VERBS: Mapping[str, Did] = {
    **dict.fromkeys(("read", "view", "open", "cat", "get", "show", "load"), Did.READ),
    **dict.fromkeys(("write", "save", "put", "overwrite"), Did.WRITTEN),
    **dict.fromkeys(
        ("edit", "replace", "insert", "update", "patch", "modify", "append", "apply", "multi", "undo"), Did.EDITED
    ),
    **dict.fromkeys(("create", "add", "new", "touch", "make"), Did.CREATED),
    **dict.fromkeys(("delete", "remove", "rm", "unlink"), Did.DELETED),
    **dict.fromkeys(("rename", "move", "mv"), Did.RENAMED),
}
_EDITOR_COMMANDS: Mapping[str, Did] = {
    "view": Did.READ,
    "create": Did.CREATED,
    "str_replace": Did.EDITED,
    "insert": Did.EDITED,
    "undo_edit": Did.EDITED,
    "delete": Did.DELETED,
    "rename": Did.RENAMED,
    "write": Did.WRITTEN,
}
_PATHS = (
    *("file_path", "path", "filename", "file_name", "filepath", "filePath", "file", "target_file", "TargetFile"),
    *("AbsolutePath", "absolute_path", "relative_path", "relative_workspace_path", "notebook_path", "old_path"),
    *("source", "src", "uri"),
)
_MAY_BE_TEXT = frozenset(("file", "source", "src", "uri"))
"""Of these arguments one that is long, or has lines, is no path."""
_NEW_PATHS = ("new_path", "destination", "dest", "dst", "target", "new_name", "to", "newPath")
_COMMANDS = ("command", "cmd", "CommandLine", "script", "code", "input", "shell_command")
_FOLDERS = ("workdir", "cwd", "working_directory", "Cwd", "directory")
_SHELLS = frozenset(
    {
        *("bash", "shell", "sh", "zsh", "exec", "execute", "run"),
        *("command", "terminal", "cmd", "python", "ipython", "code", "powershell", "script"),
    }
)
_OPEN_FILE = re.compile(r"\(Open file: (?P<path>[^)\n]{1,400})\)")
_REFUSED = re.compile(
    r"(?i)\A\W{0,4}(?:error|failed|could not|cannot|no replacement|string to replace not found|file has not been read|"
    r"apply_patch verification failed|patch (?:failed|does not apply)|invalid|"
    r"permission denied|access denied|traceback \(most recent|your proposed edit has|<tool_use_error)"
)
LONGEST_PATH = 400
"""Characters of the longest path that is told whole; of a longer one head, checksum and tail are."""


@frozen
class ReadCall:
    """A tool call with its result, and what it did.

    Args:
        call: The call.
        result: What the tool answered; None when that is not there.
        did: What it did.
        stays: The call as it is still to be seen, whole or cut; None when it is left out.
        seen: What it says so that it did.
    """

    call: ToolCall
    result: ToolResult | None
    did: tuple[Artifact, ...]
    stays: ToolCall | None = None
    seen: tuple[Artifact, ...] = ()


def read_calls(
    gone: Iterable[Message], visible: Iterable[Message] = (), rule: ArtifactRule | None = None
) -> Iterator[ReadCall]:
    """The calls in messages that are gone, in their order; then those to be seen whose results are gone.

    Args:
        gone: Messages that are left out, or of which something is.
        visible: Messages that stay, as they are now.
        rule: What calls of tools of one's own did.

    Raises:
        ConfigError: If the rule gives something else than artifacts.
    """
    reader, again = _Reader(rule), _Reader(rule)
    for call, result, stays in _pairs(gone, visible):
        did = tuple(reader.read(call, result))
        seen = () if stays is None else did if stays is call else tuple(again.read(stays, result))
        yield ReadCall(call, result, did, stays, seen)


def artifacts_in(
    gone: Iterable[Message], visible: Iterable[Message] = (), rule: ArtifactRule | None = None
) -> Iterator[Artifact]:
    """What the calls in messages did, in their order; and how what is still to be seen ended, where its result is gone.

    Args:
        gone: Messages that are left out, or of which something is.
        visible: Messages that stay, as they are now: what calls in them say is not told of again, but their results
            may be gone, and files that were named where they are cut.
        rule: What calls of tools of one's own did.

    Raises:
        ConfigError: If the rule gives something else than artifacts.

    Example:
        >>> from agentctx import Message, ToolCall
        >>> from agentctx.memory import artifacts_in
        >>> call = ToolCall("c1", "edit", '{"path": "src/app.py"}')
        >>> [done.path for done in artifacts_in([Message("assistant", (call,))])]
        ['src/app.py']
    """
    for read in read_calls(gone, visible, rule):
        yield from done_by(read)


def done_by(read: ReadCall) -> Iterator[Artifact]:
    """What a call did that is not told yet: of one that is still to be seen, how it ended and what it says no more."""
    for each in read.did:
        if read.stays is None:
            yield each
        elif isinstance(each, RunEvent):
            if each.ended:
                yield evolve(each, times=0)
        elif each not in read.seen:
            yield each


def _pairs(
    gone: Iterable[Message], visible: Iterable[Message]
) -> Iterator[tuple[ToolCall, ToolResult | None, ToolCall | None]]:
    """Each call of what is gone, with its result, and as it stays; each result that is gone with its visible call."""
    gone, visible = tuple(gone), tuple(visible)
    answers: dict[str, deque[ToolResult]] = defaultdict(deque)
    for message in gone:
        for result in message.results:
            answers[result.call_id].append(result)
    now = {message.identity: message for message in visible if message.calls}
    cut = frozenset(message.identity for message in gone if message.calls)
    for message in gone:
        stay = {call.id: call for call in now[message.identity].calls} if message.identity in now else {}
        for call in message.calls:
            yield call, answers[call.id].popleft() if answers[call.id] else None, stay.get(call.id)
    for message in visible if any(answers.values()) else ():
        for call in () if message.identity in cut else message.calls:
            if answers.get(call.id):
                yield call, answers[call.id].popleft(), call


@define
class _Reader:
    """Reads calls in their order: some say only by what stood before them which file, or which command, they mean."""

    rule: ArtifactRule | None
    opened: str = ""
    running: dict[str, str] = field(factory=dict)

    def read(self, call: ToolCall, result: ToolResult | None) -> list[Artifact]:
        found = _ruled(self.rule, call, result)
        if found is None:
            found = list(self._known(call, result))
        text = "" if result is None else result.text
        for opened in _OPEN_FILE.finditer(text[-_TAIL:]):
            self.opened = opened["path"]
        for each in found:
            if isinstance(each, RunEvent) and each.ended.startswith("running "):
                self.running[each.ended.removeprefix("running ")] = each.command
        return found

    def _known(self, call: ToolCall, result: ToolResult | None) -> Iterator[Artifact]:
        """What a call of a tool that the library knows did."""
        arguments = _arguments(call)
        words = _words(call.name)
        refused = result is not None and _refused(result)
        if isinstance(arguments, str):
            arguments = {"input": arguments}
        editor = _EDITOR_COMMANDS.get(_text(arguments.get("command")))
        if editor is not None and _first(arguments, _PATHS):
            yield from _on_files(arguments, editor, refused=refused)
        elif patch := _patch(words, arguments):
            yield from (_unless(refused, event) for event in patch)
        elif _SHELLS & set(words) and (command := _command(arguments)):
            yield from self._ran(command, _text(_first(arguments, _FOLDERS)), result)
        elif "stdin" in words:
            yield from self._continued(arguments, result)
        elif did := _verb(words):
            yield from _on_files(arguments, did, refused=refused)
            if not _first(arguments, _PATHS) and did is Did.EDITED and (opened := _opened(result) or self.opened):
                yield _unless(refused, FileEvent(opened, did))

    def _ran(self, command: str, folder: str, result: ToolResult | None) -> Iterator[Artifact]:
        yield from (event for event in shell_files(command, folder) if _is_path(event.path))
        if runs_something(command):
            yield RunEvent(command, "" if result is None else how_it_ended(result.text, is_error=result.is_error))

    def _continued(self, arguments: Mapping[str, object], result: ToolResult | None) -> Iterator[Artifact]:
        """How a command ended that ran on: what it is asked for is its session."""
        name = str(arguments.get("session_id", ""))
        command = self.running.get(name, f"session {name}")
        ended = "" if result is None else how_it_ended(result.text, is_error=result.is_error)
        if ended and not ended.startswith("running"):
            yield RunEvent(command, ended, times=0)


_TAIL = 2_000


def _ruled(rule: ArtifactRule | None, call: ToolCall, result: ToolResult | None) -> list[Artifact] | None:
    given: object = None if rule is None else rule(call, result)
    if given is None:
        return None
    listed: list[object] = list(given) if isinstance(given, Iterable) else [given]
    found = [each for each in listed if isinstance(each, (FileEvent, RunEvent))]
    if len(found) < len(listed):
        msg = f"the rule of artifacts {rule!r} gave {listed!r}; expected file events and run events, or None"
        raise ConfigError(msg)
    return found


def _arguments(call: ToolCall) -> Mapping[str, object] | str:
    try:
        found: object = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    return found if isinstance(found, Mapping) else call.arguments


def _words(name: str) -> tuple[str, ...]:
    """The words of a tool's name, without the server's that it comes from."""
    return tuple(word.lower() for word in _NAME_WORD.findall(name.rpartition("__")[2]))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _first(arguments: Mapping[str, object], keys: Sequence[str]) -> object:
    return next((arguments[key] for key in keys if arguments.get(key)), None)


def _command(arguments: Mapping[str, object]) -> str:
    """The command of a shell tool; a list of words may be how a shell is started."""
    found = _first(arguments, _COMMANDS)
    if isinstance(found, list) and all(isinstance(word, str) for word in found):
        return str(found[-1]) if len(found) == 3 and found[1].startswith("-") else " ".join(found)
    return _text(found)


def _patch(words: Sequence[str], arguments: Mapping[str, object]) -> list[FileEvent]:
    if "patch" not in words and "diff" not in words:
        return []
    texts = (value for value in arguments.values() if isinstance(value, str))
    return [event for text in texts for event in patched_files(text)]


def _verb(words: Sequence[str]) -> Did | None:
    return next((_VERBS[word] for word in words if word in _VERBS), None)


def _refused(result: ToolResult) -> bool:
    """Whether a tool that is no shell says that it has not done what was asked; in some formats only its words do."""
    said = result.text
    return result.is_error or bool(_REFUSED.match(said[:300])) or how_it_ended(said, is_error=False).startswith("exit")


def _unless(refused: bool, event: FileEvent) -> FileEvent:  # noqa: FBT001 - private, and read as a sentence
    return evolve(event, did=Did.FAILED) if refused and event.did.changes else event


def _on_files(arguments: Mapping[str, object], did: Did, *, refused: bool) -> Iterator[FileEvent]:
    to = _named(_text(_first(arguments, _NEW_PATHS)))
    for path in _paths(arguments):
        yield _unless(refused, FileEvent(path, did, to if did is Did.RENAMED else ""))


def _paths(arguments: Mapping[str, object]) -> Iterator[str]:
    """The files that arguments name, one by one or in a list."""
    listed = arguments.get("files", arguments.get("paths"))
    for given in (arguments, *(listed if isinstance(listed, list) else ())):
        told = given if isinstance(given, Mapping) else {"path": given}
        key = next((key for key in _PATHS if told.get(key)), "path")
        found = _text(told.get(key))
        if found.strip() and not (key in _MAY_BE_TEXT and (len(found) > LONGEST_PATH or "\n" in found)):
            yield _named(found)


def _named(path: str) -> str:
    """A path that a file tool was given, whatever stands in it, in at most ``LONGEST_PATH`` characters."""
    if len(path) <= LONGEST_PATH:
        return path
    checksum = f"{crc32(path.encode(errors='surrogatepass')):08x}"
    half = (LONGEST_PATH - len(checksum)) // 2 - 1
    return f"{path[:half]}…{checksum}…{path[-half:]}"


_NO_PATH = re.compile(r"[`*\n]|\$\(")


def _is_path(path: str) -> bool:
    """Whether a word of a command is a path that it names as it is."""
    return 0 < len(path) <= LONGEST_PATH and bool(path.strip()) and path[0] != "$" and not _NO_PATH.search(path)


def _opened(result: ToolResult | None) -> str:
    found = None if result is None else _OPEN_FILE.search(result.text[-_TAIL:])
    return "" if found is None else found["path"]
