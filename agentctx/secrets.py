"""Secrets taken out of text before a model, and a provider's log, gets to see it; and text as a reader sees it.

Two rules. A value that looks like a secret goes whatever it is called (``secret_spans``). A value that a secret's
name is given to (``is_secret_name``) goes too; how readily depends on what kind of text it is: in settings, logs and
environments every value, in source code a quoted one (``token = tokens[0]`` is no secret), elsewhere a quoted one or
one that looks made up by a machine. Text is read as it stands, and as it is seen where colours, escapes, line breaks or
base64 hide what it says (``Seen``). Files that hold nothing but credentials give nothing, files of environment
variables give the names of the variables.

No rule finds every secret: one without a telling name or a known shape (a key in a Kubernetes ``data`` section, say)
is not recognised; nor is a password of letters alone, or of several words, in a sentence ("the password is sunshine"):
it reads as prose does. Nor are a wallet's words where nothing says that they are, nor ``session_id=...``: tools name
sessions that the model has to name again. What must never leave the machine should not be offered as context. (Why own
rules: of 137 secrets in a log these find all, detect-secrets 23; ``benchmarks/redaction.py`` compares them.)
"""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from attrs import frozen

from agentctx.lazy import data_file, lazy_pattern

if TYPE_CHECKING:
    from pathlib import PurePath

_NAME_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_EXAMPLES = ("dist", "example", "sample", "template")


@cache
def _data() -> Mapping[str, Any]:
    """Read the shapes of secrets, and the words in their names."""
    data = data_file("agentctx", "secrets.toml")
    return {**data, **{name: frozenset(words) for name, words in data["names"].items()}}


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, key or header of this name holds a secret."""
    words = _words(name)
    data = _data()
    if not words or words[-1] in data["about"] or words == ["oldpwd"]:  # that is the folder one came from
        return False
    before = words[-2] if len(words) > 1 else ""
    return (
        names_only_secrets(name)
        or words[-1] in data["secret"]
        or (words[-1].endswith("token") and before not in data["places"])
        or (words[-1] in ("pass", "pat") and before != "")
        # As environment variables with keys of services are named: AZURE_OPENAI_KEY.
        or (name.isupper() and words[-1] == "key" and before != "" and before not in data["other_keys"])
    )


@lru_cache(maxsize=4_096)
def names_only_secrets(name: str) -> bool:
    """Whether nothing but a secret has such a name; a ``token`` may also be a word, and ``auth`` a method."""
    words, data = _words(name), _data()
    if any(word.endswith(tuple(data["endings"])) for word in words) or "secrets" in words:
        return True
    pairs = list(pairwise(words))
    return ("connection", "string") in pairs or any(
        second == "key" and first in data["before_keys"] for first, second in pairs
    )


def _words(name: str) -> list[str]:
    """The words of a name, without a number at its end: ``TOKEN_2`` is another token."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return words[:-1] if len(words) > 1 and words[-1].isdigit() else words


def is_environment_file(name: str) -> bool:
    """Whether a file of this name holds environment variables, any of which may be a secret (``.env.local``)."""
    base = _path(name).name.lower()
    named = base in (".env", ".envrc") or base.startswith(".env.") or base.endswith(".env")
    return named and not base.endswith(_EXAMPLES)


def is_credential_file(name: str) -> bool:
    """Whether a file of this name holds nothing but credentials."""
    path = _path(name.lower())
    return path.name in _data()["credential_files"] or path.suffix in _data()["credential_suffixes"]


def _path(name: str) -> PurePath:
    from pathlib import PurePath  # noqa: PLC0415 - loads much, for files only

    return PurePath(name)


REDACTED = "[redacted]"
"""What stands where a secret stood."""

_FREE = r"(?:(?<![A-Za-z0-9_-])|(?<=-)(?<![A-Za-z0-9_-]-)|(?<=^--)|(?<=[A-Z]_))"
"""Behind what is no part of the word: a blank or sign, a diff's one or two minus signs, a variable's name."""

_OF_TOKENS = r"[\w.~:$=+/,-]"
_LONG_WORD = lazy_pattern(rf"(?<!{_OF_TOKENS}){_OF_TOKENS}{{15,}}+")
"""What a token is, or is a part of: none has other characters, or fewer."""

