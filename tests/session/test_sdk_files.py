"""Files that the Anthropic SDK reads itself: a path, and an open stream, where base64 would stand."""

import base64
import io
import json

import pytest

from agentctx import Budget, FitContextWindow, InvalidInput, Pipeline, Session, count

CONTENT = b"%PDF-1.4\n" + bytes(range(256)) * 400


def asked(data):
    """A conversation about a document."""
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    block = {"type": "document", "source": source}
    return [
        {"role": "user", "content": [block]},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "So?"},
    ]


@pytest.fixture(params=["path", "stream", "bytes"])
def data(request, tmp_path):
    """The file as each kind of object that the SDK takes."""
    (tmp_path / "a.pdf").write_bytes(CONTENT)
    if request.param == "path":
        yield tmp_path / "a.pdf"
    else:
        with io.BytesIO(CONTENT) if request.param == "bytes" else (tmp_path / "a.pdf").open("rb") as stream:
            yield stream


def pipeline():
    """One that cuts nothing here."""
    return Pipeline(FitContextWindow(), budget=Budget(100_000))


def test_a_file_costs_what_its_base64_costs(data):
    """A document counts the same however it is given, and a stream is not used up."""
    whole = count(asked(base64.b64encode(CONTENT).decode()), format="anthropic")
    assert count(asked(data), format="anthropic") == whole == count(asked(data), format="anthropic")


@pytest.mark.anyio
async def test_a_state_holds_what_the_file_holds(data):
    """A session with a file in it can be written down, and goes on after a load."""
    session = pipeline().session(model="claude-sonnet-4-5", format="anthropic")
    history = asked(data)
    view = await session.prepare(history)
    assert [new is old for new, old in zip(view.messages, history, strict=True)] == [True] * 3
    again = Session.load(pipeline(), json.loads(json.dumps(session.dump())))
    more = [*history, {"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
    view = await again.prepare(more)
    assert [new is old for new, old in zip(view.messages, more, strict=True)] == [True] * 5
    assert not view.report.changes


@pytest.mark.anyio
async def test_a_file_that_is_gone_is_named(tmp_path):
    """The error says which block cannot be read."""
    with pytest.raises(InvalidInput, match=r"messages\[0\].content\[0\].source.data: cannot be read"):
        await pipeline().prepare(asked(tmp_path / "gone.pdf"), format="anthropic")
