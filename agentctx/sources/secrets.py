"""Secrets taken out of text before a model, and a provider's log, gets to see it.

Two rules. A value that looks like a secret goes whatever it is called (``secret_values``). A value that a secret's
name is given to (``secret_names``) goes too; how readily depends on what kind of text it is: in settings, logs and
environments every value, in source code a quoted one (``token = tokens[0]`` is no secret), elsewhere a quoted one or
one that looks made up by a machine. Text is read as it stands, and as it is seen where colours, escapes, line breaks or
base64 hide what it says. Files that hold nothing but credentials give nothing, files of environment
variables give the names of the variables.

No rule finds every secret: one without a telling name or a known shape (a key in a Kubernetes ``data`` section, say)
is not recognised. What must never leave the machine should not be offered as context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath

from agentctx.sources.hidden_text import Seen, joined, without_escapes
from agentctx.sources.secret_names import (
    is_credential_file,
    is_environment_file,
    is_secret_name,
    names_only_secrets,
)
from agentctx.sources.secret_values import (
    REDACTED,
    Span,
    is_placeholder,
    is_reference,
    keys_in,
    values_in,
    wrapped_in,
)

__all__ = ["REDACTED", "Redactor", "redact_secrets"]

Redactor = Callable[[str, str], str]
"""Takes secrets out of a text, given the name of the file that it is from (empty: no file)."""

_SETTINGS = re.compile(
    r"\.(?:bash|bat|cfg|conf|config|cnf|env|err|ini|json|json5|jsonc|log|plist|properties|ps1|sh|tf|tfvars|"
    r"toml|xml|yaml|yml|zsh)"
)
_CODE = re.compile(
    r"\.(?:c|cc|cjs|cpp|cs|cxx|dart|ex|exs|go|groovy|h|hpp|hs|java|jl|js|jsx|kt|kts|lua|m|mjs|php|pl|py|pyi|r|"
    r"rb|rs|scala|sql|svelte|swift|ts|tsx|vue|zig)"
)
_RUN_COMMANDS = re.compile(r"\.\w{1,40}rc")
"""Settings by their whole name, which ends with no known suffix: ``.npmrc``, ``.pypirc``."""

_HEAD = re.compile(
    r"(?<![\w.-])[.-]{0,2}(?P<name>[A-Za-z_][\w.-]{0,100}+)(?:\\{0,15}[\"'])?\]?(?P<is>\s{0,8}(?::=|=>|==|!=|[:=]))"
)
"""A name and what says that something is given to it. The value is looked at apart: it may hold names itself."""
_QUOTED = re.compile(
    r"\s{0,8}(?:[\w.|\[\] ]{1,60}=\s{0,8})?[bfru]{0,2}"  # what a value is, in code, may stand before it
    r"(?P<quote>\\{0,15}[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,4096}?)(?P=quote)"
)
_BARE = re.compile(
    r"[^\S\r\n]{0,8}(?P<value>\$?\{\{[^\n]{0,200}?\}\}|[^\s\"'`,;&\\](?:(?!\\[nrt])[^\s\"'`,;&]){0,255})"
)
_MORE = re.compile(r"(?:(?<=\\)\r?\n(?=\S)|(?!\\[nrt])[^\s\"'`,;&])*")
"""The rest of a bare value: what is looked at has a limit, what goes has none, and goes on after a broken line."""
_LINE = re.compile(
    r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|set[ \t]+)?(?P<name>[A-Za-z_][\w.-]{0,100})[ \t]*(?P<is>[:=])"
)
_REST = re.compile(r"[^\S\r\n]*(?P<value>[^\s\"'|>&][^\n]*)")
_FLAG = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{2,60})(?P<is>[ \t])")
_WORD = re.compile(r"[^\S\r\n]*(?P<value>[^\s\"'`-][^\s\"'`]*)")
_SET = re.compile(
    r"\b(?:setx|setenv|set[ \t]+-[a-z]{1,4}|gh[ \t]+secret[ \t]+set)[ \t]+(?P<name>[A-Za-z_]\w{0,100})"
    r"(?P<is>[ \t]+(?:(?:--body|-b)[ \t=])?)"
)
_CALL = re.compile(
    r"\b(?:define|(?:get|put|set)env|environ\.(?:get|setdefault)|ENV\.fetch|env)\s{0,4}\(\s{0,4}"
    r"\\?[\"'](?P<name>[A-Za-z_][\w.-]{0,100})\\?[\"'](?P<is>\s{0,4},)"
)
"""What takes a name and what it is given, or what holds where nothing is given to it."""
_PAIR = re.compile(
    r"(?i)\b(?:key|name)(?:\\?[\"'])?\s?[:=]\s?(?:\\?[\"'])?(?P<name>[A-Z_][\w.-]{0,100}+)(?:\\?[\"'])?"
    r"(?P<is>,?\s{1,40}(?:\\?[\"'])?value(?:\\?[\"'])?\s?[:=])"
)
"""A name and its value side by side: ``<add key="ApiKey" value="..."/>``, ``{"name": ..., "value": ...}``."""
_ROW = re.compile(r"\|[ \t]{0,40}[`*]{0,2}(?P<name>[A-Za-z_][\w .-]{0,60}?)[`*]{0,2}[ \t]{0,40}(?P<is>\|)")
_CELL = re.compile(r"[ \t]{0,40}[`*]{0,2}(?P<value>[^\s|`*]{1,4096})[`*]{0,2}[ \t]{0,40}(?:\||$)", re.MULTILINE)
_TAG = re.compile(r"<(?P<name>[A-Za-z_][\w.-]{0,100})(?P<is>)>")
_INSIDE = re.compile(r"(?P<value>[^<\n]{1,4096})</")
_FIELD = re.compile(r"[?&;](?P<name>[A-Za-z_][\w.-]{0,60})(?P<is>=)")
_PLAIN = re.compile(r"(?P<value>[^&;\s\"'`<>]+)")
_FOLDED = re.compile(r"(?m)^(?P<indent>[ \t]*)(?:-[ \t]+)?(?P<name>[\w.-]+):[ \t]*[|>][+-]?\d?[ \t]*\n")
_VARIABLE = re.compile(r"(?P<is>\s*(?:#\s*)?(?:export\s+|set\s+)?[A-Za-z_][\w.-]*\s*[=:]\s*)\S.*")
_RANDOM = re.compile(r"[A-Za-z0-9+/=-]+")
_EXPRESSION = re.compile(r"[A-Za-z_][\w.-]*(?:[\[(<>~!]|==.).*|[\[({].*", re.DOTALL)
"""What computes something, or says which versions will do."""
_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w{0,100}:?[=?+-](?P<default>[^{}\n]{0,256})\}")
_COMPARED = re.compile(r"[a-z]+(?:[_.][a-z0-9]+)+")
_NUMBER = re.compile(r"\d{4,12}")

_ROUNDS = 6
"""How often what is left is looked at again; where something went, two words may have come together."""

Goes = Callable[[str, str, str], bool]
"""Whether a value that is given to the name of a secret is one: by name, by what stands between, and by value."""


def _always(_name: str, _is: str, _value: str) -> bool:
    return True


def redact_secrets(text: str, name: str = "") -> str:
    """The text with ``[redacted]`` where a secret stood; redacting twice changes nothing more.

    The work grows with the text.

    Args:
        text: Anything that a model might be shown.
        name: The name of the file that it is from; empty for what is in no file.
    """
    if is_credential_file(name):
        return f"{REDACTED}: a file of credentials\n" if text else text
    rules = _rules_of(name)
    for _ in range(_ROUNDS):
        told = _without(text, _secrets(text, rules))
        if told == text:
            break
        text = told
    return "\n".join(map(_without_value, text.split("\n"))) if is_environment_file(name) else text


Rule = tuple[re.Pattern[str], re.Pattern[str], Goes]
"""How a name stands before its value, how the value stands, and which values go."""


def _rules_of(name: str) -> tuple[Rule, ...]:
    """How values are given to names in a file of this name."""
    path = PurePath(name.lower())
    suffix = ".cfg" if _RUN_COMMANDS.fullmatch(path.name) else path.suffix
    query = (
        *((_FIELD, _PLAIN, _always), (_SET, _WORD, _always)),
        *((_CALL, _QUOTED, _written_in), (_PAIR, _QUOTED, _always), (_ROW, _CELL, _tabled)),
    )
    if is_environment_file(name):
        return ()
    if _CODE.fullmatch(suffix):
        return *query, (_HEAD, _QUOTED, _written_in), (_HEAD, _BARE, _random)
    if _SETTINGS.fullmatch(suffix):
        heads = ((_HEAD, _QUOTED), (_TAG, _INSIDE), (_LINE, _REST), (_HEAD, _BARE), (_FLAG, _WORD))
        return *query, *((head, value, _setting) for head, value in (*heads, (_PAIR, _BARE)))
    quoted = ((_HEAD, _QUOTED, _always), (_TAG, _INSIDE, _always))
    return *query, *quoted, (_HEAD, _BARE, _assigned), (_FLAG, _WORD, _assigned)


def _secrets(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where secrets stand: in the text as it is, as it is seen, and in what is wrapped in it."""
    plain = [*values_in(text), *_named(text, rules)]
    yield from plain
    for apart in (True, False):
        if (seen := without_escapes(text, apart=apart)) is not None:
            yield from _placed(seen, [*values_in(seen.text), *_named(seen.text, rules)])
            if not apart:
                yield from _across(seen, ())
    yield from _across(Seen(text, [0], [(0, len(text))]), plain)
    for place, content in wrapped_in(text):
        if any(True for _ in values_in(content)) or any(True for _ in _named(content, _rules_of(""))):
            yield place