_PEM = lazy_pattern(
    r"-----BEGIN (?P<kind>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END (?P=kind)-----|\Z)", re.DOTALL
)
_PEM_END = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_NO_USERS = lazy_pattern(
    r"(?i)(?:.*[._-])?(?:acct|account|author|b?cc|by|contact|e?mails?|for|from|id|login|mailto|maintainer|name|npm|on|"
    r"recipient|reply|sender|sips?|to|user|username|with|workspace|xmpp)"
)
"""What stands before an address of a person and a colon."""
_SCHEMES = lazy_pattern(r"(?i)mailto|npm|sips?|workspace|xmpp")
_NUMBERED_HOST = lazy_pattern(r"localhost|\d{1,3}(?:\.\d{1,3}){3}")
_SAYS_WHO = lazy_pattern(r"(?i)(?:apikey|aws4|basic|bearer|digest|negotiate|token)\b|[^\n]*[=\d]")
_OF_WHAT = (
    r"(?:[ \t](?:for|of|on|to|für|von|pour|de|du|para|per|di|do|van|voor|от|для|к|на)[ \t][^\n.:;,=?]{1,40}?)?"
    r"(?:[ \t]{1,2}\([^()\n]{1,40}\))?"
)
_IS = (
    r"(?:is(?:[ \t]now)?|was|will[ \t](?:now[ \t])?be|"
    r"(?:(?:is|was|has[ \t]been|now)[ \t])?(?:set|changed|reset)[ \t]to|"
    r"ist|war|lautet|est|es|era|è|é|är|er|on|jest|to)"
)
_SIGN = r"(?:[ \t]{0,4}(?::=|=>?|->|[:\uff1a\u2192])[ \t]{0,4})"
_VALUE = r"[\"'`*]{0,3}(?P<secret>[^\s\"'`<>]{7,255}[^\s\"'`<>.,;:?)*])"
_ALONE = (
    r"(?:[ \t]{1,40}|[ \t]{0,4}:?[ \t]{0,4}(?:[|>][+-]?[ \t]{0,4})?(?:\r?\n|<br ?/?>)[ \t]{0,40})"
    r"[\"'`*]{0,3}(?P<alone>[^\s\"'`<>\\]{9,255}[^\s\"'`<>\\.,;:?)*])"
)
"""What stands beside the word, or on the line below it, without anything that says that it is one."""
_SAID = rf"{_OF_WHAT}(?:[ \t]+{_IS}:?[ \t]+|{_SIGN}){_VALUE}"
_IN_ENGLISH = lazy_pattern(
    r"[PpTtSsAa](?<![A-Za-z_][PpTtSsAa])(?:(?:ass|ASS)(?i:word|phrase|code|wd)?|(?<=[Pp])[Ww][Dd]?|oken|OKEN|ecret|ECRET|"
    rf"(?:pi|PI|ccess|CCESS|ecret|uth|UTH)[ _-]?(?i:key|token))(?:{_SAID}|{_ALONE})"
)
_KEY_IN_ENGLISH = lazy_pattern(rf"[Kk](?<=[A-Za-z][ \t][Kk])(?:ey|EY){_SAID}")
_BEFORE_KEY = lazy_pattern(r"(?<![\w-])(?P<of>[A-Za-z-]{2,12})[ \t]\Z")
_ITS_KEY = frozenset(("my", "wi-fi", "wifi", "wpa", "license", "licence", "activation", "recovery"))
_TECHNICAL = lazy_pattern(
    r"(?:aes|argon|base|bcrypt|ecdsa|ed|es|http|iso|md|oauth|pbkdf|ps|rfc|rs|rsa|sha|utf|v|x)[-_]?\d.*|"
    r".*[(\[{/\\].*|.*\.[a-z]{1,5}\d?|.*\d\.\d.*|\d{4}-\d\d.*|\d+[- _][a-z-]+",
    re.IGNORECASE,
)
"""What is said of a password, or a token, that is none: how it is made, where it stands, when it was set, how long."""
_BELOW = lazy_pattern(r":[ \t]{0,8}\r?\n[ \t]{1,40}(?P<value>[^\s\"'`,;&:=()\[\]{}<>]{8,256})(?=\s|\Z)")
_BEFORE = lazy_pattern(r"[A-Za-z_][\w.-]{0,100}\Z")
"""A value on the line below its name, and that name."""
_REFERENCE = lazy_pattern(
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\(.*\)|\$?\{\{.*\}\}|<[\w .-]+>|%[A-Z_]+%|true|false|null|none|"
    r"undefined|\*+|\[redacted\]|\$?\{[A-Z_][\w.]*\}|\{%[^\n]*%\}|"
    r"projects/[^/\s]+/secrets/[^/\s]+(?:/versions/\w+)?|arn:aws[\w-]*:(?:secretsmanager|ssm):[\w:/.-]+|op://\S+",
    re.IGNORECASE,
)
_PLACEHOLDER = lazy_pattern(
    r"string|str|test|example|placeholder|same-origin|include|omit|x{3,}|\.{2,}|"
    r"<?(?:your|insert|enter|replace)(?:[_ -][a-z]{1,40}){1,8}>?",
    re.IGNORECASE,
)
_SCHEME_OF = lazy_pattern(r"(?i)(?:apikey|basic|bearer|token)[ \t]+")


