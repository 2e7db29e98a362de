"""Text from outside, written so that it cannot pass for anything else."""

from __future__ import annotations

import re

_TICKS = re.compile(r"`{3,}")


def one_line(text: str) -> str:
    """A title or a path on one line, without characters that would start something new."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())


def section(title: str, content: str) -> str:
    """A heading and the content in a fence that is longer than any in it, so that nothing in it can close it.

    It begins with a hash and ends with line breaks: sections that follow one another cost what they cost apart.
    """
    fence = "`" * max([3, *(len(run) + 1 for run in _TICKS.findall(content))])
    return f"### {one_line(title)}\n{fence}\n{content.rstrip()}\n{fence}\n\n"
