"""TabulateJson says keys once; the document can be had back, to the byte of its values."""

import json

import pytest
from hypothesis import example, given, strategies as st

from agentctx import Ledger, Pipeline, TrimRounds, count
from agentctx.json_text import SHORTER, compact, is_json, tabulate, untabulate
from agentctx.strategies import CompactJson, TabulateJson
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

KEYS = st.sampled_from(
    ("a", "b", "é\n", 'quote"', "{", "[JSON]", "", "key", "true", "1.10", "7", "a  b", " a", "a=b", "x:y")
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8), KEYS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(st.fixed_dictionaries({"a": inner, "b": inner}), min_size=1, max_size=4),
        st.tuples(st.lists(st.one_of(st.just({}), st.just([]), inner), max_size=3), st.just([{"a": 1}, {"a": 2}])),
        st.dictionaries(KEYS, st.fixed_dictionaries({"b": inner, "c": st.fixed_dictionaries({"d": inner})})),
    ),
)
SEATS = json.dumps([{"seat": f"{row}A", "free": row < 3, "price": 99.5, "class": {"name": "eco"}} for row in range(9)])


@pytest.mark.parametrize(
    ("document", "table"),
    [
        ('[{"a":1},{"a":1.0}]', "[{a}\n1\n1.0]"),
        ('{"x":[{"a":1,"b":[]},{"a":"\\u00e9","b":{}}]}', '{x:[{a,b}\n1,[]\n"\\u00e9",{}]}'),
        ('{"7":{"a":1,"o":{"c":2}},"8":{"a":3,"o":{"c":4}}}', "{{a,o{c}}\n7:1,2\n8:3,4}"),
        ('[{"o":{"c":2},"a":1},{"o":{"d":2},"a":2}]', "[{o,a}\n{c:2},1\n{d:2},2]"),
        ('[{"a":1,"a":2},{"a":3,"a":1E400}]', "[{a,a}\n1,2\n3,1E400]"),
        ('{"f":[{},{"a":1}],"s":[{"a":1},{"a":2}]}', "{f:[{},{a:1}],\ns:[{a}\n1\n2]}"),
        ('[{"r":[{"a":1},{"a":2}]},{"r":[]}]', "[{r}\n[{a}\n1\n2]\n[]]"),
        ('[{"a":1,"b":{"c":"x"}},{"a":2,"b":{"c":"x"}}]', "[{a,b{c=x}}\n1\n2]"),
        ('[{"a":1},{"a":1}]', "[{a=1}\n\n]"),
        ('{"7":{"id":"7","a":1},"8":{"id":"8","a":2}}', "{{id=key,a}\n7:1\n8:2}"),
        ('{"7":{"id":"key"},"8":{"id":"key"}}', '{{id="key"}\n7:\n8:}'),
        (
            '["a b","1.10","true","null","key","2024-05-01"," a",""]',
            '[a b,"1.10","true","null","key",2024-05-01," a",""]',
        ),
        ('{"a b":"x:y","1":"1a"}', '{a b:"x:y",\n1:1a}'),
    ],
)
def test_objects_of_one_shape_are_a_table(document, table):
    """Arrays of them and objects of them, also within others; what all have stands once; quotes where they must be."""
    assert tabulate(document) == SHORTER + table
    assert untabulate(SHORTER + table) == document


@pytest.mark.parametrize(
    "text",
    [
        "",
        '[{"{":1}]',
        "[{},{}]",
        "[[1],[1]]",
        '["7",7]',
        '{"a":1}\n{"a":2}',
        '[{"a":1},{"a":2},]',
        '[{"a":NaN},{"a":2}]',
        "[" * 300 + '{"a":1},{"a":2}' + "]" * 300,
        SHORTER,
    ],
)
def test_what_has_no_table_stays(text):
    """And no quotes that it can do without; what is no JSON, and what is nested very deep."""
    assert tabulate(text) == text
    assert untabulate(text) == text


@given(VALUES, st.sampled_from((None, 1, "\t")), st.booleans())
@example(value=[{"a": "x\ny"}, {"a": "}\n"}], indent=None, escaped=False)
def test_the_document_comes_back(value, indent, escaped):
    """To the byte but for blanks: ``untabulate(tabulate(x))`` is ``compact(x)``, or ``x`` where nothing was done."""
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    made = tabulate(text)
    assert untabulate(made) == (text if made == text else compact(text))
    assert made == text or made.startswith(SHORTER)
    assert untabulate(text) == text
    assert tabulate(made) == made == compact(made) if made != text else True


@given(st.text(alphabet='{}[]",:=\\ \n1a', max_size=30))
def test_what_only_begins_like_tables_is_read_or_left(rest):
    """Text that a model wrote: whatever it is, it is given as it is or is JSON."""
    text = SHORTER + rest
    found = untabulate(text)
    assert found == text or is_json(found)


async def view_of(text, *stages, counter=None):
    """What is sent when a tool said ``text``."""
    turns = user("Look."), assistant(call("a", "get")), result("a", text)
    return await Pipeline(*stages, counter=counter).prepare(transcript("openai-chat", *turns))


async def test_it_is_said_only_in_fewer_tokens():
    """The line above the tables included: two short rows are not worth it."""
    short = '[{"a":1},{"a":2}]'
    assert (await view_of(short, TabulateJson())).messages[2]["content"] == short
    before = [await view_of(SEATS), await view_of(SEATS, CompactJson())]
    after = await view_of(SEATS, CompactJson(), TabulateJson())
    assert count(after.messages) < min(count(view.messages) for view in before)
    assert untabulate(after.messages[2]["content"]) == compact(SEATS)
    kept = await view_of(SEATS, TabulateJson(exclude=["get"]))
    assert kept.messages[2]["content"] == SEATS


async def test_the_recap_tells_the_values_of_tables_and_no_names_of_fields():
    """Of a result that went after it had become tables."""
    orders = json.dumps([{"order_id": f"W{number}551", "seat_name": "window_left"} for number in range(40)])
    turns = [user("Look."), assistant(call("a", "get")), result("a", orders), assistant("One."), user("And?")]
    pipeline = Pipeline(TabulateJson(), TrimRounds(1), Ledger(max_tokens=300))
    view = await pipeline.prepare(transcript("openai-chat", *turns, assistant("Two."), user("Go on.")))
    recap = str(view.messages)
    assert "W7551" in recap
    assert "window_left" in recap
    assert "order_id" not in recap


def test_work_grows_with_the_rows(work):
    """Eight times the rows are about eight times the work."""
    row = {"id": "x" * 8, "deep": {"a": {"b": {"c": [1, 2, {"d": 1}]}}}}

    def done(count):
        text = json.dumps([row] * count)
        return work(lambda: untabulate(tabulate(text)))

    assert done(4_000) < 10 * done(500)


def test_a_text_that_stands_for_more_than_may_be_is_left_alone():
    """A few lines can stand for gigabytes: they are read as far as is asked for; open quotes are read once."""
    nested = "1"
    for _ in range(40):
        nested = f"[{{a={nested}}}" + "\n" * 10 + "]"
    assert untabulate(f"{SHORTER}{nested}", 5_000) == f"{SHORTER}{nested}"
    rows = json.dumps([{"row": number, "price": "1.10 €", "free": True} for number in range(99)])
    assert untabulate(tabulate(rows), 20 * len(rows)) == compact(rows)
    assert untabulate(tabulate(rows), len(rows) / 2) == tabulate(rows)
    for end in ("", "\\", "\\\n"):
        opened = f'{SHORTER}"' + 'a\\"' * 100_000 + end
        assert untabulate(opened) == opened