def is_reference(value: str) -> bool:
    """Whether a value only says where the secret is, or that there is none."""
    return _REFERENCE.fullmatch(value.rstrip()) is not None


def is_placeholder(value: str) -> bool:
    """Whether a value stands where a secret will, in documentation and tests: ``YOUR_API_KEY``."""
    return _PLACEHOLDER.fullmatch(value.strip()) is not None


def _says_who(match: re.Match[str]) -> bool:
    """Whether what a header says is who asks, and not where that is to be put: ``Bearer <token>``."""
    if _SAYS_WHO.match(match["secret"]) is None:
        return False
    told = _SCHEME_OF.sub("", match["secret"].rstrip(), 1)
    return not (is_reference(told) or is_placeholder(told))


def _is_of_a_user(match: re.Match[str]) -> bool:
    """Whether a password stands in an address without a scheme: in ``bob:…@db:5432``, and not in ``mailto:bob@…``.

    Where neither a port nor a path follows, nor the host is a number, the address may be a person's: there a password
    has large and small letters and digits.
    """
    value, host, port = match["secret"], match["host"], match["port"] or ""
    if _SCHEMES.fullmatch(match["user"]) or is_reference(value) or is_placeholder(value):
        return False
    has_letters, has_digits = re.search(r"[A-Za-z]", value) is not None, re.search(r"\d", value) is not None
    if port.startswith(":") or host.endswith("(") or _NUMBERED_HOST.fullmatch(host):
        return has_letters and _TECHNICAL.fullmatch(value) is None
    if _NO_USERS.fullmatch(match["user"]):
        return False
    if port:
        return has_letters and has_digits and _TECHNICAL.fullmatch(value) is None
    return "." in host and value.lower() != value != value.upper() and _is_told(value)


def _is_password(match: re.Match[str]) -> bool:
    """Whether a sentence says what a password is, or a password stands beside the word."""
    return _is_told(match["secret"]) if match["secret"] is not None else _is_random(match["alone"])


def _is_key(match: re.Match[str]) -> bool:
    """Whether a sentence says what a key is: an API key, a signing key."""
    before = _BEFORE_KEY.search(match.string[max(0, match.start() - 14) : match.start()])
    kind, value = "" if before is None else before["of"].lower(), match["secret"]
    is_secret = kind in _ITS_KEY or kind in _data()["before_keys"]
    return is_secret and _is_told(value) and value.isascii() and not value.startswith("id_")


_CHECKS: Mapping[str | None, Callable[[re.Match[str]], bool]] = {
    None: lambda match: not is_reference(match["secret"]),
    "always": lambda _match: True,
    "header": _says_who,
    "seed": lambda match: len(re.findall(r"[a-z]+", match["secret"])) in (12, 15, 18, 21, 24),
    "told": lambda match: _is_told(match["secret"]),
    "user": _is_of_a_user,
}
"""Which matches of a rule are secrets, by the name of the check."""


@frozen
class _Rule:
    """How a secret stands in a text.

    Args:
        words: One of these words stands in such a text, in small letters.
        pattern: Matches the secret, and what stands around.
        goes: Whether a match is a secret.
    """

    words: Iterable[str]
    pattern: re.Pattern[str]
    goes: Callable[[re.Match[str]], bool]

    def spans(self, text: str, small: str) -> Iterator[Span]:
        """Yield where such secrets stand in a text, which is given in small letters, too."""
        if any(word in small for word in self.words):
            for match in self.pattern.finditer(text):
                if self.goes(match):
                    yield match.span("alone" if match["secret"] is None else "secret")


