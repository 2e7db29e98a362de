"""CompactJson leaves blanks out of JSON, and nothing else."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Pipeline, count
from agentctx.json_text import BLANKS, compact
from agentctx.strategies import CompactJson
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner))
)
DOCUMENTS = VALUES.filter(lambda value: isinstance(value, (list, dict)))


async def said(text, stage=None):
    """What the model is told of a tool that said ``text``."""
    turns = user("Look."), assistant(call("a", "get")), result("a", text)
    return (await Pipeline(stage or CompactJson()).prepare(transcript("openai-chat", *turns))).messages[2]["content"]


@pytest.mark.parametrize(
    ("text", "compacted"),
    [
        (
            '{ "id" : 12345678901234567890 , "x" : 9007199254740993 }',
            '{"id":12345678901234567890,"x":9007199254740993}',
        ),
        ('{"version": "1.10", "price": 1.10, "one": 1.0}', '{"version":"1.10","price":1.10,"one":1.0}'),
        ("[100000000000000000000000, 1e+23, -0, 1E400]", "[100000000000000000000000,1e+23,-0,1E400]"),
        ('{"b": 1, "a": 2, "b": 3}', '{"b":1,"a":2,"b":3}'),
        (
            '{"html": "<a> & \\u003c/a>", "é": "\\u00e9 \\/ \\ud800"}',
            '{"html":"<a> & \\u003c/a>","é":"\\u00e9 \\/ \\ud800"}',
        ),
        ('{"quote": "a \\" : , [ \\\\", "b": []}', '{"quote":"a \\" : , [ \\\\","b":[]}'),
        ('\n {"a": 1}\n{"b": [ 2 ]}\n\n[ ]\n', '\n{"a":1}\n{"b":[2]}\n\n[]\n'),
    ],
)
def test_numbers_order_repeated_keys_and_escapes_stay(text, compacted):
    """Byte for byte: only the blanks between tokens go; of JSON lines, the lines stay."""
    assert compact(text) == compacted


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1.10 ",
        '"a  b" ',
        "null ",
        "{ 'a': 1 }",
        "{a: 1}",
        '{"a": 1, }',
        '{"a": NaN }',
        '{"a": 1} and more',
        '{ "a": 1 } { "b": 2 }',
        '{"a": "raw \t tab"}',
        '\ufeff{ "a": 1 }',
        '\xa0{ "a": 1 }',
        "[ [1, 2]\n[ 3 ]",
        "[" * 100_000 + " ",
        "- a:  1\n  b: [ 1 ]",
    ],
)
def test_what_is_no_json_document_stays(text):
    """Scalars, JSON with comments or other liberties, text around it, YAML, and what is nested without end."""
    assert compact(text) == text


@given(
    DOCUMENTS, st.sampled_from((None, 0, 1, 2, "\t")), st.sampled_from(((", ", ": "), (",", ":"), (" ,\r\n", " : ")))
)
def test_it_is_what_a_writer_without_blanks_writes(value, indent, separators):
    """However a document was laid out, strings with blanks in them included; a second time nothing is left to do."""
    for escaped in (True, False):
        text = json.dumps(value, indent=indent, separators=separators, ensure_ascii=escaped)
        assert compact(text) == json.dumps(value, separators=(",", ":"), ensure_ascii=escaped)
        assert compact(compact(text)) == compact(text)


@given(st.text(alphabet='{}[]",:\\ \n\t01aeE.-', max_size=40))
def test_of_any_text_only_blanks_go(text):
    """Also of text that nearly is JSON."""
    kept = str.maketrans("", "", BLANKS)
    assert compact(text).translate(kept) == text.translate(kept)


async def test_it_is_said_only_in_fewer_tokens():
    """A counter to which blanks cost nothing has nothing changed."""
    turns = transcript("openai-chat", user("Look."), assistant(call("a", "get")), result("a", '{"a": 1, "b": [1, 2]}'))
    for counter, changed in ((lambda text: len(text.replace(" ", "")), False), (len, True)):
        view = await Pipeline(CompactJson(), counter=counter).prepare(turns)
        assert (view.messages[2] != turns[2]) is changed
        assert count(view.messages, counter=counter) <= count(turns, counter=counter)


async def test_tools_that_are_left_out_keep_their_words():
    """What the model edits later has to match."""
    text = json.dumps({"a": [1, 2, 3]}, indent=4)
    assert await said(text, CompactJson(exclude=["get"])) == text
    assert await said(text) == '{"a":[1,2,3]}'


@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
async def test_in_a_session_what_was_sent_stays(format_name):
    """Each result is compacted when it arrives; the report says why, and what it saved."""
    text, messages, before = json.dumps({"a": [1, 2, 3]}, indent=4), [user("Look.")], []
    session = Pipeline(CompactJson()).session(format=format_name)
    for number in range(4):
        messages += [assistant(call(f"c{number}", "get", {"n": number})), result(f"c{number}", text)]
        view = await session.prepare(transcript(format_name, *messages))
        assert view.messages[: len(before)] == before
        before = view.messages
        assert "blanks left out of JSON" in [change.reason for change in view.report.in_force]
        saved = [each.tokens_before - each.tokens_after for each in view.report.stages if each.stage == "CompactJson"]
        assert sum(saved) > 10
