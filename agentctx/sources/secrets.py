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

from agentctx.sources.secret_names import is_credential_file, is_environment_file, is_secret_name
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
_NAME = r"(?<![\w.-])[.-]{0,2}(?P<name>[A-Za-z_][\w.-]{0,100}+)"
_QUOTED = re.compile(
    _NAME
    + r"(?P<is>(?:\\?[\"'])?\]?(?:\s{0,4}:\s{0,4}[\w.|\[\] ]{1,60}?)?\s{0,8}(?::=|=>|==|!=|[:=])\s{0,8}[bfru]{0,2})"
    + r"(?P<quote>\\?[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,4096}?)(?P=quote)"
)
_BARE = re.compile(
    _NAME + r"(?P<is>(?:\\?[\"'])?[ \t]{0,8}(?::=|=>|[:=])[ \t]{0,8})(?P<value>[^\s\"'`,;&\\][^\s\"'`,;&]*)"
)
_LINE = re.compile(
    r"(?m)^(?P<before>[ \t]*(?:-[ \t]+)?(?:export[ \t]+|set[ \t]+)?)(?P<name>[A-Za-z_][\w.-]{0,100})"
    r"(?P<is>[ \t]*[:=][ \t]*)(?P<value>[^\s\"'|>&][^\n]*)$"
)
_FLAG = re.compile(r"(?<!\S)--?(?P<name>[A-Za-z][\w-]{2,60})(?P<is>[ \t]+)(?P<value>[^\s\"'`-][^\s\"'`]*)")
_TAG = re.compile(r"<(?P<name>[A-Za-z_][\w.-]{0,100})>(?P<value>[^<\n]{1,4096})(?=</(?P=name)>)")
_FOLDED = re.compile(
    r"(?m)^(?P<indent>[ \t]*)(?P<name>[\w.-]+)(?P<is>:[ \t]*[|>][+-]?\d?[ \t]*\n)"
    r"(?P<value>(?:(?P=indent)[ \t]+[^\n]*(?:\n|\Z)|[ \t]*\n)+)"
)
_VARIABLE = re.compile(r"(?P<is>\s*(?:#\s*)?(?:export\s+|set\s+)?[A-Za-z_][\w.-]*\s*[=:]\s*)\S.*")
_REFERENCE = re.compile(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)|\$?\{\{.*\}\}|<[\w .-]+>|true|false|null|none|\[redacted\]", re.IGNORECASE
)


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
        return _QUOTED.sub(_quoted_in_code, text)
    if _SETTINGS.fullmatch(suffix):
        return _settings(text)
    return _BARE.sub(_random, _TAG.sub(_tag, _QUOTED.sub(_quoted, text)))


def _without_value(line: str) -> str:
    """A line of a file of environment variables: the name stays; what is no assignment and no comment goes."""
    found = _VARIABLE.fullmatch(line.rstrip("\r"))
    if found is not None:
        return found["is"] + REDACTED
    return line if not line.strip() or line.lstrip().startswith("#") else REDACTED


def _settings(text: str) -> str:
    """Every value that is given to the name of a secret goes, quoted or not, on one line or on many."""
    for pattern, replace in (
        (_FOLDED, _folded),
        (_QUOTED, _quoted),
        (_TAG, _tag),
        (_LINE, _bare),
        (_BARE, _bare),
        (_FLAG, _bare),
    ):
        text = pattern.sub(replace, text)
    return text


def _quoted(found: re.Match[str]) -> str:
    if not is_secret_name(found["name"]) or _REFERENCE.fullmatch(found["value"]):
        return found[0]
    start, end = (place - found.start() for place in found.span("value"))
    return found[0][:start] + REDACTED + found[0][end:]


def _quoted_in_code(found: re.Match[str]) -> str:
    """In code a short value, or one with spaces or gaps to fill, is a name, a label or a template."""
    value = found["value"]
    if len(value) < 4 or re.search(r"[\s{}%]", value):
        return found[0]
    return _quoted(found)


def _bare(found: re.Match[str]) -> str:
    """The match without its value, which stands at its end."""
    if not is_secret_name(found["name"]) or _REFERENCE.fullmatch(found["value"].rstrip()):
        return found[0]
    return found[0][: -len(found["value"])] + REDACTED


def _random(found: re.Match[str]) -> str:
    """Prose after a colon is no secret; what has letters and digits, and is long, may be."""
    value = found["value"]
    looks_made_up = len(value) >= 8 and re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
    return _bare(found) if looks_made_up else found[0]


def _tag(found: re.Match[str]) -> str:
    return f"<{found['name']}>{REDACTED}" if is_secret_name(found["name"]) else found[0]


def _folded(found: re.Match[str]) -> str:
    """A block of lines under a name (YAML's ``|`` and ``>``)."""
    if not is_secret_name(found["name"]):
        return found[0]
    return f"{found['indent']}{found['name']}{found['is']}{found['indent']}  {REDACTED}\n"