@cache
def _shapes() -> tuple[re.Pattern[str], tuple[_Rule, ...], tuple[_Rule, ...]]:
    """Compile the pattern of all tokens, the rules for keys of known services, and all other rules."""
    data = _data()
    unmistakable, tokens, passwords = (data[name] for name in ("unmistakable", "tokens", "passwords"))
    token = rf"(?:{'|'.join(unmistakable)})(?![A-Za-z0-9])|{_FREE}(?:{'|'.join(tokens)})(?![A-Za-z0-9])"
    in_others = (
        rf"(?i)(?:{'|'.join(passwords)})"
        rf"(?:{_OF_WHAT}[ \t]{{0,4}}(?:[:=\uff1a\u662f\u306f]|->|{_IS}:?[ \t])[ \t]{{0,4}}{_VALUE}|{_ALONE})"
    )
    keys, said = (
        tuple(
            _Rule(rule["words"], lazy_pattern("".join(rule["pattern"])), _CHECKS[rule.get("check")])
            for rule in data[table]
        )
        for table in ("keys", "said")
    )
    in_words = (
        _Rule(("pass", "pw", "token", "secret", "key"), _IN_ENGLISH, _is_password),
        _Rule(passwords, lazy_pattern(in_others), _is_password),
        _Rule((" key",), _KEY_IN_ENGLISH, _is_key),
    )
    return re.compile(token, re.MULTILINE), keys, (*said, *in_words)


def _in_small_letters(text: str) -> str:
    """The text as those patterns compare it that do not mind the case."""
    small = text.lower()
    return small if small.isascii() else small.replace("\u017f", "s").replace("\u0131", "i").replace("\u0307", "")


def keys_in(text: str) -> Iterator[Span]:
    """Where keys of known services stand."""
    token, rules, _ = _shapes()
    if token.search("\n".join(set(_LONG_WORD.findall(text)))) is not None:  # three times as fast as all of the text
        yield from (match.span() for match in token.finditer(text))
    small = _in_small_letters(text)
    for rule in rules:
        yield from rule.spans(text, small)


def secret_spans(text: str, keys: Iterable[Span] | None = None) -> Iterator[Span]:
    """Where there is what looks like a secret: keys, private keys, passwords in URLs, headers and commands.

    Args:
        text: The text.
        keys: What ``keys_in`` finds in it, where that is known.
    """
    private = [match.span() for match in _PEM.finditer(text)]
    yield from private
    ends = {end for _, end in private}
    alone = [match.end() for match in _PEM_END.finditer(text) if match.end() not in ends]
    if alone:  # its beginning was cut off: everything before it may be the key
        yield 0, alone[-1]
    yield from keys_in(text) if keys is None else keys
    small = _in_small_letters(text)
    for rule in _shapes()[2]:
        yield from rule.spans(text, small)


_RANDOM_WORD = lazy_pattern(r"[\w!@#$%^&*+~-]+", re.ASCII)
_TURN = lazy_pattern(r"[A-Za-z](?=\d)|\d(?=[A-Za-z])|[a-z](?=[A-Z])")
_OF_LETTERS = lazy_pattern(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}")


def _is_random(value: str) -> bool:
    """Whether a word is a password though nothing says so: none that is made of words goes to and fro like that."""
    return (
        len(value) >= 10
        and value.lower() != value != value.upper()
        and _RANDOM_WORD.fullmatch(value) is not None
        and len(_TURN.findall(value)) > 4
        and 3 * len("".join(_OF_LETTERS.findall(value))) <= 2 * len(value)
    )


def _is_told(value: str) -> bool:
    """Whether a word that a sentence calls a password is one: what people make up has digits among letters.

    Three digits or more, or two where there are large and small letters, or one where these go to and fro. A word of
    letters alone reads as prose does.
    """
    digits = sum(character.isdigit() for character in value)
    mixed = value.lower() != value != value.upper()
    enough = digits > 2 or (digits > 1 and mixed) or _is_random(value)
    return enough and _made_up(value) and _TECHNICAL.fullmatch(value) is None


def _below(text: str) -> Iterator[Span]:
    """Where values stand, indented, on the line below the name of a secret."""
    for found in _BELOW.finditer(text):
        name = _BEFORE.search(text[max(0, found.start() - 101) : found.start()])
        if name is not None and is_secret_name(name[0]) and _is_told(found["value"]):
            yield found.span("value")


__all__ = ["REDACTED", "Redactor", "failing_closed", "redact_secrets"]

Redactor = Callable[[str, str], str]
"""Takes secrets out of a text, given the name of the file that it is from (empty: none, or it is not known).

A plain function; all that is redacted by one of the user's takes this shape, which ``redact_secrets`` has.
"""


def failing_closed(redact: Callable[[str, str], object], error: Callable[[str], Exception]) -> Callable[..., str]:
    """A redactor that raises ``error`` where it raises, or gives no text: that quotes nothing of what it was given."""

    def told(text: str, name: str = "") -> str:
        if not text:
            return text
        try:
            said = redact(text, name)
        except Exception as raised:  # noqa: BLE001 - whatever it is, it may quote what it was given
            msg = f"the redactor raised {type(raised).__name__}"
            raise error(msg) from None
        if not isinstance(said, str):
            msg = f"the redactor returned {type(said).__name__} instead of text"
            raise error(msg)
        return said

    return told


