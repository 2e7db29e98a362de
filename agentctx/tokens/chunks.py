"""Where a text may be cut so that its parts count as much as the whole.

No piece that o200k_base or cl100k_base merge by itself runs on from an ASCII letter or digit, a kana or a common
Han character into an ASCII space, control or punctuation character other than the apostrophe (or one of four CJK
punctuation marks), so ``count(a + b) == count(a) + count(b)`` there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

CHUNK = 32 * 1024
"""Characters of a chunk, before the next exact cut is looked for: 2 to 5 ms of tokenizing."""

SPACES = 500_000
"""A longer run of spaces is cut every so many characters; the count may then be off by one token at each cut.

tiktoken panics on a run of 1,000,000 (openai/tiktoken#15, #245), with an error that ``except Exception`` misses.
"""

EXACT_CUT = re.compile(
    r"[A-Za-z0-9\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fef]"
    r"(?=[\x00-&(-/:-@\[-`{-\x7f\u3001\u3002\uff0c\uff1a\uff1b])"
)

_BLANKS = re.compile(r"[^\S\r\n]+")


def chunks(text: str, size: int = CHUNK) -> Iterator[str]:
    """The text in parts of about ``size`` characters that count as much as the whole, and that are safe to encode.

    A part is longer where the text has no exact cut; only runs of more than ``SPACES`` blanks are cut anyway.
    """
    start, end = 0, len(text)
    while end - start > size:
        found = EXACT_CUT.search(text, start + size - 1)
        stop = end if found is None else found.end()
        yield from safe_parts(text[start:stop])
        start = stop
    if start < end:
        yield from safe_parts(text[start:])


def safe_parts(text: str) -> Iterator[str]:
    """The text whole, or cut within those of its runs of blanks that tiktoken would panic on."""
    start = 0
    if len(text) > SPACES:
        for run in _BLANKS.finditer(text):
            for stop in range(run.start() + SPACES, run.end(), SPACES):
                yield text[start:stop]
                start = stop
    yield text[start:]
