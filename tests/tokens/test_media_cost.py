import base64

import pytest
from hypothesis import given, strategies as st

from agentctx import Media, count
from agentctx.models import ImageRule
from agentctx.tokens.counting import default_counter
from agentctx.tokens.media import document_text, image_tokens, media_tokens as tokens_of

TILES = ImageRule("openai-tiles")
PATCHES = ImageRule("openai-patches", patches=1536)
NEWER = ImageRule("openai-patches", patches=2500)
NEWEST = ImageRule("openai-patches", patches=30_000, factor=1.2)
CLAUDE = ImageRule("claude", edge=1568, cap=1568)
CLAUDE_SHARP = ImageRule("claude", edge=2576, cap=4784)
GEMINI_2 = ImageRule("gemini", tile=258)
GEMINI_3 = ImageRule("gemini", tile=1120)
COUNT = default_counter(None).count
RULES = [TILES, PATCHES, NEWER, NEWEST, CLAUDE, CLAUDE_SHARP, GEMINI_2, GEMINI_3]


def media_tokens(part, rule):
    """What a part costs where text is counted as usual."""
    return tokens_of(part, rule, COUNT)


@pytest.mark.parametrize(
    ("rule", "size", "detail", "expected"),
    [
        (TILES, (1024, 1024), None, 765),
        (TILES, (2048, 4096), "high", 1105),
        (TILES, (2048, 4096), "low", 85),
        (TILES, (100, 100), "high", 255),
        (PATCHES, (1024, 1024), None, 1024),
        (PATCHES, (1800, 2400), None, 1452),
        (PATCHES, (640, 480), None, 300),
        (NEWER, (1600, 1600), None, 2500),
        (NEWER, (1600, 1600), "low", 256),
        (NEWER, (3200, 3200), "original", 10_000),
        (NEWEST, (1600, 1600), "low", 308),
        (NEWEST, (3200, 3200), "high", 3_000),
        (NEWEST, (3200, 3200), None, 12_000),
        (CLAUDE, (200, 200), None, 64),
        (CLAUDE, (1000, 1000), None, 1296),
        (CLAUDE, (1920, 1080), None, 1560),
        (CLAUDE_SHARP, (1920, 1080), None, 2691),
        (CLAUDE, (3840, 2160), None, 1560),
        (CLAUDE_SHARP, (3840, 2160), None, 4784),
        (CLAUDE, (1075, 1520), None, 1551),
        (CLAUDE_SHARP, (1075, 1520), None, 2145),
        (CLAUDE, (2000, 1500), None, 1564),
        (GEMINI_2, (384, 384), None, 258),
        (GEMINI_2, (1536, 769), None, 1032),
        (GEMINI_3, (384, 384), None, 1120),
        (GEMINI_3, (384, 384), "low", 280),
    ],
)
def test_published_examples(rule, size, detail, expected):
    """Images cost what the providers' pages say that they cost."""
    assert image_tokens(size, rule, detail) == expected


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.kind}-{rule.patches}-{rule.cap}-{rule.tile}")
@given(width=st.integers(1, 20_000), height=st.integers(1, 20_000))
def test_cost_is_positive_and_bounded(rule, width, height):
    """An image of any shape costs something, and never more than the rule's own bound."""
    bound = {
        "openai-tiles": 85 + 170 * 8,
        "openai-patches": rule.patches * rule.factor,
        "claude": rule.cap,
        "gemini": 258 * 27 * 27,
    }
    assert 0 < image_tokens((width, height), rule) <= bound[rule.kind]


@pytest.mark.parametrize("kind", ["image", "audio", "video", "document", "hologram"])
@pytest.mark.parametrize("rule", [TILES, CLAUDE, GEMINI_2], ids=lambda rule: rule.kind)
def test_base64_is_not_text(kind, rule):
    """A megabyte of base64 costs far less than its characters would, and more than nothing."""
    part = Media(kind, data=base64.b64encode(bytes(1_000_000)).decode())
    assert 0 < media_tokens(part, rule) < 70_000


@pytest.mark.parametrize("kind", ["image", "audio", "video", "document"])
def test_what_is_elsewhere_costs_a_typical_amount(kind):
    """Media by reference, whose size cannot be known, cost something."""
    assert 50 < media_tokens(Media(kind, url="https://example.org/file"), TILES) < 50_000


def test_inline_image_counts_by_its_size():
    """The pixels of an inline image are read from its header."""
    header = b"GIF89a" + (2048).to_bytes(2, "little") + (4096).to_bytes(2, "little")
    assert media_tokens(Media("image", "image/gif", base64.b64encode(header + bytes(100)).decode()), TILES) == 1105


def test_longer_sounds_cost_more():
    """A sound of twice the length costs twice as much."""
    short, long = (Media("audio", "audio/wav", "A" * size) for size in (640_000, 1_280_000))
    assert media_tokens(long, TILES) == pytest.approx(2 * media_tokens(short, TILES), abs=1)


WORDS = "The quick brown fox, naïve as ever, jumps over 1,000 lazy dogs.\n" * 200


def as_base64(text, encoding="utf-8"):
    """A text as the base64 of its bytes."""
    return base64.b64encode(text.encode(encoding)).decode()


@pytest.mark.parametrize("rule", RULES[-3:], ids=lambda rule: rule.kind)
@pytest.mark.parametrize("media_type", ["text/plain", "text/csv", "application/json", "application/ld+json", None])
def test_a_text_document_costs_what_it_says(rule, media_type):
    """A document of plain text, known by its type or by its bytes, costs its text."""
    part = Media("document", media_type, as_base64(WORDS))
    assert media_tokens(part, rule) == COUNT(WORDS)
    assert media_tokens(Media("document", media_type, as_base64(WORDS, "utf-16")), rule) == COUNT(WORDS)


