# ruff: noqa: INP001 - a script, not a package
"""Turn OpenAI's ``*.tiktoken`` files into the compact vocabularies that the package ships.

Usage: ``python scripts/vocabulary.py FOLDER`` where FOLDER holds ``o200k_base.tiktoken`` and ``cl100k_base.tiktoken``.

A file says how many tokens there are of each length from 1 to 128, in four bytes each. Then come the tokens, the short
ones first and those of one length sorted, so that one can be looked up without reading them all. Then come their ranks:
the lowest byte of each, the middle one of each, the highest one of each. All of it is deflated. The numbers that
``agentctx/tokens/tiktoken.py`` checks the files by are printed.
"""

from __future__ import annotations

import base64
import hashlib
import struct
import sys
import zlib
from pathlib import Path

TARGET = Path(__file__).parents[1] / "agentctx" / "tokens" / "vocabularies"

LONGEST = 128

# What tiktoken itself checks its downloads by (tiktoken_ext/openai_public.py).
OFFICIAL = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}


def compact(official: bytes) -> tuple[int, bytes]:
    """The number of tokens in the text of a ``.tiktoken`` file, and its compact form before compression.

    Raises:
        ValueError: If the ranks have a gap or a token is longer than 128 bytes; the form cannot hold either.
    """
    pairs = [line.split() for line in official.splitlines()]
    if [int(rank) for _, rank in pairs] != list(range(len(pairs))):
        msg = "the ranks do not count up from 0 without a gap"
        raise ValueError(msg)
    ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs}
    tokens = sorted(ranks, key=lambda token: (len(token), token))
    lengths = [len(token) for token in tokens]
    counts = [lengths.count(length) for length in range(1, LONGEST + 1)]
    if sum(counts) != len(tokens):
        msg = f"a token is longer than {LONGEST} bytes"
        raise ValueError(msg)
    bytes_of_ranks = [bytes(ranks[token] >> bits & 255 for token in tokens) for bits in (0, 8, 16)]
    return len(tokens), b"".join((struct.pack(f"<{LONGEST}I", *counts), *tokens, *bytes_of_ranks))


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