def _placed(seen: Seen, spans: Iterable[Span]) -> Iterator[Span]:
    return (seen.place(start, end) for start, end in spans)


def _across(seen: Seen, known: Iterable[Span]) -> Iterator[Span]:
    """Where keys stand that a line break or quotes cut in two.

    What is already a whole key goes on only with what looks made up: the next line may be another's.
    """
    whole = joined(seen.text)
    if whole is None:
        return
    ends = dict((*known, *keys_in(seen.text)))
    for start, end in keys_in(whole.text):
        first, last = whole.place(start, end)
        is_cut = last - first > end - start
        if is_cut and (first not in ends or _goes_on(seen.text[ends[first] : last])):
            yield seen.place(first, last)


def _goes_on(rest: str) -> bool:
    return _made_up(re.split(r"\W", rest)[-1])


def _without(text: str, spans: Iterable[Span]) -> str:
    """The text with one mark for each run of secrets that touch each other."""
    pieces: list[str] = []
    done = 0
    for start, end in _merged(spans):
        pieces += (text[done:start], REDACTED)
        done = end
    return "".join((*pieces, text[done:]))


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _named(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where the values stand that are given to the names of secrets."""
    for head, value, goes in rules:
        yield from _given(text, head, value, goes)
    if any(goes is _setting for _, _, goes in rules):
        yield from _blocks(text)
    elif any(goes is _assigned for _, _, goes in rules):
        yield from (span for span in _blocks(text) if _one_made_up(text[slice(*span)]))


def _given(text: str, head: re.Pattern[str], value: re.Pattern[str], goes: Goes) -> Iterator[Span]:
    """Where the values stand that go by one rule."""
    done = 0
    for found in head.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        given = value.match(text, found.end())
        if given is None:
            continue
        if _says_none(found["name"], given["value"]):
            done = given.end("value")
            continue
        if not goes(found["name"], found["is"], given["value"]):
            continue
        done = given.end("value")
        if value in (_BARE, _REST) and (more := _MORE.match(text, done)) is not None:
            done = more.end()
        yield given.start("value"), done


def _says_none(name: str, value: str) -> bool:
    """Whether a value says where the secret is, or will be; and whether it is the folder one is in."""
    if name.lower() == "pwd" and value.startswith(("/", "~")):
        return True
    default = _DEFAULTED.fullmatch(value)
    return is_reference(value) or is_placeholder(value) or (default is not None and not _made_up(default["default"]))


def _blocks(text: str) -> Iterator[Span]:
    """Where the indented lines stand that are under the names of secrets (YAML's ``|`` and ``>``)."""
    done = 0
    for found in _FOLDED.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        inside = re.compile(rf"(?:{found['indent']}[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)++").match(text, found.end())
        if inside is not None:
            done = inside.end()
            lines = inside[0].rstrip("\n")
            begins = inside.start() + len(lines) - len(lines.lstrip())
            yield begins, inside.start() + len(lines)


def _setting(name: str, _is: str, value: str) -> bool:
    """In settings and logs everything that is given to such a name; a PIN is a number."""
    return not value.startswith(REDACTED) and (name.lower() != "pin" or _NUMBER.fullmatch(value) is not None)


def _written_in(name: str, _is: str, value: str) -> bool:
    """In code a short value, or one with spaces or gaps to fill, is a name, a label or a template."""
    if len(value) < 4 or re.search(r"[\s{}%]", value):
        return False
    return names_only_secrets(name) or _made_up(value)


def _assigned(name: str, between: str, value: str) -> bool:
    """In prose what looks made up, or what is written like a setting."""
    if name.lower() == "pin":
        return _NUMBER.fullmatch(value.rstrip(".")) is not None
    if _EXPRESSION.fullmatch(value) or (between.strip() in ("==", "!=") and _COMPARED.fullmatch(value)):
        return False
    tight = between == "=" and names_only_secrets(name) and len(value) >= 4
    return _made_up(value) or (tight and re.search(r"[\d!@#$%^*?]", value) is not None)


def _tabled(_name: str, _is: str, value: str) -> bool:
    """In the next cell of a table what looks made up: others say what a field is for."""
    return _made_up(value)


def _one_made_up(value: str) -> bool:
    return _made_up(value) and len(value.split()) == 1


def _made_up(value: str) -> bool:
    """Prose after a colon is no secret; what has letters and digits, and is long, may be."""
    return len(value) >= 8 and re.search(r"\d", value) is not None and re.search(r"[A-Za-z]", value) is not None


def _random(name: str, between: str, value: str) -> bool:
    """In code what stands without quotes is a name, unless no one would give such a name: it is within a string."""
    if name.isupper() and between == "=" and value.isalnum() and _made_up(value):
        return True  # a variable that a command within the code is given
    digits = sum(character.isdigit() for character in value)
    return len(value) >= 16 and digits >= 3 and _RANDOM.fullmatch(value) is not None and _made_up(value)


def _without_value(line: str) -> str:
    """A line of a file of environment variables: the name stays; what is no assignment and no comment goes."""
    found = _VARIABLE.fullmatch(line.rstrip("\r"))
    if found is not None:
        return found["is"] + REDACTED
    return line if not line.strip() or line.lstrip().startswith("#") else REDACTED
