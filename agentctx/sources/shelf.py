"""Files within a budget: who is used least goes first."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from attrs import define, field

from agentctx.sources.read_only_file import ReadOnlyFile


@define
class Shelf:
    """Files within a budget, in the order of their last use.

    Args:
        room: The most tokens that all files may have together.
        shown: The files that are there, by key, the least recently used first.
        hidden: The files that there is no room for, by key.
        used: Tokens of the files that are there.
    """

    room: int
    shown: dict[str, ReadOnlyFile] = field(factory=dict)
    hidden: dict[str, ReadOnlyFile] = field(factory=dict)
    used: int = 0

    def get(self, key: str) -> ReadOnlyFile | None:
        """The file, whether it is there or not."""
        return self.shown.get(key) or self.hidden.get(key)

    def use(self, key: str) -> None:
        """Let a file that is there be the one that was used last."""
        self.shown[key] = self.shown.pop(key)

    def take(self, key: str) -> ReadOnlyFile | None:
        """Take a file away."""
        hidden, shown = self.hidden.pop(key, None), self.shown.pop(key, None)
        self.used -= shown.tokens if shown else 0
        return shown or hidden

    def hide(self, key: str) -> str:
        """Take a file out of the room and remember it; its name."""
        file = self.shown.pop(key)
        self.used -= file.tokens
        self.hidden[key] = file
        return file.name

    def put(self, key: str, file: ReadOnlyFile, spare: Collection[str] = ()) -> tuple[str, ...] | None:
        """Show a file, or its new content, in place of what was used least; the names of those that had to go.

        None, and nothing changes, when there is no room even without all that may go: what is pinned or in
        ``spare`` stays.
        """
        there = self.shown.get(key)
        excess = self.used - (there.tokens if there else 0) + file.tokens - self.room
        going = list(self._to_free(excess, {key, *spare}))
        if sum(self.shown[each].tokens for each in going) < excess:
            return None
        names = tuple(map(self.hide, going))
        self.hidden.pop(key, None)
        self.used += file.tokens - (there.tokens if there else 0)
        self.shown[key] = file
        return names

    def shrink(self, room: int) -> tuple[str, ...]:
        """Hide what was used least until the rest has at most ``room`` tokens, or only pinned files are left."""
        return tuple(map(self.hide, list(self._to_free(self.used - room, ()))))

    def _to_free(self, excess: int, spare: Collection[str]) -> Iterator[str]:
        for key, file in self.shown.items():
            if excess <= 0:
                return
            if not file.pinned and key not in spare:
                excess -= file.tokens
                yield key