_RUN_COMMANDS = lazy_pattern(r"\.\w{1,40}rc")
"""Settings by their whole name, which ends with no known suffix: ``.npmrc``, ``.pypirc``."""

_HEAD = lazy_pattern(
    r"(?<![\w.-])[.-]{0,2}(?P<name>[A-Za-z_][\w.-]{0,100}+)(?:\\{0,15}[\"'])?\]?(?P<is>\s{0,8}(?::=|=>|==|!=|[:=]))"
)
"""A name and what says that something is given to it. The value is looked at apart: it may hold names itself."""
_QUOTED = lazy_pattern(
    r"\s{0,8}(?:[\w.|\[\] ]{1,60}=\s{0,8})?[bfru]{0,2}"  # what a value is, in code, may stand before it
    r"(?P<quote>\\{0,15}[\"'`])(?P<value>(?:(?!(?P=quote))[^\n\\]|\\.){1,4096}?)(?P=quote)"
)
_BARE = lazy_pattern(
    r"[^\S\r\n]{0,8}(?P<value>\$?\{\{[^\n]{0,200}?\}\}|[^\s\"'`,;&\\](?:(?!\\[nrt])[^\s\"'`,;&]){0,255})"
)
_MORE = lazy_pattern(r"(?:(?<=\\)\r?\n(?=\S)|(?!\\[nrt])[^\s\"'`,;&])*")
"""The rest of a bare value: what is looked at has a limit, what goes has none, and goes on after a broken line."""
_LINE = lazy_pattern(
    r"(?m)^[ \t]*(?:-[ \t]+)?(?:export[ \t]+|set[ \t]+)?(?P<name>[A-Za-z_][\w.-]{0,100})[ \t]*(?P<is>[:=])"
)
_REST = lazy_pattern(r"[^\S\r\n]*(?P<value>[^\s\"'|>&][^\n]*)")
_FLAG = lazy_pattern(r"-(?<!\S-)-?(?P<name>[A-Za-z][\w-]{2,60})(?P<is>[ \t])")
_WORD = lazy_pattern(r"[^\S\r\n]*(?P<value>[^\s\"'`-][^\s\"'`]*)")
_SET = lazy_pattern(
    r"\b(?:setx|setenv|set[ \t]+-[a-z]{1,4}|gh[ \t]+secret[ \t]+set)[ \t]+(?P<name>[A-Za-z_]\w{0,100})"
    r"(?P<is>[ \t]+(?:(?:--body|-b)[ \t=])?)"
)
_CALL = lazy_pattern(
    r"\b(?:define|(?:get|put|set)env|environ\.(?:get|setdefault)|ENV\.fetch|env)\s{0,4}\(\s{0,4}"
    r"\\?[\"'](?P<name>[A-Za-z_][\w.-]{0,100})\\?[\"'](?P<is>\s{0,4},)"
)
"""What takes a name and what it is given, or what holds where nothing is given to it."""
_PAIR = lazy_pattern(
    r"(?i)\b(?:key|name)(?:\\?[\"'])?\s?[:=]\s?(?:\\?[\"'])?(?P<name>[A-Z_][\w.-]{0,100}+)(?:\\?[\"'])?"
    r"(?P<is>(?:,\s{0,40}|\s{1,40})(?:\\?[\"'])?value(?:\\?[\"'])?\s?[:=])"
)
"""A name and its value side by side: ``<add key="ApiKey" value="..."/>``, ``{"name": ..., "value": ...}``."""
_ROW = lazy_pattern(r"\|[ \t]{0,40}[`*]{0,2}(?P<name>[A-Za-z_][\w .-]{0,60}?)[`*]{0,2}[ \t]{0,40}(?P<is>\|)")
_CELL = lazy_pattern(r"[ \t]{0,40}[`*]{0,2}(?P<value>[^\s|`*]{1,4096})[`*]{0,2}[ \t]{0,40}(?:\||$)", re.MULTILINE)
_MARK = lazy_pattern(
    r"(?<![\w`*])[`*]{1,2}(?P<name>[A-Za-z_][\w .-]{0,60})"
    r"(?P<is>[ \t]?(?:[`*]{1,2}[ \t]{0,4}[:=]|[:=][`*]{1,2})[ \t]{0,8})"
)
_MARKED = lazy_pattern(r"[`*]{0,2}(?P<value>[^\s`*]{1,4096})")
"""A name that is set off in Markdown, and what it is given: ``**Password:** ...``, also with a mark around it."""
_TAG = lazy_pattern(r"<(?P<name>[A-Za-z_][\w.-]{0,100})(?P<is>)>")
_INSIDE = lazy_pattern(r"(?P<value>[^<\n]{1,4096})</")
_FIELD = lazy_pattern(r"[?&;](?P<name>[A-Za-z_][\w.-]{0,60})(?P<is>=)")
_PLAIN = lazy_pattern(r"(?P<value>[^&;\s\"'`<>]+)")
_FOLDED = lazy_pattern(r"(?m)^(?P<indent>[ \t]*)(?:-[ \t]+)?(?P<name>[\w.-]+):[ \t]*[|>][+-]?\d?[ \t]*\n")
_VARIABLE = lazy_pattern(r"(?P<is>\s*(?:#\s*)?(?:export\s+|set\s+)?[A-Za-z_][\w.-]*\s*[=:]\s*)\S.*")
_RANDOM = lazy_pattern(r"[A-Za-z0-9+/=-]+")
_EXPRESSION = lazy_pattern(r"[A-Za-z_][\w.-]*(?:[\[(<>~!]|==.).*|[\[({].*", re.DOTALL)
"""What computes something, or says which versions will do."""
_DEFAULTED = lazy_pattern(r"\$\{[A-Za-z_]\w{0,100}:?[=?+-](?P<default>[^{}\n]{0,256})\}")
_COMPARED = lazy_pattern(r"[a-z]+(?:[_.][a-z0-9]+)+")
_NUMBER = lazy_pattern(r"\d{4,12}")

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

    Example:
        >>> from agentctx.sources import redact_secrets
        >>> redact_secrets("password = 'xk29-fj3n-QQ81'")
        "password = '[redacted]'"
    """
    if name and is_credential_file(name):
        return f"{REDACTED}: a file of credentials\n" if text else text
    rules = _rules_of(name)
    for _ in range(_ROUNDS):
        told = _without(text, _secrets(text, rules))
        if told == text:
            break
        text = told
    return "\n".join(map(_without_value, text.split("\n"))) if name and is_environment_file(name) else text


Rule = tuple[re.Pattern[str], re.Pattern[str], Goes]
"""How a name stands before its value, how the value stands, and which values go."""


@lru_cache(maxsize=256)
def _rules_of(name: str) -> tuple[Rule, ...]:
    """How values are given to names in a file of this name."""
    path = _path(name.lower())
    suffix = ".cfg" if _RUN_COMMANDS.fullmatch(path.name) else path.suffix
    query = (
        *((_FIELD, _PLAIN, _always), (_SET, _WORD, _always)),
        *((_CALL, _QUOTED, _written_in), (_PAIR, _QUOTED, _always), (_ROW, _CELL, _tabled)),
    )
    if is_environment_file(name):
        return ()
    if suffix in _data()["code"]:
        return *query, (_HEAD, _QUOTED, _written_in), (_HEAD, _BARE, _random)
    if suffix in _data()["settings"]:
        heads = ((_HEAD, _QUOTED), (_TAG, _INSIDE), (_LINE, _REST), (_HEAD, _BARE), (_FLAG, _WORD))
        return *query, *((head, value, _setting) for head, value in (*heads, (_PAIR, _BARE)))
    quoted = ((_HEAD, _QUOTED, _always), (_TAG, _INSIDE, _always))
    bare = ((_HEAD, _BARE, _assigned), (_PAIR, _BARE, _assigned), (_MARK, _MARKED, _tabled), (_FLAG, _WORD, _assigned))
    return *query, *quoted, *bare


def _secrets(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where secrets stand: in the text as it is, as it is seen, and in what is wrapped in it."""
    keys = list(keys_in(text))
    plain = [*secret_spans(text, keys), *_named(text, rules)]
    yield from plain
    for seen, is_joined in zip(without_escapes(text), (False, True), strict=False):
        keys_seen = list(keys_in(seen.text))
        yield from seen.placed([*secret_spans(seen.text, keys_seen), *_named(seen.text, rules)])
        if is_joined:
            yield from _across(seen, keys_seen)
    yield from _across(Seen(text, text), [*plain, *keys])
    for place, content in wrapped_in(text):
        if any(True for _ in secret_spans(content)) or any(True for _ in _named(content, _rules_of(""))):
            yield place


