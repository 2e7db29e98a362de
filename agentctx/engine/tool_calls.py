"""What tool calls did: to a file, or by running a command.

It is told by the names and the arguments of well-known tools (``artifacts_in``, ``tools.toml``), and of a shell command
as far as its words say it (``shell_files``). ``ArtifactTrail`` tells it on a few lines, which ``trail_in`` reads back.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from itertools import chain
from posixpath import join, normpath
from shlex import shlex
from zlib import crc32

from attrs import define, evolve, field, frozen

from agentctx.errors import ConfigError
from agentctx.lazy import data_file, lazy_pattern
from agentctx.marks import OPEN_QUOTE, TERM, quoted, unquoted
from agentctx.message import Message, ToolCall, ToolResult
from agentctx.protocols import TokenCounter


class Did(StrEnum):
    """What was done to a file.

    Example:
        >>> from agentctx.strategies import Did, FileEvent
        >>> FileEvent("src/app.py", Did.EDITED).did.value
        'edited'
    """

    READ = "read"
    EDITED = "edited"
    WRITTEN = "written"
    CREATED = "created"
    DELETED = "deleted"
    RENAMED = "renamed"
    FAILED = "edit failed"

    @property
    def changes(self) -> bool:
        """Whether the file is, or was meant to be, another one than before."""
        return self is not Did.READ


@frozen
class FileEvent:
    """Something that was done to a file.

    Args:
        path: The file, as the call names it; from the root where the folder of the call is known.
        did: What was done.
        to: Its new name, when it was renamed.

    Example:
        >>> from agentctx.strategies import Did, FileEvent
        >>> FileEvent("src/app.py", Did.EDITED).path
        'src/app.py'
    """

    path: str
    did: Did
    to: str = ""

    def moved(self, folder: str) -> FileEvent:
        """The same of a path that was given from a folder."""
        return evolve(self, path=in_folder(folder, self.path), to=self.to and in_folder(folder, self.to))


@frozen
class RunEvent:
    """A command, or a test, that ran.

    Args:
        command: The command.
        ended: How it ended: ``"ok"``, ``"failed"``, ``"exit 2"``, ``"running 4711"``; empty when that is not known.
        times: How often it ran; 0 when only its end is new.

    Example:
        >>> from agentctx.strategies import RunEvent
        >>> RunEvent("pytest -q", "exit 1").ended
        'exit 1'
    """

    command: str
    ended: str = ""
    times: int = field(default=1, kw_only=True)


Artifact = FileEvent | RunEvent
"""What a call left behind."""


_tools = partial(data_file, "agentctx.engine", "tools.toml")
"""What tools of agents are called."""


@cache
def _names(*kinds: str) -> frozenset[str]:
    return frozenset(name for kind in kinds for name in _tools()[kind])


@cache
def _by_words(kind: str) -> Mapping[str, Did]:
    return {word: Did(did) for did, words in _tools()[kind].items() for word in words}


def in_folder(folder: str, path: str) -> str:
    """A path from the root, when the folder is known."""
    if not folder or path.startswith(("/", "~", "$")) or path[1:2] == ":":
        return path
    return normpath(join(folder, path))


_EXIT = re.compile(
    r"(?i)(?:exit(?:ed)?(?: with)?(?: code| status)?|exit_?code\"?|returncode|return code)"
    r"[ :>=]{1,3}(?P<code>-?\d{1,3})\b"
)
_RUNNING = re.compile(
    r"(?i)process (?:is )?running with session id (?P<id>\w{1,20})|"
    r"running in (?:the )?background with id:? (?P<name>\w{1,40})"
)
_FAILED = re.compile(
    r"(?m)^(?:--- )?FAIL(?:ED)?\b|\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|errors?)\b|^Traceback \(most recent|"
    r"^\S*(?:command not found|No such file or directory)|BUILD FAILED|^error(?:\[\w+\])?:|^fatal: |npm ERR!"
)
_PASSED = re.compile(
    r"(?m)^ok  ?\t|^PASS\b|\b\d{1,6} passed\b|\b0 (?:issues|errors|failures)\b|^OK\b|All checks passed|Build succeeded"
)
_LOOKED_AT = 3_000
"""Characters at either end of a result in which it says how the command ended."""


def how_it_ended(text: str, *, is_error: bool) -> str:
    """How a command ended, by what its result says; empty when it does not say so."""
    seen = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    running = _RUNNING.search(seen)
    if running:
        return f"running {running['id'] or running['name']}"
    code = _EXIT.search(seen[:400]) or _EXIT.search(seen[-200:])
    if code and (code["code"] != "0" or not _FAILED.search(seen)):
        return "ok" if code["code"] == "0" else f"exit {code['code']}"
    if is_error or _FAILED.search(seen):
        return "failed"
    return "ok" if _PASSED.search(seen) else ""


LONGEST_COMMAND = 8_000
"""Characters of a command that are read, besides what stands in its heredocs."""

_HEREDOC = re.compile(r"<<-?[ \t]*(?P<quote>['\"]?)(?P<word>[A-Za-z_]\w{0,40})(?P=quote)(?P<rest>[^\n]*)\n")
_PATCHED = re.compile(
    r"(?m)^\*\*\* (?P<did>Add|Update|Delete) File: (?P<path>[^\n]{1,400})$|^\*\*\* Move to: (?P<to>[^\n]{1,400})$"
)
_DIFFED = re.compile(r"(?m)^--- (?P<old>[^\n\t]{1,400})[^\n]*\n\+\+\+ (?P<new>[^\n\t]{1,400})")
_WRITES = re.compile(
    r"open\([ ]?[rfb]?['\"](?P<open>[^'\"\n]{1,300})['\"],[ ]?(?:mode=)?['\"][wax]|"
    r"Path\([ ]?[rf]?['\"](?P<path>[^'\"\n]{1,300})['\"]\)\.write_|"
    r"writeFile(?:Sync)?\([ ]?['\"](?P<node>[^'\"\n]{1,300})['\"]"
)
_COMMENT = re.compile(r"(?m)^[ \t]*#[^\n]*$")
_OPERATOR = re.compile(r"[();<>|&\n]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_NOWHERE = ("/dev/", "&", "$", "-")


def patched_files(text: str) -> Iterator[FileEvent]:
    """The files that a patch for ``apply_patch``, or a unified diff, adds, updates, deletes and renames."""
    last = ""
    for found in _PATCHED.finditer(text):
        if found["to"]:
            yield FileEvent(last, Did.RENAMED, found["to"].strip())
        else:
            last = found["path"].strip()
            yield FileEvent(last, {"Add": Did.CREATED, "Update": Did.EDITED, "Delete": Did.DELETED}[found["did"]])
    for found in _DIFFED.finditer(text):
        old, new = (re.sub(r"\A[ab]/", "", name.strip()) for name in found.group("old", "new"))
        if new == "/dev/null":
            yield FileEvent(old, Did.DELETED)
        else:
            yield FileEvent(new, Did.CREATED if old == "/dev/null" else Did.EDITED)


def shell_files(command: str, folder: str = "") -> Iterator[FileEvent]:
    """The files that a command reads, writes, edits, deletes and renames.

    Args:
        command: What the shell is given; scripts in it are looked through for files that they open for writing.
        folder: Where it runs, when that is known; names in it are then given as paths from the root.
    """
    yield from (event.moved(folder) for event in patched_files(command))
    written = (next(filter(None, found.groups())) for found in _WRITES.finditer(command))
    yield from (FileEvent(in_folder(folder, path), Did.WRITTEN) for path in written)
    for words in _read_commands(command):
        if words[0] == "cd" and len(words) > 1:
            folder = in_folder(folder, words[1])
        yield from (event.moved(folder) for event in _of_command(words))


def _without_heredocs(command: str) -> str:
    pieces: list[str] = []
    at = 0
    while (found := _HEREDOC.search(command, at)) is not None:
        pieces.append(f"{command[at : found.start()]}{found['rest']}\n")
        end = re.compile(rf"(?m)^[ \t]*{found['word']}[ \t]*$").search(command, found.end())
        at = len(command) if end is None else end.end()
    return _COMMENT.sub("", "".join((*pieces, command[at:])))


def _shell_words(command: str) -> Iterator[str]:
    """The words and operators of a command; those before the first one that is not closed."""
    lexer = shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        yield from lexer
    except ValueError:
        return


def _pipelines(command: str) -> Iterator[list[list[str]]]:
    """Yield the commands of each pipeline together, each as its words."""
    pipeline: list[list[str]] = []
    words: list[str] = []
    for word in (*_shell_words(command), ";"):
        if _OPERATOR.fullmatch(word) and not set("<>") & set(word):
            pipeline += filter(None, [_unwrapped(words)])
            words = []
            if pipeline and word not in ("|", "|&"):
                yield pipeline
                pipeline = []
        else:
            words.append(word)


def _unwrapped(words: Sequence[str]) -> list[str]:
    place = 0
    while place < len(words) and (_ASSIGNMENT.match(words[place]) or words[place] in _names("wrappers")):
        place += 1
        while place < len(words) and words[place - 1] in _names("wrappers") and (words[place][:1] in "-0123456789"):
            place += 1
    return list(words[place:])


def _of_command(words: list[str]) -> Iterator[FileEvent]:
    plain: list[str] = []
    given = iter(words)
    for word in given:
        if set("<>") & set(word) and _OPERATOR.fullmatch(word):
            target = next(given, "")
            if plain and plain[-1].isdigit():
                plain.pop()
            if ">" in word and target and not target.startswith(_NOWHERE) and not target.isdigit():
                yield FileEvent(target, Did.EDITED if ">>" in word else Did.WRITTEN)
        else:
            plain.append(word)
    if plain:
        yield from _files_named(plain)


def _files_named(words: list[str]) -> Iterator[FileEvent]:
    """What a command does to the files among its words."""
    name = words[0].rpartition("/")[2]
    flags = [word for word in words[1:] if word.startswith("-") and len(word) > 1]
    files = [word for word in words[1:] if not word.startswith("-")]
    if name == "git" and len(words) > 1:
        yield from _of_git(words[1:])
    elif name in ("rm", "unlink", "rmdir", "trash"):
        yield from (FileEvent(file, Did.DELETED) for file in files)
    elif name == "touch":
        yield from (FileEvent(file, Did.CREATED) for file in files)
    elif name == "tee":
        yield from (
            FileEvent(file, Did.EDITED if {"-a", "--append"} & set(flags) else Did.WRITTEN)
            for file in files
            if not file.startswith(_NOWHERE)
        )
    elif name in ("mv", "cp", "install", "ln"):
        yield from _moved(files, Did.RENAMED if name == "mv" else Did.CREATED)
    elif name in ("sed", "perl"):
        yield from _of_sed(name, flags, files)
    elif name in _names("formatters") and (
        name in ("black", "isort", "rustfmt") or {"-w", "--write", "-l -w"} & set(flags)
    ):
        yield from (FileEvent(file, Did.EDITED) for file in files if "." in file.rpartition("/")[2].strip("."))
    elif name in _names("readers"):
        yield from (FileEvent(file, Did.READ) for file in files if not file.isdigit())


def _of_git(words: list[str]) -> Iterator[FileEvent]:
    verb, rest = next(((word, words[place + 1 :]) for place, word in enumerate(words) if word in _GIT), ("", []))
    files = [word for word in rest if not word.startswith("-")]
    if verb == "mv":
        yield from _moved(files, Did.RENAMED)
    elif verb == "rm":
        yield from (FileEvent(file, Did.DELETED) for file in files)
    elif verb == "restore" and "--staged" not in rest:
        yield from (FileEvent(file, Did.EDITED) for file in files)
    elif verb == "checkout" and "--" in rest:
        yield from (FileEvent(file, Did.EDITED) for file in rest[rest.index("--") + 1 :])


_GIT = frozenset({"checkout", "mv", "restore", "rm"})


def _moved(files: Sequence[str], did: Did) -> Iterator[FileEvent]:
    """Files under their new names; behind a name that ends with a slash, or of many, they keep their own."""
    if len(files) < 2:
        return
    *sources, target = files
    into = target.endswith("/") or len(sources) > 1
    for source in sources:
        name = join(target, source.rstrip("/").rpartition("/")[2]) if into else target
        yield FileEvent(source, did, name) if did is Did.RENAMED else FileEvent(name, did)


def _of_sed(name: str, flags: Sequence[str], files: Sequence[str]) -> Iterator[FileEvent]:
    short = [flag[1:] for flag in flags if not flag.startswith("--")]
    edits = any(_IN_PLACE.match(flag) for flag in short) or "--in-place" in flags
    given = [file for file in files if not _SCRIPT.search(file)]
    scripted = len(given) < len(files) or any("e" in flag for flag in short)
    named = given if scripted else given[1:]
    if edits or name == "sed":
        yield from (FileEvent(file, Did.EDITED if edits else Did.READ) for file in named if file)


_IN_PLACE = re.compile(r"[Enrpse]{0,4}i")
_SCRIPT = re.compile(r"[\s;{}\\*|^$]|^[\d,$]*[pdq]?$|^s(?P<sign>\W).*(?P=sign)")


def runs_something(command: str) -> bool:
    """Whether a command does more than look at what is there."""
    for words in _read_commands(command):
        name = words[0].rpartition("/")[2]
        if name == "git":
            looks = not _names("quiet_git").isdisjoint(words[1:4])
        elif name == "sed":
            looks = not any(_IN_PLACE.match(word[1:]) for word in words[1:2] if word.startswith("-"))
        else:
            looks = name in _names("quiet")
        if not looks:
            return True
    return False


def settings_in(command: str) -> list[str]:
    """The commands in one that change how later ones run in the same shell: its folder, its environment."""
    return [" ".join(words) for words in _read_commands(command) if words[0] in _names("settings")]


def prints_once(command: str) -> bool:
    """Whether one thing alone prints in a command: what a pipe ends with."""
    read = _without_heredocs(command)
    printing = (each for each in _pipelines(read[:LONGEST_COMMAND]) if each[0][0] not in _names("settings"))
    return len(read) <= LONGEST_COMMAND and sum(1 for _ in printing) <= 1


def _read_commands(command: str) -> Iterator[list[str]]:
    """Yield the commands that pipes, semicolons and lines part, without their wrappers; redirections stay."""
    return chain.from_iterable(_pipelines(_without_heredocs(command)[:LONGEST_COMMAND]))


_STOPPED = re.compile(
    r"(?i)timed[ -]?out|\b(?:rejected|denied|declined|refused|cancel+ed|aborted|interrupted|killed)\b"
    r"|not (?:allowed|permitted)\b|doesn't want|does not want"
)
_LONGEST_REFUSAL = 600
"""Characters; a longer result is what a command has printed."""


def ran_through(result: ToolResult | None) -> bool:
    """Whether nothing in the result of a command says that it was refused, stopped, or still runs."""
    if result is None:
        return False
    text = result.text
    ended = how_it_ended(text, is_error=False)
    if ended.startswith("running ") or (result.is_error and not ended):
        return False
    return len(text) > _LONGEST_REFUSAL or _STOPPED.search(text) is None


def names_file(call: ToolCall) -> bool:
    """Whether a call names a file for a tool that is no shell."""
    arguments = _arguments(call)
    return not isinstance(arguments, str) and not shell_run_of(call)[0] and bool(_first(arguments, "paths"))


def is_search(call: ToolCall) -> bool:
    """Whether a call looks for lines in files, and does nothing else."""
    command, _ = shell_run_of(call)
    if not command:
        return bool(_names("searches") & set(_words(call.name)))
    named = (words[1:2] if words[0] == "git" else [words[0].rpartition("/")[2]] for words in _read_commands(command))
    return not runs_something(command) and any(_names("searches") & set(each) for each in named)


ArtifactRule = Callable[[ToolCall, ToolResult | None], Iterable[Artifact] | None]
"""What a call of one's own tool did; None: what the library takes it for."""

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
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
        >>> from agentctx.strategies import artifacts_in
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
        refused, ended = False, ""
        if result is not None:
            ended = how_it_ended(result.text, is_error=result.is_error)
            # some formats have no flag of an error, only its words
            in_words = _REFUSED.match(result.text[:300]) or how_it_ended(result.text, is_error=False).startswith("exit")
            refused = result.is_error or bool(in_words)
        if isinstance(arguments, str):
            arguments = {"input": arguments}
        editor = _by_words("editor").get(_text(arguments.get("command")))
        if editor is not None and _first(arguments, "paths"):
            yield from _on_files(arguments, editor, refused=refused)
        elif patch := _patch(words, arguments):
            yield from (_unless(refused, event) for event in patch)
        elif _names("shells") & set(words) and (command := _command(arguments)):
            events = shell_files(command, _text(_first(arguments, "folders")))
            yield from (
                event for event in events if 0 < len(event.path) <= LONGEST_PATH and _PLAIN_PATH.match(event.path)
            )
            if runs_something(command):
                yield RunEvent(command, ended)
        elif "stdin" in words and ended and not ended.startswith("running"):
            name = str(arguments.get("session_id", ""))
            yield RunEvent(self.running.get(name, f"session {name}"), ended, times=0)
        elif did := next((_by_words("verbs")[word] for word in words if word in _by_words("verbs")), None):
            yield from _on_files(arguments, did, refused=refused)
            if did is Did.EDITED and not _first(arguments, "paths"):  # the tool edits the file that is open
                open_file = None if result is None else _OPEN_FILE.search(result.text[-_TAIL:])
                if path := self.opened if open_file is None else open_file["path"]:
                    yield _unless(refused, FileEvent(path, did))


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


