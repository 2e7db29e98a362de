"""Secrets taken out of text before a model, and a provider's log, gets to see it.

Two rules. A value that looks like a secret goes whatever it is called (``secret_values``). A value that a secret's
name is given to (``secret_names``) goes too; how readily depends on what kind of text it is: in settings, logs and
environments every value, in source code a quoted one (``token = tokens[0]`` is no secret), elsewhere a quoted one or
one that looks made up by a machine. Files that hold nothing but credentials give nothing, files of environment
variables give the names of the variables.

No rule finds every secret: one without a telling name or a known shape (a key in a Kubernetes ``data`` section, say)
is not recognised. What must never leave the machine should not be offered as context.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath

from agentctx.sources.secret_names import (
    is_credential_file,
    is_environment_file,
    is_secret_name,
    names_only_secrets,
)
from agentctx.sources.secret_values import REDACTED, redact_values

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
_HEAD = re.compile(r"(?<![\w.-])[.-]{0,2}(?P<name>[A-Za-z_][\w.-]{0,100}+)(?:\\?[\"'])?\]?\s{0,8}(?::=|=>|==|!=|[:=])")
"""A name and what says that something is given to it. The value is looked at apart: it may hold names itself."""
_QUOTED = re.compile(
    r"\s{0,8}(?:[\w.|\[\] ]{1,60}=\s{0,8})?[bfru]{0,2}"  # what a value is, in code, may stand before it
    r"(?P<quote>\\?[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,4096}?)(?P=quote)"
)
_BARE = re.compile(r"[ \t]{0,8}(?P<value>\$?\{\{[^\n]{0,200}?\}\}|[^\s\"'`,;&\\][^\s\"'`,;&]*)")
_LINE = re.compile(r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|set[ \t]+)?(?P<name>[A-Za-z_][\w.-]{0,100})[ \t]*[:=]")
_REST = re.compile(r"[ \t]*(?P<value>[^\s\"'|>&][^\n]*)")
_FLAG = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{2,60})[ \t]")
_WORD = re.compile(r"[ \t]*(?P<value>[^\s\"'`-][^\s\"'`]*)")
_TAG = re.compile(r"<(?P<name>[A-Za-z_][\w.-]{0,100})>")
_INSIDE = re.compile(r"(?P<value>[^<\n]{1,4096})</")
_FOLDED = re.compile(r"(?m)^(?P<indent>[ \t]*)(?:-[ \t]+)?(?P<name>[\w.-]+):[ \t]*[|>][+-]?\d?[ \t]*\n")
_VARIABLE = re.compile(r"(?P<is>\s*(?:#\s*)?(?:export\s+|set\s+)?[A-Za-z_][\w.-]*\s*[=:]\s*)\S.*")
_REFERENCE = re.compile(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)|\$?\{\{.*\}\}|<[\w .-]+>|true|false|null|none|\[redacted\]", re.IGNORECASE
)
_RANDOM = re.compile(r"[A-Za-z0-9+/=-]+")


Goes = Callable[[str, str], bool]
"""Whether a value that is given to the name of a secret is one, by name and value."""


def _always(_name: str, _value: str) -> bool:
    return True


def redact_secrets(text: str, name: str = "") -> str:
    """The text with ``[redacted]`` where a secret stood; redacting twice changes nothing more.

    Args:
        text: Anything that a model might be shown.
        name: The name of the file that it is from; empty for what is in no file.
    """
    if is_credential_file(name):
        return f"{REDACTED}: a file of credentials\n" if text else text
    text = redact_values(text)
    if is_environment_file(name):
        return "\n".join(map(_without_value, text.split("\n")))
    suffix = PurePath(name.lower()).suffix
    if _CODE.fullmatch(suffix):
        return _without(_without(text, _HEAD, _QUOTED, _written_in), _HEAD, _BARE, _random)
    if _SETTINGS.fullmatch(suffix):
        return _settings(text)
    text = _without(_without(text, _HEAD, _QUOTED), _TAG, _INSIDE)
    return _without(_without(text, _HEAD, _BARE, _made_up), _FLAG, _WORD, _made_up)


def _settings(text: str) -> str:
    """Every value that is given to the name of a secret goes, quoted or not, on one line or on many."""
    text = _without_blocks(text)
    for head, value in ((_HEAD, _QUOTED), (_TAG, _INSIDE), (_LINE, _REST), (_HEAD, _BARE), (_FLAG, _WORD)):
        text = _without(text, head, value)
    return text


def _without(text: str, head: re.Pattern[str], value: re.Pattern[str], goes: Goes = _always) -> str:
    """The text without the values that stand behind the names of secrets, of those values that ``goes`` says go."""
    pieces: list[str] = []
    done = 0
    for found in head.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        given = value.match(text, found.end())
        if given is None or _REFERENCE.fullmatch(given["value"].rstrip()) or not goes(found["name"], given["value"]):
            continue
        pieces += (text[done : given.start("value")], REDACTED)
        done = given.end("value")
    return "".join((*pieces, text[done:]))


def _without_blocks(text: str) -> str:
    """The text without the indented lines under the names of secrets (YAML's ``|`` and ``>``)."""
    pieces: list[str] = []
    done = 0
    for found in _FOLDED.finditer(text):
        if found.start() < done or not is_secret_name(found["name"]):
            continue
        block = re.compile(rf"(?:{found['indent']}[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)+").match(text, found.end())
        if block is not None:
            pieces += (text[done : block.start()], f"{found['indent']}  {REDACTED}\n")
            done = block.end()
    return "".join((*pieces, text[done:]))


def _written_in(name: str, value: str) -> bool:
    """In code a short value, or one with spaces or gaps to fill, is a name, a label or a template."""
    if len(value) < 4 or re.search(r"[\s{}%]", value):
        return False
    return names_only_secrets(name) or _made_up(name, value)


def _made_up(_name: str, value: str) -> bool:
    """Prose after a colon is no secret; what has letters and digits, and is long, may be."""
    return len(value) >= 8 and re.search(r"\d", value) is not None and re.search(r"[A-Za-z]", value) is not None


def _random(_name: str, value: str) -> bool:
    """In code what stands without quotes is a name, unless no one would give such a name: it is within a string."""
    digits = sum(character.isdigit() for character in value)
    return len(value) >= 16 and digits >= 3 and _RANDOM.fullmatch(value) is not None and _made_up(_name, value)


def _without_value(line: str) -> str:
    """A line of a file of environment variables: the name stays; what is no assignment and no comment goes."""
    found = _VARIABLE.fullmatch(line.rstrip("\r"))
    if found is not None:
        return found["is"] + REDACTED
    return line if not line.strip() or line.lstrip().startswith("#") else REDACTED
