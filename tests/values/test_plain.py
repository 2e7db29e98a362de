"""Values of attrs classes as plain JSON: a round trip changes nothing, and an error names the path."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from attrs import asdict, field, frozen
from attrs.validators import max_len
from hypothesis import given, strategies as st

from agentctx import Budget, InvalidInput
from agentctx.changes import Change, Outcome, Span
from agentctx.comparison import Measured
from agentctx.engine.usage import Calibration
from agentctx.plain import from_plain, to_plain


class Colour(StrEnum):
    """One of two."""

    RED = "red"
    BLUE = "blue"


@frozen
class Entry:
    """A class within another."""

    tokens: int
    share: float | None = None


@frozen
class Everything:
    """A field of every type that can be written."""

    name: str
    sure: bool
    content: bytes
    colour: Colour
    how: Literal["far", "near"]
    few: Annotated[int, range(1, 4)]
    amount: int | float | None
    pair: tuple[int, str]
    entries: list[Entry]
    row: tuple[int, ...] = field(validator=max_len(3))
    words: frozenset[bytes]
    places: dict[int, str | None]
    names: dict[str, Entry]
    native: Any


WHOLE = st.integers(0, 2**32 - 1)
REAL = st.floats(allow_nan=False, allow_infinity=False)
ENTRIES = st.builds(Entry, WHOLE, st.none() | REAL)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
EVERYTHING = st.builds(
    Everything,
    name=st.text(),
    sure=st.booleans(),
    content=st.binary(),
    colour=st.sampled_from(Colour),
    how=st.sampled_from(["far", "near"]),
    few=st.integers(1, 3),
    amount=st.none() | WHOLE | REAL,
    pair=st.tuples(WHOLE, st.text()),
    entries=st.lists(ENTRIES),
    row=st.lists(WHOLE, max_size=3).map(tuple),
    words=st.frozensets(st.binary()),
    places=st.dictionaries(st.integers(0, 10**9), st.none() | st.text()),
    names=st.dictionaries(st.text(), ENTRIES),
    native=JSON,
)


@given(EVERYTHING)
def test_what_is_written_is_read_again(value):
    """Through the text of JSON, every value comes back equal."""
    assert from_plain(Everything, json.loads(json.dumps(to_plain(Everything, value))), "it") == value


@given(EVERYTHING, st.data())
def test_whatever_stands_in_a_field_is_read_or_named(value, data):
    """Any JSON in place of a field is an equal value of the class, or one error that names the field."""
    plain = to_plain(Everything, value)
    name = data.draw(st.sampled_from(sorted(plain)))
    plain[name] = data.draw(JSON)
    refused = None
    try:
        read = from_plain(Everything, plain, "it")
    except InvalidInput as error:
        refused = error.where
    if refused is None:
        assert from_plain(Everything, to_plain(Everything, read), "it") == read
    else:
        assert refused.startswith(f"it.{name}") or (name == "row" and refused == "it")


FULL = Everything(
    "a", sure=True, content=b"x", colour=Colour.RED, how="far", few=2, amount=0.5, pair=(1, "b"),
    entries=[Entry(1), Entry(2, 0.5)], row=(1, 2), words=frozenset({b"w"}), places={7: "c"}, names={"d": Entry(3)},
    native=None,
)  # fmt: skip


@pytest.mark.parametrize(
    ("path", "wrong", "where", "what"),
    [
        (
            ("entries", 1, "tokens"),
            "x",
            "entries[1].tokens",
            "a whole number from 0 to 4,294,967,295, got 'x'",
        ),
        (
            ("entries", 1, "tokens"),
            True,
            "entries[1].tokens",
            "a whole number from 0 to 4,294,967,295, got True",
        ),
        (("entries", 0, "share"), float("nan"), "entries[0].share", "a finite number, got nan"),
        (("entries", 0, "share"), 10**400, "entries[0].share", None),
        (("entries", 0), 5, "entries[0]", "an object, got 5"),
        (("few",), 4, "few", "a whole number from 1 to 3, got 4"),
        (("amount",), "1", "amount", "a finite number, got '1'"),
        (("name",), None, "name", "text, got None"),
        (("sure",), 1, "sure", "true or false, got 1"),
        (("content",), "?", "content", "base64, got '?'"),
        (("colour",), "green", "colour", "one of red, blue, got 'green'"),
        (("how",), ["far"], "how", "one of far, near, got ['far']"),
        (("pair",), [1], "pair", "a list of 2, got [1]"),
        (("pair", 1), 2, "pair[1]", "text, got 2"),
        (("row",), "12", "row", "a list, got '12'"),
        (("places",), {"x": "c"}, "places.x", "an index, got 'x'"),
        (("places", "7"), 3, "places.7", "text, got 3"),
        (("names", "d", "tokens"), -1, "names.d.tokens", None),
    ],
)
def test_an_error_names_the_path(path, wrong, where, what):
    """It says what must stand there, and what does."""
    plain = json.loads(json.dumps(to_plain(Everything, FULL)))
    at = plain
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = wrong
    with pytest.raises(InvalidInput) as refused:
        from_plain(Everything, plain, "it")
    assert refused.value.where == f"it.{where}"
    assert what is None or refused.value.what == f"must be {what}"


def test_a_field_is_missing_or_unknown_or_does_not_fit():
    """A class has exactly its fields, and its own checks hold."""
    plain = to_plain(Everything, FULL)
    for changed, where in (
        ({name: each for name, each in plain.items() if name != "row"}, "it.row"),
        ({**plain, "surprise": 1}, "it.surprise"),
        ({**plain, "row": [1, 2, 3, 4]}, "it"),
    ):
        with pytest.raises(InvalidInput) as refused:
            from_plain(Everything, changed, "it")
        assert refused.value.where == where


@pytest.mark.parametrize(
    "value",
    [
        Budget(8_000, 0.25, trigger=0.8, target=1_000),
        Change(3, "tool", Outcome.EDITED, "X", handle="h"),
        Span(1, 4, Outcome.DROPPED, "X", "why", "fit"),
        Measured("s", None, "p", None, 5),
        Calibration((1, 2), 3, [0.7, 1.0]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_classes_of_the_library(value):
    """They are written as attrs has them, and come back equal."""
    plain = json.loads(json.dumps(to_plain(type(value), value)))
    assert plain == json.loads(json.dumps(asdict(value)))
    assert from_plain(type(value), plain, "it") == value
