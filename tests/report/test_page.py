"""The page is one file that loads nothing, and holds what it was asked to hold."""

import json
import re
import zlib
from base64 import b64decode

import pytest
from attrs import evolve

from agentctx import Budget, Pipeline, TruncateToolOutputs
from agentctx.replay import Recording
from agentctx.report import html_page
from agentctx.report.page import LARGEST


def unpacked(page):
    """What the scripts of a page are given."""
    packed = re.search(r'id="data">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(b64decode(packed), wbits=-15))


def told(text, name="one", rounds=1):
    """A recording in which a tool says a text."""
    messages = [{"role": "user", "content": "Read it."}]
    for number in range(rounds):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read_secret", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"{number} {text}"},
        ]
    messages.append({"role": "assistant", "content": "Done."})
    return Recording(messages, None, None, "openai-chat", id=name, pending=False)


@pytest.fixture(scope="module")
def pipeline():
    """Cuts long results when they arrive."""
    return Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(90_000))


def test_the_page_names_no_address_to_load_from(follow, pipeline):
    """No element of the page leads out of it, and its policy forbids every address."""
    page = html_page(follow(told("hello"), pipeline)[0])
    body = page.partition("<script")[0]
    assert not re.search(r"(?:src|href)=(?!\"#)|@import|url\(", body)
    assert "default-src 'none'" in page
    assert "connect-src" not in page


def test_what_a_session_says_is_no_markup(follow, pipeline):
    """Texts and names that look like markup stay what they are."""
    markup = "</script><script>alert(1)</script>"
    page = html_page(follow(told(markup, name=markup), pipeline)[0])
    assert markup not in page
    assert unpacked(page)["id"] == markup
    assert markup in json.dumps(unpacked(page)["items"])


def test_names_do_not_turn_their_surroundings_around(follow, pipeline):
    """What turns the order of characters, or hides, is seen in ids and names of models and tools."""
    recording = evolve(told("hello", name="abc\u202eOPEN"), model="gpt\u202e-4o")
    page = html_page(follow(recording, pipeline)[0])
    assert "\u202e" not in page
    assert "abc\ufffdOPEN" in page
    assert "gpt\ufffd-4o" in page


def test_without_content_no_words_of_the_session_are_in_it(follow, pipeline):
    """Only roles, sizes, kinds, stages and outcomes are left."""
    data, _ = follow(told("the token is hunter2. " * 60), pipeline)
    values = unpacked(html_page(data, content=False))
    said = json.dumps(values)
    assert not any(word in said for word in ("hunter2", "Read it.", "read_secret", "Done."))
    assert [item[3] for item in values["items"]] == [[] for _ in values["items"]]
    assert "TruncateToolOutputs" in said
    assert "hunter2" in json.dumps(unpacked(html_page(data)))


def test_long_texts_are_cut_and_say_so_unless_all_is_asked_for(follow, pipeline):
    """A long text has its start, how much is not shown, and its end; with ``full`` it is whole."""
    text = "".join(f"line {number}\n" for number in range(6_000))
    data, _ = follow(told(text), pipeline)
    cut, whole = (unpacked(html_page(data, full=full))["items"][2][3][0] for full in (False, True))
    _, _, start, missing, end = cut
    assert whole[2:] == [f"0 {text}"]
    assert whole[2].startswith(start)
    assert whole[2].endswith(end)
    assert len(start) + missing + len(end) == len(whole[2])


def test_a_page_is_never_large_unless_it_is_asked_for(follow):
    """Texts that cannot be packed well are cut until the page is small enough."""
    noise = bytes(range(48, 123)).decode() * 40
    mixed = "".join(noise[(7 * number * number) % 75 :][: 60 + number % 13] for number in range(320))
    data, _ = follow(told(mixed, rounds=2), Pipeline())
    page = html_page(data)
    assert len(page) < LARGEST + 300_000
