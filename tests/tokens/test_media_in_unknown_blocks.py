"""What blocks that are not understood carry: media cost what media cost, however deep they stand, in any spelling."""

import base64
import io
import json
from hashlib import shake_256

import pytest
from hypothesis import given, strategies as st

from agentctx import Media, Message, Opaque, Text, ToolResult
from agentctx.tokens.counting import MessageMeter, default_counter
from agentctx.tokens.media import carried

METER = MessageMeter(default_counter(None))
NOISE = shake_256(b"noise").digest(30_000)
FILES = {
    "image/png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x00\x00\x00\x02\x00" + NOISE,
    "image/jpeg": b"\xff\xd8\xff\xe0" + NOISE,
    "application/pdf": b"%PDF-1.4\n" + NOISE,
    "audio/mpeg": b"ID3\x04" + NOISE,
    "video/mp4": b"\x00\x00\x00\x18ftypmp42" + NOISE,
    "text/plain": b"Many plain words, one after the other. " * 400,
}


def written(kind, content, way):
    """A file as providers and tools write it: each a block that carries it."""
    data = base64.b64encode(content).decode()
    return {
        "source": {"type": "base64", "media_type": kind, "data": data},
        "inline": {"inlineData": {"mimeType": kind, "data": data}},
        "sdk": {"inline_data": {"mime_type": kind, "data": content}},
        "mcp": {"type": "resource", "resource": {"uri": "file:///a", "mimeType": kind, "blob": data}},
        "url": {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}"}},
        "named url": {"file": {"file_data": f"data:{kind};name=a;base64,{data}"}},
        "bytes": {"mime_type": kind, "held": content},
        "lines": {"media_type": kind, "type": "base64", "data": base64.encodebytes(content).decode()},
    }[way]


WAYS = ("source", "inline", "sdk", "mcp", "url", "named url", "bytes", "lines")
AROUND = st.recursive(
    st.just("here"),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2)
        | st.fixed_dictionaries({"content": inner, "type": st.sampled_from(["result", "document", "tool_result"])})
        | st.fixed_dictionaries({"title": st.text(max_size=9), "anything": inner})
    ),
    max_leaves=3,
)


def put(around, block):
    """The block in the places that wait for one."""
    if isinstance(around, list):
        return [put(each, block) for each in around]
    if isinstance(around, dict):
        return {key: put(value, block) if key in {"content", "anything"} else value for key, value in around.items()}
    return block


@given(AROUND, st.sampled_from(sorted(FILES)), st.sampled_from(WAYS))
def test_media_within_cost_what_they_cost_alone(around, kind, way):
    """A file costs the same within a block that nobody understands as in a message, at any depth, in any spelling."""
    block = put(around, written(kind, FILES[kind], way))
    times = json.dumps(put(around, "\0here")).count("\\u0000here")
    family = kind.partition("/")[0]
    alone = Media(
        family if family in {"image", "audio", "video"} else "document", kind, base64.b64encode(FILES[kind]).decode()
    )
    words = METER.parts((Opaque("x", put(around, {})),))
    cost = METER.parts((Opaque("x", block),))
    assert 0 <= cost - times * METER.parts((alone,)) - words < 60 * times
    assert cost == METER.parts((ToolResult("c", (Opaque("x", block),)),)) - METER.parts((ToolResult("c", ()),))


@pytest.mark.parametrize("key", ["data", "content", "result", "screenshot"])
@pytest.mark.parametrize("kind", ["image/png", "image/jpeg", "application/pdf"])
def test_files_are_known_by_how_they_begin(kind, key):
    """A file is one also where nothing says so."""
    data = base64.b64encode(FILES[kind]).decode()
    (found,) = carried({"type": "view", key: data}).media
    assert (found.media_type, found.data) == (kind, data)


def test_base64_without_a_sign_is_a_file():
    """A long run of base64 is none of the words that a model reads, whatever it is."""
    data = base64.b64encode(NOISE).decode()
    assert METER.parts((Opaque("x", {"type": "x", "payload": data}),)) < len(data) / 20


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "iVBORw0KGgo" + "Aa1" * 900},
        {"type": "bash_result", "stdout": "iVBORw0KGgo" + "Aa1" * 900},
        {"type": "server_tool_use", "input": {"data": "iVBORw0KGgo" + "Aa1" * 900}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "word" * 900}},
        {"type": "x", "words": "a" * 5_000},
        {"type": "x", "words": "Some words, 1 after the other. " * 100},
    ],
)
def test_what_the_model_reads_is_text(block):
    """Text is counted as the text that it is, though it may look like a file."""
    found = carried(block)
    assert (found.rest, found.media, found.encrypted) == (block, [], 0)


def test_what_is_encrypted_counts_by_its_bytes():
    """What a search found is shown to the model, though nobody else can read it: it costs less than its characters."""
    data = base64.b64encode(NOISE[:3_000]).decode()
    block = {"type": "web_search_result", "url": "https://example.org", "encrypted_content": data}
    assert 1_000 <= METER.parts((Opaque("x", block),)) < 1_100


def test_files_and_streams_are_read_where_they_stand(tmp_path):
    """A path and a stream carry what is in them, and a stream is afterwards where it was."""
    (tmp_path / "a.pdf").write_bytes(FILES["application/pdf"])
    stream = io.BytesIO(FILES["application/pdf"])
    stream.seek(5)
    for data in (tmp_path / "a.pdf", stream):
        (found,) = carried({"source": {"media_type": "application/pdf", "data": data}}).media
        assert found.data == base64.b64encode(FILES["application/pdf"]).decode()
    assert stream.tell() == 5
    assert carried({"data": tmp_path / "gone"}).media == []


def test_a_block_that_contains_itself_can_be_counted():
    """Nesting without end, and very deep nesting, ends."""
    endless = {"data": "A"}
    endless["self"] = endless["again"] = endless
    deep = ["x"]
    for _ in range(50_000):
        deep = [deep]
    for block in (endless, deep):
        assert METER.message(Message("user", (Opaque("x", block), Text("y")))) > 1


def test_blank_lines_take_no_time(work):
    """Text that looks like base64 up to its end is looked at once."""
    assert work(lambda: carried({"data": "\n" * 200_000 + "é"})) < 200


@pytest.mark.parametrize("key", ["signature", "thoughtSignature", "thought_signature"])
def test_signatures_cost_nothing(key):
    """What only the provider checks is no text, in a block that is not understood as in reasoning."""
    signed = base64.b64encode(NOISE[:9_000]).decode()
    block = {"type": "compaction", "content": "What was said before."}
    assert METER.parts((Opaque("x", block | {key: signed}),)) - METER.parts((Opaque("x", block),)) < 10
    told = block | {key: "These are words, which somebody wrote where a signature stands. " * 100}
    assert METER.parts((Opaque("x", told),)) > 1_000