def test_a_damaged_text_is_a_text_where_its_type_says_so():
    """Bytes that are no UTF-8 do not make a text a picture; where nothing says that it is one, they do."""
    data = base64.b64encode(WORDS.encode("latin-1")).decode()
    assert media_tokens(Media("document", "text/plain", data), TILES) == pytest.approx(COUNT(WORDS), rel=0.1)
    assert document_text(Media("document", None, data)) is None


def test_a_text_in_a_url_costs_what_it_says():
    """So does one that stands in a data URL as it is."""
    assert media_tokens(Media("document", "text/plain", url="data:text/plain," + "two%20words" * 50), TILES) > 50
    assert document_text(Media("document", url="data:,two%20words")) == "two words"


@pytest.mark.parametrize("start", ["%PDF-1.7\n", "{\\rtf1 ", "PK\x03\x04"])
@pytest.mark.parametrize("media_type", ["application/pdf", None])
def test_pages_are_no_text(start, media_type):
    """A PDF is counted by its pages also where all its bytes are letters."""
    data = as_base64(start + WORDS * 20)
    assert document_text(Media("document", media_type, data)) is None
    assert media_tokens(Media("document", media_type, data), CLAUDE) < COUNT(WORDS * 20) / 2


PDF = base64.b64encode(b"%PDF-1.4\n" + bytes(range(200))).decode()


def _claude(source):
    return lambda field, words: {"type": "document", "source": source, **({field: words} if field else {})}


def _converse(source):
    return lambda field, words: {
        "document": {"format": "pdf", "name": "a", "source": source, **({field: words} if field else {})}
    }


def _file(kind, inner, **more):
    return lambda field, words: {"type": kind, inner: {**more, **({field: words} if field else {})}}


def _google(key, **more):
    return lambda field, words: {key: {"mimeType": "application/pdf", **more, **({field: words} if field else {})}}


BESIDE = [
    *(
        ("anthropic", field, _claude(source))
        for field in ("title", "context")
        for source in (
            {"type": "text", "media_type": "text/plain", "data": "hi"},
            {"type": "base64", "media_type": "application/pdf", "data": PDF},
            {"type": "url", "url": "https://example.org/a.pdf"},
            {"type": "file", "file_id": "file_1"},
            {"type": "content", "content": [{"type": "text", "text": "hi"}]},
        )
    ),
    *(
        ("bedrock", field, _converse(source))
        for field in ("name", "context")
        for source in ({"text": "hi"}, {"bytes": b"%PDF-1.4"}, {"s3Location": {"uri": "s3://a/b"}})
    ),
    ("openai-chat", "filename", _file("file", "file", file_data=f"data:application/pdf;base64,{PDF}")),
    ("openai-chat", "filename", _file("file", "file", file_data=PDF)),
    ("openai-chat", "filename", _file("file", "file", file_id="file-1")),
    *(
        (
            "openai-responses",
            "filename",
            lambda field, words, at=at: {"type": "input_file", **at, **({field: words} if field else {})},
        )
        for at in ({"file_data": f"data:application/pdf;base64,{PDF}"}, {"file_data": PDF}, {"file_id": "f"})
    ),
    ("gemini", "displayName", _google("inlineData", data=PDF)),
    ("gemini", "display_name", _google("inlineData", data=PDF)),
    ("gemini", "displayName", _google("fileData", fileUri="gs://a/b.pdf")),
]
"""The fields of words beside media: the format, the field, and a block with something in the field or without it."""


def _said(name, block):
    """Requests in which a block stands: in the user's message, and in a tool's answer."""
    ask = [{"role": "user", "content": "q"}]
    match name:
        case "anthropic":
            yield [{"role": "user", "content": [block]}]
            yield from _answered_by_claude(ask, block)
        case "bedrock":
            told = {"toolResult": {"toolUseId": "c", "content": [block]}}
            yield [{"role": "user", "content": [{"text": "q"}, block]}]
            yield [
                {"role": "user", "content": [{"text": "q"}]},
                {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}]},
                {"role": "user", "content": [told]},
            ]
        case "openai-chat":
            call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            yield [{"role": "user", "content": [block]}]
            yield [
                *ask,
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c", "content": [block]},
            ]
        case "openai-responses":
            call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
            yield [{"role": "user", "content": [block]}]
            yield [*ask, call, {"type": "function_call_output", "call_id": "c", "output": [block]}]
        case _:
            answer = {"functionResponse": {"name": "f", "response": {"output": "x"}, "parts": [block]}}
            yield [{"role": "user", "parts": [block]}]
            yield [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                {"role": "user", "parts": [answer]},
            ]


def _answered_by_claude(ask, block):
    call = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [block]}
    yield [*ask, {"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
    fetch = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {}}
    page = {"type": "web_fetch_result", "url": "https://example.org", "content": block}
    fetched = {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": page}
    yield [*ask, {"role": "assistant", "content": [fetch, fetched]}]


@pytest.mark.parametrize(("name", "field", "block"), BESIDE)
@pytest.mark.parametrize("words", ["lorem ipsum dolor " * 500, "Lorem1/Ipsum\n" * 500])
def test_words_beside_media_are_counted(name, field, block, words):
    """What stands beside a document in words costs what it costs as text, wherever the document stands."""
    alone = COUNT(words)
    for bare, said in zip(_said(name, block(None, "")), _said(name, block(field, words)), strict=True):
        more = count(said, format=name) - count(bare, format=name)
        assert alone * 0.9 <= more <= alone * 1.2 + 20
