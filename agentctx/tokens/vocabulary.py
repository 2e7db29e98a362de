"""The vocabularies that the package ships, read without any network.

A file holds one length byte for each token and then the tokens themselves, in the order of their ranks, deflated.
``scripts/vocabulary.py`` makes it from the file that OpenAI publishes. Pattern and special tokens are those of
``tiktoken_ext.openai_public`` (tiktoken 0.14).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from itertools import accumulate, pairwise

from attrs import field, frozen

from agentctx.errors import ConfigError, VocabularyError

LONGEST_TOKEN = 128
"""The longest token of the shipped vocabularies, in bytes: a text of n bytes has at least n / 128 tokens."""


@frozen
class Vocabulary:
    """One encoding, but for its tokens, which are read from a file.

    Args:
        name: The encoding's name, as tiktoken writes it.
        size: How many ordinary tokens it has.
        sha256: Hash of the file's content, after inflating.
        pattern: The regular expression that splits a text into pieces, each of which is merged by itself.
        special: Special tokens with their ids. Text is never read as one; an ``Encoding`` wants to know them.
    """

    name: str
    size: int
    sha256: str
    pattern: str = field(repr=False)
    special: Mapping[str, int] = field(repr=False, hash=False)

    def ranks(self) -> dict[bytes, int]:
        """Every token with its rank.

        Raises:
            VocabularyError: If the file is missing or is not the one that was shipped.
        """
        content = self._content()
        offsets = pairwise(accumulate(content[: self.size], initial=self.size))
        return {content[start:stop]: rank for rank, (start, stop) in enumerate(offsets)}

    def _content(self) -> bytes:
        import hashlib  # noqa: PLC0415 - not before text is counted
        import pkgutil  # noqa: PLC0415

        file = f"vocabularies/{self.name}.bin"
        try:
            content = zlib.decompress(pkgutil.get_data("agentctx.tokens", file) or b"")
        except (OSError, zlib.error) as error:
            msg = f"vocabulary {self.name}: {file} cannot be read ({error}); install agentctx again"
            raise VocabularyError(msg) from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            msg = f"vocabulary {self.name}: {file} has hash {found}, expected {self.sha256}; install agentctx again"
            raise VocabularyError(msg)
        return content


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

O200K_BASE = Vocabulary(
    "o200k_base",
    199_998,
    "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9",
    "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
)

CL100K_BASE = Vocabulary(
    "cl100k_base",
    100_256,
    "18288f996f452d44e0e65996176591a4b712a3eb1b42afd6f0511e735c099480",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s",
    {
        "<|endoftext|>": 100_257,
        "<|fim_prefix|>": 100_258,
        "<|fim_middle|>": 100_259,
        "<|fim_suffix|>": 100_260,
        "<|endofprompt|>": 100_276,
    },
)

VOCABULARIES: Mapping[str, Vocabulary] = {each.name: each for each in (O200K_BASE, CL100K_BASE)}
"""The shipped vocabularies by name."""


def vocabulary(name: str) -> Vocabulary:
    """The shipped vocabulary of this name.

    Raises:
        ConfigError: If none of this name is shipped; the message names those that are.
    """
    if name not in VOCABULARIES:
        msg = f"encoding: {name!r} is not shipped; pass one of {', '.join(VOCABULARIES)}"
        raise ConfigError(msg)
    return VOCABULARIES[name]
