"""The page of a comparison has the rows that were measured."""

import json
import re
import zlib
from base64 import b64decode

import pytest

from agentctx import InvalidInput
from agentctx.comparison import Measured
from agentctx.comparison.run import read_rows
from agentctx.report import comparison_page


def measured(session, pipeline, **numbers):
    """A row."""
    return Measured(session, None, pipeline, "gpt-5.4", 8_000, **{"calls": 10, "tokens_sent": 1_000} | numbers)


def test_each_row_is_at_its_place_and_a_missing_one_is_missing():
    """A line for each session, a cell for each pipeline; of a pair that is there twice, the last counts."""
    rows = [
        measured("one", "a", usd=1.0),
        measured("one", "b", usd=2.0),
        measured("two", "b", usd=4.0),
        measured("one", "a", usd=3.0),
    ]
    page = comparison_page(rows)
    values = json.loads(zlib.decompress(b64decode(re.search(r'id="data">([^<]*)<', page)[1]), wbits=-15))
    at = values["numbers"].index("usd")
    assert values["pipelines"] == ["a", "b"]
    assert [[cell and cell[at] for cell in line] for line in values["rows"]] == [[3.0, 2.0], [None, 4.0]]
    assert "1 missing" in page


def test_rows_are_read_as_compare_writes_them():
    """Of JSON lines with what compare adds; what is no row is an error that names the line."""
    row = measured("one", "a", usd=1.0)
    lines = [json.dumps(row.to_dict() | {"cached_share": 0.5}), json.dumps({"key": "k", **row.to_dict()})]
    assert read_rows("\n".join(lines), "rows.jsonl") == [row, row]
    with pytest.raises(InvalidInput, match=r"rows\.jsonl, line 2: is no row of a comparison"):
        read_rows(f'{lines[0]}\n{{"messages": []}}', "rows.jsonl")
    with pytest.raises(InvalidInput, match="has no rows"):
        read_rows("\n", "rows.jsonl")
