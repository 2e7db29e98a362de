"""Regular expressions that are compiled when they are first used, since compiling takes longer than importing."""

from __future__ import annotations

import re
from typing import cast


class _Pattern:
    """Stands for a compiled pattern, and compiles it when it is asked for anything."""

    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> object:
        found: object = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``, at the first use; what is wrong with ``source`` is said then."""
    return cast("re.Pattern[str]", _Pattern(source, flags))