def _across(seen: Seen, known: Iterable[Span]) -> Iterator[Span]:
    """Where keys stand that a line break or quotes cut in two; ``known`` has those that none does.

    What is already a whole key goes on only with what looks made up: the next line may be another's.
    """
    whole = joined(seen.text)
    keys = list(keys_in(whole.text)) if whole.replaced else ()
    ends = dict(known)
    for (start, end), (first, last) in zip(keys, whole.placed(keys), strict=True):
        is_cut = last - first > end - start
        if is_cut and (first not in ends or _goes_on(seen.text[ends[first] : last])):
            yield from seen.placed([(first, last)])


def _goes_on(rest: str) -> bool:
    return _made_up(re.split(r"\W", rest)[-1])


def _without(text: str, spans: Iterable[Span]) -> str:
    """The text with one mark for each run of secrets that overlap."""
    pieces: list[str] = []
    done = 0
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if start >= done or not pieces:
            pieces += (text[done:start], REDACTED)
        done = max(done, end)
    return "".join((*pieces, text[done:]))


def _named(text: str, rules: tuple[Rule, ...]) -> Iterator[Span]:
    """Where the values stand that are given to the names of secrets."""
    names: dict[re.Pattern[str], list[re.Match[str]]] = {}
    for head, value, goes in rules:
        if head not in names:
            names[head] = [found for found in head.finditer(text) if is_secret_name(found["name"])]
        yield from _given(text, names[head], value, goes)
    if any(goes is _setting for _, _, goes in rules):
        yield from _blocks(text)
        yield from _below(text)
    elif any(goes is _assigned for _, _, goes in rules):
        yield from _below(text)
        yield from (span for span in _blocks(text) if _one_made_up(text[slice(*span)]))


