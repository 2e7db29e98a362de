"""Which names belong to secrets: ``DB_PASSWORD``, ``apiKey`` and ``client-secret`` do, ``max_tokens`` does not."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePath

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET = frozenset(
    {"auth", "authorization", "bearer", "cookie", "credential", "credentials", "creds", "dsn", "pin", "salt", "sig"}
)
"""Words that make a name that of a secret when they are its last."""

_SECRET_ENDINGS = (
    "apikey",
    "accesskey",
    "passwd",
    "password",
    "passphrase",
    "privatekey",
    "psk",
    "pwd",
    "secret",
    "secretkey",
)
"""Endings of single words that make a name that of a secret wherever the word stands."""

_KEYS = re.compile(
    r"access|account|api|app|auth|client|consumer|deploy|encryption|hmac|jwt|master|private|secret|service|"
    r"session|shared|signing|ssh|storage|webhook"
)
"""Words before ``key`` that make it a secret."""

_ABOUT = re.compile(
    r"count|endpoint|enabled|expires|expiry|field|file|header|length|limit|max|min|name|names|path|pattern|"
    r"policy|prefix|ref|regex|required|size|ttl|type|uri|url|version"
)
"""Last words that make a name one about a secret: ``password_file`` holds none."""

_OTHER_KEYS = re.compile(
    r"cache|cluster|composite|foreign|idempotency|index|order|partition|primary|public|routing|sort|unique"
)
"""Words before ``KEY`` that make it none of a secret, also in the name of an environment variable."""

_PLACES = re.compile(
    r"continuation|cursor|end|eos|bos|mask|next|pad|page|pagination|prev|previous|sep|special|stop|sync|unk"
)
"""Words before ``token`` that make it a place in a list or a piece of text."""

_CREDENTIAL_FILES = re.compile(
    r"\.git\-credentials|\.htpasswd|\.netrc|\.pgpass|_netrc|credentials|id_dsa|id_ecdsa|id_ed25519|id_rsa"
)
_CREDENTIAL_ENDINGS = frozenset({".jks", ".kdbx", ".key", ".keystore", ".p12", ".pem", ".pfx", ".ppk"})
_EXAMPLES = ("dist", "example", "sample", "template")


@lru_cache(maxsize=4_096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, key or header of this name holds a secret."""
    words = _words(name)
    if not words or _ABOUT.fullmatch(words[-1]) or words == ["oldpwd"]:  # that is the folder one came from
        return False
    return (
        names_only_secrets(name)
        or words[-1] in _SECRET
        or (words[-1].endswith("token") and not (len(words) > 1 and _PLACES.fullmatch(words[-2])))
        or (words[-1] in ("pass", "pat") and len(words) > 1)
        or _is_key_variable(name, words)
    )


def _is_key_variable(name: str, words: list[str]) -> bool:
    """Whether it is named as environment variables with keys of services are: ``AZURE_OPENAI_KEY``."""
    return name.isupper() and len(words) > 1 and words[-1] == "key" and not _OTHER_KEYS.fullmatch(words[-2])


@lru_cache(maxsize=4_096)
def names_only_secrets(name: str) -> bool:
    """Whether nothing but a secret has such a name; a ``token`` may also be a word, and ``auth`` a method."""
    words = _words(name)
    if any(word.endswith(_SECRET_ENDINGS) for word in words) or "secrets" in words:
        return True
    pairs = set(pairwise(words))
    return ("connection", "string") in pairs or any(
        second == "key" and _KEYS.fullmatch(first) for first, second in pairs
    )


def _words(name: str) -> list[str]:
    """The words of a name, without a number at its end: ``TOKEN_2`` is another token."""
    words = [word.lower() for word in _WORD.findall(name)]
    return words[:-1] if len(words) > 1 and words[-1].isdigit() else words


def is_environment_file(name: str) -> bool:
    """Whether a file of this name holds environment variables, any of which may be a secret (``.env.local``)."""
    base = PurePath(name).name.lower()
    if base.endswith(_EXAMPLES):
        return False
    return base in (".env", ".envrc") or base.startswith(".env.") or base.endswith(".env")


def is_credential_file(name: str) -> bool:
    """Whether a file of this name holds nothing but credentials."""
    path = PurePath(name.lower())
    return _CREDENTIAL_FILES.fullmatch(path.name) is not None or path.suffix in _CREDENTIAL_ENDINGS
