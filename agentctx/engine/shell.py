"""What a shell command does to files, as far as its words say it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import join
from shlex import shlex

from agentctx.engine.artifacts import Did, FileEvent, in_folder

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
_READERS = frozenset(["bat", "cat", "head", "less", "more", "nl", "tail", "wc"])
_WRAPPERS = frozenset(["builtin", "command", "env", "exec", "nice", "nohup", "sudo", "time", "timeout", "xargs"])
_FORMATTERS = frozenset(["black", "gofmt", "gofumpt", "goimports", "isort", "prettier", "rustfmt"])
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
    for words in _simple_commands(_without_heredocs(command)[:LONGEST_COMMAND]):
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


def _words(command: str) -> Iterator[str]:
    """The words and operators of a command; those before the first one that is not closed."""
    lexer = shlex(command, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    try:
        yield from lexer
    except ValueError:
        return


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The commands that pipes, semicolons and lines part, without what they are wrapped in; redirections stay."""
    words: list[str] = []
    for word in (*_words(command), ";"):
        if _OPERATOR.fullmatch(word) and not set("<>") & set(word):
            bare = _unwrapped(words)
            if bare:
                yield bare
            words = []
        else:
            words.append(word)


def _unwrapped(words: Sequence[str]) -> list[str]:
    place = 0
    while place < len(words) and (_ASSIGNMENT.match(words[place]) or words[place] in _WRAPPERS):
        place += 1
        while place < len(words) and words[place - 1] in _WRAPPERS and (words[place][:1] in "-0123456789"):
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
        yield from _named(plain)


def _named(words: list[str]) -> Iterator[FileEvent]:
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
    elif name in _FORMATTERS and (name in ("black", "isort", "rustfmt") or {"-w", "--write", "-l -w"} & set(flags)):
        yield from (FileEvent(file, Did.EDITED) for file in files if "." in file.rpartition("/")[2].strip("."))
    elif name in _READERS:
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


_QUIET = frozenset(
    {
        *("awk", "bat", "cat", "cd", "column", "cut", "date", "diff", "dirname"),
        *("echo", "env", "file", "find", "grep", "head", "jq", "less", "ls"),
        *("nl", "printf", "pwd", "rg", "sed", "sort", "stat", "tail", "test"),
        *("tr", "tree", "true", "uniq", "wc", "which", "xargs"),
    }
)
_QUIET_GIT = frozenset(
    {
        *("blame", "branch", "config", "diff", "grep", "log", "ls-files", "remote", "rev-parse"),
        *("show", "status"),
    }
)


def runs_something(command: str) -> bool:
    """Whether a command does more than look at what is there."""
    return any(map(_is_loud, _simple_commands(_without_heredocs(command)[:LONGEST_COMMAND])))


def _is_loud(words: Sequence[str]) -> bool:
    name = words[0].rpartition("/")[2]
    if name == "git":
        return not any(word in _QUIET_GIT for word in words[1:4])
    return name not in _QUIET or (
        name == "sed" and any(_IN_PLACE.match(word[1:]) for word in words[1:2] if word.startswith("-"))
    )
