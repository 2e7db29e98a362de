"""Take a JSON object apart that came from outside: what is missing, unknown or wrong is named by its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import hexdigits
from typing import Any

from attrs import frozen

from agentctx.core.message import Native
from agentctx.errors import InvalidInput
from agentctx.printable import shown
from agentctx.providers.native import clean_text
from agentctx.session.fingerprint import DIGEST_BYTES, Digest

MOST = 2**32 - 1
"""The largest whole number that is taken: what four bytes hold."""

LARGEST = 1e15
"""The largest other number that is taken; none is larger than seconds since 1970."""


@frozen
class Checked:
    """A JSON object, and where it stands.

    Args:
        values: Its fields.
        where: The path to it, for errors.
    """

    values: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, value: Native, where: str, names: Sequence[str]) -> Checked:
        """A JSON object that has exactly these fields.

        Raises:
            InvalidInput: If it is no object, or a field is missing or unknown; names the place.
        """
        if not isinstance(value, Mapping):
            raise InvalidInput(where, f"expected an object, got {shown(value)}")
        known = cls(value, where)
        for name in names:
            if name not in value:
                raise known.fail(name, "it is missing")
        for name in value:
            if name not in names:
                raise known.fail(name, "no such field is known")
        return known

    def at(self, name: str) -> str:
        """The path to a field."""
        return f"{self.where}.{name}"

    def fail(self, name: str, what: str) -> InvalidInput:
        """The error that names a field."""
        return InvalidInput(self.at(name), what)

    def whole(self, name: str, least: int = 0, most: int = MOST) -> int:
        """A whole number."""
        return _whole(self.values[name], self.at(name), least, most)

    def whole_or_none(self, name: str, least: int = 0, most: int = MOST) -> int | None:
        """A whole number, or nothing."""
        return None if self.values[name] is None else self.whole(name, least, most)

    def wholes(self, name: str, least: int = 0, most: int = MOST) -> list[int]:
        """A list of whole numbers."""
        return [_whole(each, where, least, most) for each, where in self.listed(name)]

    def wholes_or_none(self, name: str, least: int = 0, most: int = MOST) -> list[int | None]:
        """A list of whole numbers and nothings."""
        return [None if each is None else _whole(each, where, least, most) for each, where in self.listed(name)]

    def real_or_none(self, name: str) -> float | None:
        """A finite number, or nothing."""
        return None if self.values[name] is None else _real(self.values[name], self.at(name))

    def reals(self, name: str) -> list[float]:
        """A list of finite numbers."""
        return [_real(each, where) for each, where in self.listed(name)]

    def truth(self, name: str) -> bool:
        """True or false."""
        return bool(self._typed(name, bool, "true or false"))

    def text(self, name: str) -> str:
        """Text."""
        return str(self._typed(name, str, "text"))

    def name_or_none(self, name: str) -> str | None:
        """Text that can be sent and printed, or nothing: no half of a character in it."""
        if (text := self.text_or_none(name)) is not None and not text.isascii() and clean_text(text) is not text:
            raise self.fail(name, f"lone surrogates are no text: {shown(text)}")
        return text

    def text_or_none(self, name: str) -> str | None:
        """Text, or nothing."""
        return None if self.values[name] is None else self.text(name)

    def texts_or_none(self, name: str) -> list[str | None]:
        """A list of texts and nothings."""
        for each, where in self.listed(name):
            if each is not None and not isinstance(each, str):
                raise InvalidInput(where, f"expected text, got {shown(each)}")
        return list(self.values[name])

    def digest_or_none(self, name: str) -> Digest | None:
        """A digest in hexadecimal, or nothing."""
        if (text := self.text_or_none(name)) is None:
            return None
        if len(text) != 2 * DIGEST_BYTES or not set(text) <= set(hexdigits):
            raise self.fail(name, f"expected {2 * DIGEST_BYTES} hexadecimal digits, got {shown(text)}")
        return Digest(bytes.fromhex(text))

    def listed(self, name: str) -> list[tuple[Any, str]]:
        """Each member of a list, with the path to it."""
        value = self._typed(name, list, "a list")
        return [(each, f"{self.at(name)}[{place}]") for place, each in enumerate(value)]

    def _typed(self, name: str, kind: type, called: str) -> Native:
        value = self.values[name]
        if not isinstance(value, kind):
            raise self.fail(name, f"expected {called}, got {shown(value)}")
        return value


def _whole(value: Native, where: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(where, f"expected a whole number from {least:,} to {most:,}, got {shown(value)}")
    return value


def _real(value: Native, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST:
        raise InvalidInput(where, f"expected a finite number, got {shown(value)}")
    return float(value)