def _first(arguments: Mapping[str, object], kind: str) -> object:
    return next((arguments[key] for key in _tools()[kind] if arguments.get(key)), None)


def command_of(call: ToolCall) -> str:
    """The command that a call names for a shell; empty where it names none."""
    return run_of(call)[0]


def shell_run_of(call: ToolCall) -> tuple[str, str]:
    """The same of a tool that is a shell; empty for others, which may have arguments that are named alike."""
    arguments, words = _arguments(call), _words(call.name)
    if isinstance(arguments, str) or not _names("shells") & set(words) or _patch(words, arguments):
        return "", ""
    is_editor = _text(arguments.get("command")) in _by_words("editor") and _first(arguments, "paths")
    return ("", "") if is_editor else run_of(call)


def run_of(call: ToolCall) -> tuple[str, str]:
    """The command that a call names for a shell, and the folder; empty where it names none."""
    arguments = _arguments(call)
    return ("", "") if isinstance(arguments, str) else (_command(arguments), _text(_first(arguments, "folders")))


_BESIDES = re.compile(
    r"(?i)time_?out|descri|expla|justif|reason|thought|purpose|yield|max_output|approv|permission|escalat"
)


def rest_of_run(call: ToolCall) -> str:
    """What else a call says of where and how its command runs; not why, how long that may take, or who allows it."""
    arguments = _arguments(call)
    given = {} if isinstance(arguments, str) else arguments
    rest = {
        key: each
        for key, each in given.items()
        if key not in _names("commands", "folders") and not _BESIDES.search(key)
    }
    return json.dumps([call.name, rest], sort_keys=True, default=str)


