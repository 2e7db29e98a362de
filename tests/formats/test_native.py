"""What the formats share."""

import json
import math

import pytest
from hypothesis import given, strategies as st

from agentctx import InvalidInput, count
from agentctx.formats.native import as_mapping, clean_text, finite_json, mapping_or_none


class Dumped:
    """An object as provider SDKs return them."""

    def model_dump(self, *, mode, exclude_unset):
        return {"mode": mode, "exclude_unset": exclude_unset}


def test_a_dict_is_its_own_mapping():
    """A dict comes back as itself."""
    native = {"role": "user"}
    assert native is as_mapping(native)


def test_an_sdk_object_is_dumped_as_its_client_sends_it():
    """An SDK object is dumped as JSON with its set fields only."""
    assert as_mapping(Dumped()) == {"mode": "json", "exclude_unset": True}


@pytest.mark.parametrize("native", [None, 3, "x", [], Dumped])
def test_anything_else_is_refused_by_place(native):
    """What is no object is refused, and the error names the place."""
    with pytest.raises(InvalidInput, match=r"messages\[3\]") as caught:
        as_mapping(native, "messages[3]")
    assert caught.value.where == "messages[3]"
    assert mapping_or_none(native) is None


@given(st.text(st.characters(codec="utf-8")))
def test_clean_text_is_itself(text):
    """Text without surrogates is returned as the same object."""
    assert text is clean_text(text)


@given(st.text(st.characters(), min_size=1))
def test_cleaned_text_can_be_sent(text):
    """Whatever goes in, what comes out can be encoded as UTF-8."""
    clean_text(text).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("end\ud83d", "end\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83dé\ude00", "\ufffdé\ufffd"),
    ],
)
def test_surrogates_become_what_can_be_sent(text, expected):
    """A lone surrogate becomes one U+FFFD, a pair becomes its character, all else stays."""
    assert expected == clean_text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": NaN}', '{"a": null}'),
        ("[-Infinity,Infinity , 1]", "[null,null , 1]"),
        ('{"NaN": "a \\" Infinity", "b":NaN}', '{"NaN": "a \\" Infinity", "b":null}'),
    ],
)
def test_what_json_has_not_becomes_null(text, expected):
    """NaN and infinities outside of strings become null; spelling and spacing of the rest stay."""
    assert expected == finite_json(text)


@pytest.mark.parametrize("text", ["{}", "", "not NaN json", '{"a": "NaN"}', '{"a": NaN', "[" * 100_000 + "NaN"])
def test_other_text_is_itself(text):
    """Text without such constants, or that is no JSON anyway, is returned as the same object."""
    assert text is finite_json(text)


@given(st.recursive(st.floats() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_finite_json_is_json(value):
    """What Python's json writes becomes JSON that a strict reader takes."""

    def refuse(name):
        raise AssertionError(name)

    text = json.dumps(value, ensure_ascii=False)
    json.loads(finite_json(text), parse_constant=refuse)


def test_floats_that_overflow_stay_as_they_are_spelled():
    """A number too large for Python is still JSON and stays."""
    assert math.inf == json.loads("1e999")
    assert finite_json("[1e999, NaN]") == "[1e999, null]"


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic"])
def test_tools_that_are_nested_too_deep_are_refused(name):
    """One error that names the tool, however deep it is."""
    schema = {}
    for _ in range(100_000):
        schema = {"properties": schema}
    tool = {"name": "f", "type": "function", "parameters": schema, "input_schema": schema, "function": {"name": "f"}}
    with pytest.raises(InvalidInput, match=r"tools\[0\]"):
        count([{"role": "user", "content": "task"}], format=name, tools=[tool])