def _given(text: str, names: Iterable[re.Match[str]], value: re.Pattern[str], goes: Goes) -> Iterator[Span]:
    """Where the values stand that are given to names by one rule."""
    done = 0
    for found in names:
        if found.start() < done:
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


Span = tuple[int, int]
"""The start of a piece of a text, and its end."""

_STARTS = r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e|\^\[)"
_COLOUR = (
    rf"{_STARTS}\[[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|\x9b[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|"
    r"\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)"
)
NO_WIDTH = (
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls (Cc) but those that are blanks
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # default ignorable
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f]"  # Cf
)
"""What Unicode says is not shown: of every version so far, by its categories and its list of what may be ignored."""

_OVERWRITTEN = "|".join(rf"[^\n\x08]{{{count}}}\x08{{{count}}}" for count in range(8, 0, -1))
"""As many characters as there are backspaces behind them."""

_ESCAPE = (
    r"(?:\\{1,4}|%)u(?P<four>[0-9a-fA-F]{4})|\\{1,4}x(?P<two>[0-9a-fA-F]{2})|%(?:25)?(?P<percent>[0-7][0-9a-fA-F])|"
    r"\\{1,4}U00(?P<eight>(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|\\{1,4}[ux]\{0{0,8}(?P<braces>[0-9a-fA-F]{1,5})\}|"
    r"=(?P<quoted>[0-7][0-9A-F])|\\{1,4}(?P<octal>[01][0-7]{2})|"
    r"&#[xX]0{0,8}(?P<hex>[0-9a-fA-F]{1,5});|&#0{0,8}(?P<number>[0-9]{1,5});|&(?P<entity>[A-Za-z]{2,10});|"
    r"\\{1,4}(?P<letter>[nrtbfv0])"
)
_HIDDEN = lazy_pattern(f"(?P<nothing>{_COLOUR}|{NO_WIDTH})|{_ESCAPE}")
_HIDDEN_OR_OVERWRITTEN = lazy_pattern(f"(?P<nothing>{_OVERWRITTEN}|{_COLOUR}|{NO_WIDTH})|{_ESCAPE}")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0e-\x1f\x7f]")
_NO_WIDTH = lazy_pattern(NO_WIDTH)
_BEGINS = lazy_pattern(r"\\(?=[\\xuUenrtbfv0-3])|%(?=[u0-7])|=(?=[0-7])|&(?=[#A-Za-z])|\^(?=\[)")
"""How an escape begins in a text without control characters and without characters of no width."""
_NEXT_QUOTE = r"[ \t]{0,8}[+.&\\]?[ \t]{0,8}(?:\\?\r?\n)?[ \t+.&]{0,40}[\"'`](?=[\w+/=-])"
_INDENT = r"[ \t>|#*+-]{0,40}(?=[\w+/=-])"
_ENDS = (r"\\", r"\r?\n"), ("-", r"\r?\n"), ("=(?<!==)", r"\r?\n"), (r"\r", r"\n"), (r"\n", "")
_BREAK = lazy_pattern(
    "|".join(
        (
            *(sign + _NEXT_QUOTE for sign in "\"'`"),
            *(rf"{sign}(?<=[\w+/=-].){end}{_INDENT}" for sign, end in _ENDS),
        )
    ),
    re.DOTALL,
)
"""Between two parts of one text: quotes with a sign of joining or a line break, or a line break alone.

What each way begins with stands first: the places where none can begin are passed over fast.
"""