def _command(arguments: Mapping[str, object]) -> str:
    """The command of a shell tool; a list of words may be how a shell is started."""
    found = _first(arguments, "commands")
    if isinstance(found, list) and all(isinstance(word, str) for word in found):
        return str(found[-1]) if len(found) == 3 and found[1].startswith("-") else " ".join(found)
    return _text(found)


def _patch(words: Sequence[str], arguments: Mapping[str, object]) -> list[FileEvent]:
    if "patch" not in words and "diff" not in words:
        return []
    texts = (value for value in arguments.values() if isinstance(value, str))
    return [event for text in texts for event in patched_files(text)]


def _unless(refused: bool, event: FileEvent) -> FileEvent:  # noqa: FBT001 - private, and read as a sentence
    return evolve(event, did=Did.FAILED) if refused and event.did.changes else event


def _on_files(arguments: Mapping[str, object], did: Did, *, refused: bool) -> Iterator[FileEvent]:
    to = _named(_text(_first(arguments, "new_paths")))
    for path in _paths(arguments):
        yield _unless(refused, FileEvent(path, did, to if did is Did.RENAMED else ""))


def _paths(arguments: Mapping[str, object]) -> Iterator[str]:
    """The files that arguments name, one by one or in a list."""
    listed = arguments.get("files", arguments.get("paths"))
    for given in (arguments, *(listed if isinstance(listed, list) else ())):
        told = given if isinstance(given, Mapping) else {"path": given}
        key = next((key for key in _tools()["paths"] if told.get(key)), "path")
        found = _text(told.get(key))
        if found.strip() and not (key in _names("may_be_text") and (len(found) > LONGEST_PATH or "\n" in found)):
            yield _named(found)


