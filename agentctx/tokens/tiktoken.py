"""OpenAI's tokenizer, loaded from the vocabularies in the package; never from the network."""

from __future__ import annotations

from threading import Lock

import tiktoken
from tiktoken import registry

from agentctx.tokens.vocabulary import vocabulary

_encodings: dict[str, tiktoken.Encoding] = {}
_lock = Lock()


def encoding(name: str) -> tiktoken.Encoding:
    """The encoding of this name, loaded once a process; the one that tiktoken has loaded already, if it has.

    Loading takes about 0.2 seconds and holds the interpreter lock: see ``warmup``.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.
        VocabularyError: If the shipped file is missing or damaged.
    """
    found = _encodings.get(name)
    if found is not None:
        return found
    with _lock:
        if name not in _encodings:
            _encodings[name] = registry.ENCODINGS.get(name) or _load(name)
        return _encodings[name]


def _load(name: str) -> tiktoken.Encoding:
    source = vocabulary(name)
    return tiktoken.Encoding(
        name, pat_str=source.pattern, mergeable_ranks=source.tokens().ranks(), special_tokens=dict(source.special)
    )


def warmup(*names: str) -> None:
    """Load encodings now (``o200k_base`` when none is named), so that the first count does not wait for it.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.
        VocabularyError: If the shipped file is missing or damaged.
    """
    for name in names or ("o200k_base",):
        encoding(name).encode_ordinary("warm")
