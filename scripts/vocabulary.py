# ruff: noqa: INP001 - a script, not a package
"""Turn OpenAI's ``*.tiktoken`` files into the compact vocabularies that the package ships.

Usage: ``python scripts/vocabulary.py FOLDER`` where FOLDER holds ``o200k_base.tiktoken`` and ``cl100k_base.tiktoken``.

The ranks of both vocabularies count up from 0 without a gap, so a file of one length byte a token, followed by the
tokens themselves in the order of their ranks, says everything; it is then deflated. The numbers that
``agentctx/tokens/vocabulary.py`` checks the files by are printed.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zlib
from pathlib import Path

TARGET = Path(__file__).parents[1] / "agentctx" / "tokens" / "vocabularies"

# What tiktoken itself checks its downloads by (tiktoken_ext/openai_public.py).
OFFICIAL = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


def compact(official: bytes) -> tuple[int, bytes]:
    """The number of tokens in the text of a ``.tiktoken`` file, and its compact form before compression.

    Raises:
        ValueError: If the ranks have a gap or a token is longer than 255 bytes; the form cannot hold either.
    """
    pairs = [line.split() for line in official.splitlines()]
    if [int(rank) for _, rank in pairs] != list(range(len(pairs))):
        msg = "the ranks do not count up from 0 without a gap"
        raise ValueError(msg)
    tokens = [base64.b64decode(token, validate=True) for token, _ in pairs]
    return len(tokens), bytes(map(len, tokens)) + b"".join(tokens)


def build(source: Path, name: str) -> str:
    """Write one vocabulary; returns the line of numbers that the loader has to know."""
    official = source.joinpath(f"{name}.tiktoken").read_bytes()
    if hashlib.sha256(official).hexdigest() != OFFICIAL[name]:
        msg = f"{name}.tiktoken is not the file that OpenAI published"
        raise ValueError(msg)
    count, content = compact(official)
    packed = zlib.compress(content, 9)
    TARGET.joinpath(f"{name}.bin").write_bytes(packed)
    return f"{name}: {count} tokens, sha256 {hashlib.sha256(content).hexdigest()}, {len(packed)} bytes"


if __name__ == "__main__":
    for vocabulary in OFFICIAL:
        sys.stdout.write(build(Path(sys.argv[1]), vocabulary) + "\n")