def _named(path: str) -> str:
    """A path that a file tool was given, whatever stands in it, in at most ``LONGEST_PATH`` characters."""
    if len(path) <= LONGEST_PATH:
        return path
    checksum = f"{crc32(path.encode(errors='surrogatepass')):08x}"
    half = (LONGEST_PATH - len(checksum)) // 2 - 1
    return f"{path[:half]}…{checksum}…{path[-half:]}"


_PLAIN_PATH = re.compile(r"(?!\$)(?=[^\n]*\S)(?:(?!\$\()[^`*\n])+\Z")
"""A word of a command that is a path as it stands: no pattern, no variable, nothing that the shell computes."""


@frozen
class ArtifactTrail:
    """What was done to files, and what ran: the latest of each, oldest first.

    Args:
        files: By path.
        runs: By command.
        left_out: How many changed files were too many to be named.

    Example:
        >>> from agentctx.strategies import Did, FileEvent, RunEvent, ArtifactTrail
        >>> trail = ArtifactTrail().after([FileEvent("a.py", Did.EDITED), RunEvent("pytest -q", "failed")])
        >>> print(trail.text())
        edited: a.py
        ran: "pytest -q" failed
    """

    files: Mapping[str, FileTrail] = field(factory=dict)
    runs: Mapping[str, RunTrail] = field(factory=dict)
    left_out: int = 0

    def after(self, done: Iterable[Artifact]) -> ArtifactTrail:
        """The trail with what was done since."""
        files, runs = dict(self.files), dict(self.runs)
        for each in done:
            if isinstance(each, FileEvent):
                known = files.pop(each.path, None)
                files[each.path] = _file_after(known, each)
            else:
                _note_run(runs, each)
        return ArtifactTrail(files, runs, self.left_out)

    @property
    def changed(self) -> tuple[FileTrail, ...]:
        """The files that were changed, or should have been, oldest first."""
        return tuple(file for file in self.files.values() if file.did.changes)

    def text(self, tokens: int | None = None, counter: TokenCounter | None = None, most: int | None = None) -> str:
        """The trail on a few lines, which ``trail_in`` reads back.

        Files that were changed are always named; what ran, and what was read, as far as there is room.

        Args:
            tokens: The room; None: everything is told.
            counter: Counts tokens; needed when there is a limit.
            most: The room when changed files alone need more than ``tokens``; None: they take what they need.
        """
        if tokens is None or counter is None:
            return "\n".join((*_file_lines(self.changed, self.left_out), *self._run_lines(), *_file_lines(self._read)))
        return self._fitted(tokens, counter, most)

    @property
    def _read(self) -> tuple[FileTrail, ...]:
        return tuple(file for file in self.files.values() if not file.did.changes)

    @property
    def changes(self) -> str:
        """All files that were changed, on lines that ``trail_in`` reads back."""
        return "\n".join(_file_lines(self.changed, self.left_out))

    def knowing(self, changes: str) -> ArtifactTrail:
        """The trail with all files of which it names some; ``changes`` are those of a trail that named them all."""
        if not changes:
            return self
        whole = trail_in(changes)
        read = {path: file for path, file in self.files.items() if not file.did.changes}
        return ArtifactTrail({**read, **whole.files}, self.runs, whole.left_out)

    def _fitted(self, tokens: int, counter: TokenCounter, most: int | None) -> str:
        changed, lines = self._changed_lines(tokens, counter, most)
        room = tokens - sum(counter.count(f"{line}\n") for line in lines)
        for run in self._by_weight():
            line = _run_line(run)
            cost = counter.count(f"{line}\n")
            if cost <= room:
                lines.append(line)
                room -= cost
        lines += self._read_lines(room, counter)
        while len(lines) > changed and counter.count("\n".join(lines)) > tokens:
            lines.pop()
        return "\n".join(lines)

    def _changed_lines(self, tokens: int, counter: TokenCounter, most: int | None) -> tuple[int, list[str]]:
        """The lines of changed files: whole names when they take half of the room, else with shared folders."""
        files = self.changed
        lines = _file_lines(files, self.left_out)
        if counter.count("\n".join(lines)) > tokens // 2:
            lines = _file_lines(files, self.left_out, shared=True)
        limit = None if most is None else max(most, tokens)
        while limit is not None and files and counter.count("\n".join(lines)) > limit:
            files = files[max(1, len(files) // 8) :]
            left_out = self.left_out + len(self.changed) - len(files)
            lines = _file_lines(files, left_out, shared=True)
        return len(lines), lines

    def _by_weight(self) -> list[RunTrail]:
        """What ran: tests, builds and what changes the history first, the latest first."""
        latest = tuple(self.runs.values())[::-1]
        return sorted(latest, key=lambda run: not _IMPORTANT.search(run.command))

    def _read_lines(self, room: int, counter: TokenCounter) -> list[str]:
        taken: list[FileTrail] = []
        room -= counter.count("read: \n")
        for file in reversed(self._read):
            cost = counter.count(f", {_file_term(file)}")
            if cost > room:
                break
            room -= cost
            taken.append(file)
        return _file_lines(taken[::-1]) if taken else []

    def _run_lines(self) -> list[str]:
        return [_run_line(run) for run in reversed(tuple(self.runs.values()))]


@frozen
class FileTrail:
    """What is known of a file.

    Args:
        path: The file.
        did: What was last done to it; reading, and a failed edit, are told only while nothing else was done.
        times: How often it was changed; 1 for a file that was only read.
        to: Its new name, when it was renamed.
    """

    path: str
    did: Did
    times: int = 1
    to: str = ""


@frozen
class RunTrail:
    """What is known of a command.

    Args:
        command: The command, on one line.
        ended: How it ended when it last ran; empty when that is not known.
        times: How often it ran, beside what is still to be seen; 0 when only its end is told.
    """

    command: str
    ended: str = ""
    times: int = 1


def _file_after(known: FileTrail | None, event: FileEvent) -> FileTrail:
    """What is known of a file after something else was done to it."""
    if known is None or (event.did.changes and not known.did.changes):
        return FileTrail(event.path, event.did, 1, event.to)
    if not event.did.changes:
        return known
    if event.did is Did.FAILED:
        return evolve(known, times=known.times + (known.did is Did.FAILED))
    new = known.did is Did.CREATED and event.did in (Did.EDITED, Did.WRITTEN)
    return FileTrail(event.path, Did.CREATED if new else event.did, known.times + 1, event.to)


def _note_run(runs: dict[str, RunTrail], event: RunEvent) -> None:
    command = _shown_command(event.command)
    known = runs.pop(command, None)
    times = event.times + (0 if known is None else known.times)
    runs[command] = RunTrail(command, event.ended or ("" if known is None else known.ended), times)


LONGEST_RUN = 160
"""Characters of a command that are told; the rest is said to be left out."""


_AROUND = lazy_pattern(r"\A(?:cd [\w./~-]{1,200} && )+|(?: 2>&1)?(?: ?\| ?(?:tail|head)(?: -n)?(?: ?-?\d{1,6})?)*\Z")
"""What stands around a command and is not part of what it does."""


def _shown_command(command: str) -> str:
    """A command on one line, cut to what is told of it."""
    line = _AROUND.sub("", " ".join(command[: 4 * LONGEST_RUN].split()))
    return line if len(line) <= LONGEST_RUN else f"{line[: LONGEST_RUN - 1]}…"


_IMPORTANT = lazy_pattern(
    r"\b(?:test|tests|pytest|jest|vitest|tox|nox|unittest|lint|check|build|make|mypy|ruff|tsc|clippy|vet|commit|push|"
    r"merge|rebase|install|deploy|migrate)\b"
)


_DONE_IN_ORDER = (Did.CREATED, Did.WRITTEN, Did.EDITED, Did.RENAMED, Did.DELETED, Did.FAILED, Did.READ)


def _file_lines(files: Sequence[FileTrail], left_out: int = 0, *, shared: bool = False) -> list[str]:
    """A line for each thing that was done, the latest file first."""
    lines = []
    for did in _DONE_IN_ORDER:
        found = [file for file in reversed(files) if file.did is did]
        if found:
            lines.append(f"{did.value}: {', '.join(_by_folder(found) if shared else map(_file_term, found))}")
    return [*lines, f"and {left_out} more changed files"] if left_out else lines


def _file_term(file: FileTrail, path: str | None = None) -> str:
    times = f" x{file.times}" if file.times > 1 and file.did.changes else ""
    to = f" -> {quoted(file.to)}" if file.to else ""
    return f"{quoted(file.path if path is None else path)}{to}{times}"


def _by_folder(files: Sequence[FileTrail]) -> Iterator[str]:
    """Terms in which files of one folder share its name: ``src/{a.py, b.py x2}``."""
    folders: dict[str, list[FileTrail]] = {}
    for file in files:
        folders.setdefault(_folder(file), []).append(file)
    for folder, inside in folders.items():
        if folder and len(inside) > 1:
            yield f"{folder}{{{', '.join(_file_term(file, file.path[len(folder) :]) for file in inside)}}}"
        else:
            yield from map(_file_term, inside)


def _folder(file: FileTrail) -> str:
    """The folder that a file may share with others; empty when its name has to be quoted."""
    before, slash, name = file.path.rpartition("/")
    return f"{before}/" if slash and name and quoted(file.path) == file.path and not file.to else ""


def _run_line(run: RunTrail) -> str:
    times = f" x{run.times}" if run.times > 1 else ""
    return f"{'ran' if run.times else 'ended'}: {_in_quotes(run.command)}{run.ended and ' ' + run.ended}{times}"


def _in_quotes(text: str) -> str:
    term = quoted(text)
    return term if term.startswith('"') else f'"{term}"'


def trail_in(text: str) -> ArtifactTrail:
    """The trail that a text tells; lines that are none of its own say nothing.

    Example:
        >>> from agentctx.strategies import trail_in
        >>> sorted(trail_in("edited: src/{app.py, view.py}").files)
        ['src/app.py', 'src/view.py']
    """
    files: list[FileTrail] = []
    runs: list[RunTrail] = []
    left_out = 0
    for line in text.splitlines():
        if found := _FILES.fullmatch(line):
            files += _files_in(Did(found["did"]), found["files"])
        elif found := _RAN.fullmatch(line):
            times = 0 if found["what"] == "ended" else int(found["times"] or 1)
            runs.append(RunTrail(unquoted(found["command"]), found["ended"] or "", times))
        elif found := _MORE.fullmatch(line):
            left_out += int(found["more"])
    return ArtifactTrail(
        {file.path: file for file in reversed(files)}, {run.command: run for run in reversed(runs)}, left_out
    )


_FILES = lazy_pattern(rf"(?P<did>{'|'.join(did.value for did in Did)}): (?P<files>.+)")


_RAN = lazy_pattern(
    r"(?P<what>ran|ended): (?P<command>\"(?:[^\"\\\n]|\\.)*+\")"
    r"(?: (?P<ended>ok|failed|exit -?\d{1,3}|running \w{1,40}))?"
    r"(?: x(?P<times>\d{1,6}))?"
)


_MORE = lazy_pattern(r"and (?P<more>\d{1,9}) more changed files")


_FILE_TERM = lazy_pattern(
    rf"(?P<open>[\w./~@+%:#$€£-]+/)\{{|(?P<close>\}})|(?P<path>{TERM})(?: -> (?P<to>{TERM}))?"
    rf"(?: x(?P<times>\d{{1,6}})(?=[,}}]|$))?|{OPEN_QUOTE}"
)


def _files_in(did: Did, text: str) -> Iterator[FileTrail]:
    folder = ""
    for found in _FILE_TERM.finditer(text):
        if found["open"]:
            folder = found["open"]
        elif found["close"]:
            folder = ""
        elif found["path"]:
            yield FileTrail(
                folder + unquoted(found["path"]), did, int(found["times"] or 1), unquoted(found["to"] or "")
            )