Replaced = tuple[int, int, str]
"""Where something stands in a text, and what is read there instead."""


@frozen(eq=False, repr=False)
class Seen:
    """A text as it is seen.

    Args:
        text: The text as a reader sees it.
        original: The text as it is.
        replaced: The places that differ, in order.
    """

    text: str
    original: str
    replaced: Sequence[Replaced] = ()

    @classmethod
    def of(cls, original: str, replaced: Sequence[Replaced]) -> Seen:
        """A text with something else in some places."""
        pieces: list[str] = []
        done = 0
        for start, end, shown in replaced:
            pieces += (original[done:start], shown)
            done = end
        return cls("".join((*pieces, original[done:])), original, replaced)

    def placed(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Where parts of it stand in the text as it is."""
        if spans := list(spans):
            starts, places = self._pieces()
            for start, end in spans:
                yield self._at(start, starts, places)[0], self._at(end - 1, starts, places)[1]

    def _pieces(self) -> tuple[list[int], list[Span]]:
        """Where each piece of it begins, and where it stands in the text as it is."""
        starts: list[int] = []
        places: list[Span] = []
        length = done = 0
        for start, end, shown in (*self.replaced, (len(self.original), len(self.original), "")):
            for size, place in ((start - done, (done, start)), (len(shown), (start, end))):
                if size:
                    starts.append(length)
                    places.append(place)
                    length += size
            done = end
        return starts, places

    def _at(self, index: int, starts: Sequence[int], places: Sequence[Span]) -> Span:
        piece = bisect_right(starts, index) - 1
        start, end = places[piece]
        seen = (starts[piece + 1] if piece + 1 < len(starts) else len(self.text)) - starts[piece]
        if seen != end - start:
            return start, end
        return start + index - starts[piece], start + index - starts[piece] + 1


def without_escapes(text: str) -> tuple[Seen, ...]:
    """Return the text with its escapes decoded, with a blank before each and without; empty when it has no escape."""
    found = [(*each.span(), _character(each)) for each in _escapes(text)]
    if not found:
        return ()
    return Seen.of(text, [(start, end, f" {shown}") for start, end, shown in found]), Seen.of(text, found)


def _escapes(text: str) -> Iterator[re.Match[str]]:
    if (_CONTROL if text.isascii() else _NO_WIDTH).search(text) is not None:
        yield from (_HIDDEN_OR_OVERWRITTEN if "\b" in text else _HIDDEN).finditer(text)
        return
    done = 0
    for begins in _BEGINS.finditer(text):
        if begins.start() >= done and (found := _HIDDEN.match(text, begins.start())) is not None:
            done = found.end()
            yield found


def joined(text: str) -> Seen:
    """The text with lines and quoted pieces joined that may be one word."""
    return Seen.of(text, [(*found.span(), "") for found in _BREAK.finditer(text)])


def _character(found: re.Match[str]) -> str:
    """What an escape stands for: a character, or nothing."""
    if found["nothing"] is not None:
        return ""
    if found["entity"] is not None:
        from html.entities import html5  # noqa: PLC0415 - a table of thousands, for text that has entities

        return html5.get(f"{found['entity']};", found[0])
    if found["letter"] is not None:
        return "\n" if found["letter"] in "nr" else " "
    if found["number"] is not None:
        return chr(int(found["number"]))
    if found["octal"] is not None:
        return chr(int(found["octal"], 8))
    return chr(int(next(filter(None, found.group(*_IN_HEX))), 16))


_IN_HEX = ("four", "two", "percent", "eight", "braces", "quoted", "hex")


_WRAPPED = lazy_pattern(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])")
_READABLE = re.compile(rb"[\t\n\r -~]*")


def wrapped_in(text: str) -> Iterator[tuple[Span, str]]:
    """What stands in base64, as text: each with its place."""
    for found in _WRAPPED.finditer(text):
        content = found[0].rstrip("=").translate(_STANDARD)
        decoded = b64decode(content + "=" * (-len(content) % 4)) if len(content) % 4 != 1 else b"\0"
        if _READABLE.fullmatch(decoded):
            yield found.span(), decoded.decode("ascii")


_STANDARD = str.maketrans("-_", "+/")
