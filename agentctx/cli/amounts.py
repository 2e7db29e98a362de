"""Numbers as people write them: ``32k``, ``1.5m``, ``8_000``, ``80%``."""

from __future__ import annotations

import re
from decimal import Decimal

from agentctx.core.budget import Amount
from agentctx.errors import ConfigError

_WHOLE = r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(rf"((?:{_WHOLE})(?:\.[0-9]+)?|\.[0-9]+)\s*([kmg%]?)", re.IGNORECASE)
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}
_BYTES = _SCALE | {"g": 10**9}
_LARGEST = 10**12


def parse_tokens(option: str, text: str) -> int:
    """A token count: ``8000``, ``8_000``, ``32k`` (thousands) or ``1.5m`` (millions).

    Args:
        option: The option's name, for the error.
        text: What was typed.

    Raises:
        ConfigError: If it is no positive whole number of tokens.
    """
    expected = "a positive whole number of tokens such as 8000, 32k or 1.5m"
    number, unit = _split(option, text, expected)
    tokens = number * _SCALE.get(unit, 0)
    if tokens != int(tokens) or not 1 <= tokens <= _LARGEST:
        raise _bad(option, text, expected)
    return int(tokens)


def parse_amount(option: str, text: str) -> Amount:
    """A token count as in ``parse_tokens``, or a share: ``0.8`` or ``80%``.

    Raises:
        ConfigError: If it is neither.
    """
    expected = "a share such as 0.8 or 80%, or a number of tokens such as 24k"
    number, unit = _split(option, text, expected)
    share = number / 100 if unit == "%" else number
    if unit != "%" and (unit != "" or share > 1):
        return parse_tokens(option, text)
    if not 0 < share <= 1:
        raise _bad(option, text, expected)
    return float(share)


def parse_limit(option: str, text: str) -> int | None:
    """A whole number such as ``0``, ``8`` or ``2k``, or ``off`` for None.

    Raises:
        ConfigError: If it is neither.
    """
    if text.strip().lower() == "off":
        return None
    number, unit = _split(option, text, "a whole number such as 8 or 2k, or off")
    value = number * _SCALE.get(unit, 0)
    if unit == "%" or value != int(value) or value > _LARGEST:
        raise _bad(option, text, "a whole number such as 8 or 2k, or off")
    return int(value)


def parse_bytes(option: str, text: str) -> int:
    """A number of bytes: ``5000000``, ``64m`` (millions), ``2g`` (thousand millions), ``64 MB``.

    Raises:
        ConfigError: If it is no positive whole number of bytes.
    """
    expected = "a positive whole number of bytes such as 500k, 64m or 2g"
    number, unit = _split(option, re.sub(r"(?<=[kmg])b$", "", text.strip(), flags=re.IGNORECASE), expected)
    size = number * _BYTES.get(unit, 0)
    if size != int(size) or size < 1:
        raise _bad(option, text, expected)
    return int(size)


def _split(option: str, text: str, expected: str) -> tuple[Decimal, str]:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise _bad(option, text, expected)
    return Decimal(found[1].replace("_", "").replace(",", "")), found[2].lower()


def _bad(option: str, text: str, expected: str) -> ConfigError:
    return ConfigError(f"{option}: {text!r} is not {expected}")
