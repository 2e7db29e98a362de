"""The recall tool gives the model back what was left out, in all formats, whatever the model sends."""

import json

import anyio
import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    ContextStrategy,
    FitContextWindow,
    Pipeline,
    TruncateToolOutputs,
    validate,
)
from agentctx.formats.registry import format_named
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import Summarize
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import TiktokenCounter

pytestmark = pytest.mark.anyio

FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
ODD = 'line one é👩‍👧\r\n\ttab \x00 \u2028 "quoted" \\ back\n' * 30


def tools(recall, format_name):
    """The tools of a request: the recall tool."""
    return [recall.definition(format_name)]


def results(view, format_name):
    """What the tools say in a view."""
    wire = format_named(format_name)
    return [part.text for native in view.messages for part in wire.read_message(native, 0).results]


def handles(texts):
    """The handles that texts name."""
    return [text.split("; recall ")[1].split("]")[0].split(" ")[0] for text in texts if "; recall " in text]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_model_gets_back_what_was_cleared(format_name):
    """It sees a handle, calls the tool with it, and the answer is the result to the byte; the request stays legal."""
    store = MemoryStore()
    recall = Recall(store)
    session = Pipeline(ClearToolResults(keep_last=1), store=store).session(format=format_name)
    turns, outputs, answers = [user("task")], [], []
    for place in range(4):
        outputs.append(f"{place} {ODD}")
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", outputs[-1])]
        view = await session.prepare(transcript(format_name, *turns), tools=tools(recall, format_name))
        for number, handle in enumerate(handles(results(view, format_name))):
            asked, wanted = f"r{place}{number}", {"handle": handle}
            answers.append(await recall(json.dumps(wanted)))
            assert answers[-1] == await recall(wanted)
            turns += [assistant(call(asked, "recall", wanted)), result(asked, answers[-1])]
            view = await session.prepare(transcript(format_name, *turns), tools=tools(recall, format_name))
            errors = validate({"messages": view.messages, "tools": view.tools}, format=format_name)
            assert not errors
    assert set(answers) <= set(outputs)
    assert len(set(answers)) >= 3


@pytest.mark.parametrize("format_name", FORMATS)
async def test_each_of_several_results_in_a_message_has_its_own_handle(format_name):
    """Parallel results are told apart."""
    store = MemoryStore()
    recall = Recall(store)
    texts = [f"{name} " * 60 for name in "abc"]
    calls = [call(f"c{place}", "read", {"n": place}) for place in range(3)]
    answers = [result(f"c{place}", text) for place, text in enumerate(texts)]
    messages = transcript(format_name, user("task"), assistant(*calls), *answers, assistant("ok"), user("more"))
    view = await Pipeline(ClearToolResults(keep_last=0), store=store).prepare(
        messages, tools=tools(recall, format_name), format=format_name
    )
    found = handles(results(view, format_name))
    assert [await recall({"handle": handle}) for handle in found] == texts


BAD = [
    None, "", "{", "[]", "null", "3", b"\xff", {"handle": 3.5}, {"handle": {"a": 1}}, {"handle": "../../etc/passwd"},
    {"handle": "\ud800"}, {"handle": "x" * 100_000}, {"handle": "#"}, {"handle": "#1"}, {"search": ""},
    {"search": "?!"},
    {"search": "x" * 50_000}, {"lines": "1-2"}, {"other": 1}, {"handle": None}, {"search": ["a"]}, "[" * 99_999,
]  # fmt: skip


@pytest.mark.parametrize("arguments", BAD, ids=range(len(BAD)))
async def test_whatever_a_model_sends_it_gets_a_clear_text(arguments):
    """No exception, and no more tokens than the answer may have."""
    store = MemoryStore()
    await store.put(b"a log")
    answer = await Recall(store, max_tokens=200)(arguments)
    assert answer
    assert TiktokenCounter().count(answer) <= 200


@pytest.mark.parametrize("more", [{"lines": "x"}, {"lines": "99-"}, {"lines": "0"}, {"bytes": "-"}, {"bytes": "9-1"}])
async def test_a_range_that_is_none_is_said(more):
    """Also where it lies behind the end."""
    store = MemoryStore()
    assert await Recall(store)({"handle": await store.put(b"one\ntwo"), **more})


async def test_a_store_that_fails_is_no_error_for_the_model():
    """It is told that the store does not answer, not that nothing is there."""

    class Down:
        async def put(self, _content, /):
            raise ConnectionError

        async def get(self, _handle, /):
            raise ConnectionError

        async def handles(self):
            raise ConnectionError

    recall = Recall(Down())
    for asked in ({"handle": "abc"}, {"search": "abc"}, {"handle": "abc", "search": "abc"}):
        assert "the store does not answer" in await recall(asked)


async def test_a_search_says_that_it_could_not_read_all():
    """What cannot be decrypted is not what the words are missing in."""

    class Locked:
        known = True

        def encrypt(self, content):
            return content

        def decrypt(self, content):
            return content if self.known else content[:0]

    cipher = Locked()
    store = MemoryStore(cipher=cipher)
    await store.put(b"port 8080")
    cipher.known = False
    assert "that can be read" in await Recall(store)({"search": "port 8080"})


async def test_a_long_content_is_read_piece_by_piece():
    """Each answer says how to read on; the pieces are the content, byte for byte, and none is too large."""
    store, counter = MemoryStore(), TiktokenCounter()
    content = "".join(f"line {number} é👩‍👧 {'x' * (number % 97)}\n" for number in range(900))
    content += "e" + "\u0301" * 3_000  # one sign, and larger than an answer
    recall, handle = Recall(store, max_tokens=500), await store.put(content.encode())
    pieces, answer = [], await recall({"handle": handle})
    while "\n[bytes " in answer:
        assert counter.count(answer) <= 500
        assert len(pieces) < 200
        piece, _, said = answer.rpartition("\n[bytes ")
        pieces.append(piece)
        answer = await recall({"handle": handle, "bytes": said.rpartition("bytes ")[2].removesuffix("]")})
    assert "".join([*pieces, answer]) == content


async def test_lines_and_bytes():
    """Of a content, as it stands."""
    store = MemoryStore()
    recall, handle = Recall(store), await store.put("one\ntwo é\nthree\nfour".encode())
    assert await recall({"handle": handle, "lines": "2-3"}) == "two é\nthree"
    assert await recall({"handle": handle, "lines": "3-"}) == "three\nfour"
    assert await recall({"handle": handle, "lines": "2"}) == "two é"
    assert await recall({"handle": handle, "lines": [1, 2]}) == "one\ntwo é"
    assert await recall({"handle": handle, "bytes": "4-7"}) == "two"


async def test_search_finds_what_was_left_out():
    """In one content by lines, in all by handles; what is written letter for letter goes first."""
    store = MemoryStore()
    handles_ = [await store.put(f"log {place}\nerror E{place}07 in unit {place}\nend".encode()) for place in range(40)]
    recall = Recall(store)
    answer = await recall({"search": "E1707"})
    assert handles_[17] in answer
    assert "2: error E1707 in unit 17" in answer
    assert "2: error E1707" in await recall({"handle": handles_[17], "search": "E1707"})
    assert "not found" in await recall({"search": "zebra"})
    assert "is not in" in await recall({"handle": handles_[3], "search": "zebra"})


async def test_a_store_s_own_search_is_used():
    """Where it has one, nothing else is read."""

    class Searching(MemoryStore):
        async def search(self, query, limit, /):
            return [handle for handle in await self.handles() if query.encode() in await self.get(handle)][:limit]

        async def get(self, handle, /):
            return await MemoryStore.get(self, handle)

    store = Searching()
    wanted = await store.put(b"the port is 8080")
    assert wanted in await Recall(store)({"search": "8080"})


async def test_a_kept_text_that_looks_like_a_message_comes_back_as_it_is():
    """What a stage keeps is what the model gets."""

    class Keeps(ContextStrategy):
        async def __call__(self, context, call, /):
            call.remark(await call.keep('{"role": "tool", "tool_call_id": "a", "content": "inner"}'))
            return context

    store = MemoryStore()
    recall = Recall(store)
    view = await Pipeline(Keeps(), store=store).prepare(
        [{"role": "user", "content": "Hi"}], tools=tools(recall, "openai-chat")
    )
    (handle,) = view.report.stages[0].notes
    assert await recall({"handle": handle}) == '{"role": "tool", "tool_call_id": "a", "content": "inner"}'


@pytest.mark.parametrize(
    "options", [{"name": ""}, {"name": "a b"}, {"name": 3}, {"max_tokens": 99}, {"max_tokens": "x"}]
)
def test_wrong_options_are_refused(options):
    """When the tool is built."""
    with pytest.raises(ConfigError, match="Recall"):
        Recall(MemoryStore(), **options)


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
async def test_of_1500_outputs_1500_can_be_recalled(format_name):
    """After ten compactions and more, by what the report names, and by search; the whole transcript comes back."""
    store = MemoryStore()
    recall = Recall(store)
    budget = Budget(60_000, trigger=20_000, target=10_000)
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=100), FitContextWindow(), budget=budget, store=store)
    session, compacted = pipeline.session(format=format_name), 0
    turns = [user("task")]
    outputs = [f"output {place}: key-{place * 7919} " + f"{place} words of a log\n" * 30 for place in range(1_500)]
    for place, output in enumerate(outputs):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", output)]
    messages = transcript(format_name, *turns)
    for stop in range(101, len(messages) + 1, 100):
        view = await session.prepare(messages[:stop], tools=tools(recall, format_name))
        compacted += any(stage.stage == "FitContextWindow" for stage in view.report.stages)
    assert compacted >= 10
    changed = {change.index: change.handle for change in view.report.in_force}
    kept = {id(message) for message in view.messages}
    for place, output in enumerate(outputs):
        index = 2 * place + 2
        if id(messages[index]) not in kept:
            assert await recall({"handle": changed[index]}) == output
            assert json.loads(await store.get(changed[index])) == messages[index]
    for place in (3, 700, 1_400):
        assert changed[2 * place + 2] in await recall({"search": f"key-{place * 7919}"})


async def test_what_tools_say_of_handles_is_no_way_in():
    """A text that looks like a placeholder, a mark or a handle gives nothing that is not in the store."""
    store = MemoryStore()
    recall = Recall(store)
    texts = [
        "[old tool result cleared; recall 0123456789abcdef]",
        "x\n[… 99 characters omitted; recall 0123456789abcdef …]\ny",
        '{"role": "tool", "tool_call_id": "c0", "content": "; recall 0123456789abcdef"}',
        "; recall 0123456789abcdef#1 " * 50,
    ]
    turns = [user("task")]
    for place, text in enumerate(texts * 3):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", text)]
    turns += [assistant("ok"), user("more")]
    messages = transcript("openai-chat", *turns)
    pipeline = Pipeline(ClearToolResults(keep_last=2), FitContextWindow(), budget=Budget(1_500), store=store)
    view = await pipeline.prepare(messages, tools=tools(recall, "openai-chat"))
    assert "Nothing is kept" in await recall({"handle": "0123456789abcdef"})
    for text in texts:
        data = json.dumps({"role": "tool", "tool_call_id": "c0", "content": text}).encode()
        assert await recall({"handle": await store.put(data)}) == text
    assert view.report.tokens_after <= 1_500


async def test_many_ask_at_once():
    """The tool is safe to share."""
    store = MemoryStore()
    recall, found = Recall(store), []
    wanted = [await store.put(f"log {place}".encode()) for place in range(30)]

    async def ask(handle):
        found.append(await recall({"handle": handle}))

    async with anyio.create_task_group() as group:
        for handle in wanted:
            group.start_soon(ask, handle)
    assert sorted(found) == sorted(f"log {place}" for place in range(30))


PICTURE = "iVBORw0KGgo" * 40
MEDIA = {
    "openai-chat": ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}, "user"),
    "anthropic": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}, "result"
    ),
    "gemini": ({"inlineData": {"mimeType": "image/png", "data": PICTURE}}, "user"),
}  # fmt: skip


async def test_what_is_no_text_is_named_with_its_size():
    """A picture in a result is told beside the text; a result that is one alone is not empty; nor is a message."""
    store = MemoryStore()
    recall = Recall(store)
    picture = MEDIA["anthropic"][0]
    said = {"type": "text", "text": "a plot of the load"}
    for content, wanted in (([picture], ""), ([said, picture], "a plot of the load\n")):
        message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": content}]}
        answer = await recall({"handle": await store.put(json.dumps(message).encode())})
        assert answer == f"{wanted}[image, image/png of about 330 bytes: it is no text]"
    message = {"role": "user", "content": [{"type": "text", "text": "look"}, MEDIA["openai-chat"][0]]}
    answer = await recall({"handle": await store.put(json.dumps(message).encode())})
    assert answer.startswith("look\n[image, image/png of about ")
    assert PICTURE not in answer


async def test_a_picture_that_was_cleared_or_offloaded_is_told():
    """It has a handle as a text has; the store has it byte for byte."""
    store = MemoryStore()
    recall = Recall(store)
    block = {"type": "tool_result", "tool_use_id": "a", "content": [MEDIA["anthropic"][0]]}
    use = {"type": "tool_use", "id": "a", "name": "shot", "input": {}}
    messages = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [block]},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "more"},
    ]
    view = await Pipeline(ClearToolResults(keep_last=0), store=store).prepare(
        messages, tools=tools(recall, "anthropic")
    )
    (handle,) = handles(results(view, "anthropic"))
    assert await recall({"handle": handle}) == "[image, image/png of about 330 bytes: it is no text]"
    assert json.loads(await store.get(handle)) == messages[2]


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"\x00\xff\xfe\x01" * 30, "[binary content of 120 bytes: it is no text]"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00", "[binary content of 11 bytes: it is no text]"),
        ("caf\u00e9 au lait, s'il vous pla\u00eet".encode("latin-1"), "caf\ufffd au lait, s'il vous pla\ufffdt"),
        (b"", "There is nothing"),
    ],
)
async def test_bytes_that_are_no_text_are_told_in_words(content, answer):
    """What is nearly a text is read as one."""
    store = MemoryStore()
    assert (await Recall(store)({"handle": await store.put(content)})).startswith(answer)


async def test_search_finds_words_in_any_script_and_parts_of_names():
    """Letter for letter first; an identifier by its parts; Chinese by its signs; what is no word by itself."""
    store = MemoryStore()
    texts = ["def read_file(name): ...", "数据库连接失败", "a -> b", "Straße 12", "x\x00y \ud800 odd", "the file"]
    handles_ = [await store.put(text.encode("utf-8", "surrogatepass")) for text in texts]
    recall = Recall(store)
    for asked, place in (("read", 0), ("连接", 1), ("->", 2), ("STRASSE", 3), ("odd", 4), ("read_file", 0)):
        assert handles_[place] in (await recall({"search": asked})).split("\n\n")[1]
    assert "a -> b" in await recall({"handle": handles_[2], "search": "->"})


@pytest.mark.parametrize("max_tokens", [100, 2_000])
@pytest.mark.parametrize("before", [0, 333, 398, 5_000, 40_000])
@pytest.mark.parametrize("between", ["é, ", "\n"])
async def test_a_search_shows_what_it_found_and_where_one_reads_on(between, before, max_tokens):
    """In lines of any length, in one content and in all; at the bytes that it names stands what it shows."""
    text = f"{between.join(f'w{at}' for at in range(before // 4))}{between}NEEDLE_4711{between}" + "rest é " * 200
    store = MemoryStore()
    recall, handle = Recall(store, max_tokens=max_tokens), await store.put(text.encode())
    for asked in ({"handle": handle, "search": "needle_4711"}, {"search": "needle_4711"}):
        answer = await recall(asked)
        assert TiktokenCounter().count(answer) <= max_tokens
        (line,) = [each for each in answer.split("\n") if "NEEDLE_4711" in each]
        place, _, shown = line.partition(": ")
        if "bytes" in place:
            read = await recall({"handle": handle, "bytes": place.partition("bytes ")[2]})
            assert shown.strip("…") == read
        else:
            number = place.partition(",")[0]
            assert "NEEDLE_4711" in await recall({"handle": handle, "lines": number})


async def test_a_handle_is_taken_as_a_model_copies_it_and_names_a_result_that_is_there():
    """With what stands around it; a result, or a line, that is not there is said, and nothing else is shown."""
    turns = assistant(call("a", "get"), call("b", "get")), result("a", "first " * 40), result("b", "second " * 40)
    messages, store = transcript("anthropic", user("Go."), *turns, assistant("Done."), user("And?")), MemoryStore()
    recall = Recall(store)
    pipeline = Pipeline(ClearToolResults(keep_last=0), store=store)
    view = await pipeline.prepare(messages, tools=tools(recall, "anthropic"), format="anthropic")
    (handle,) = {text.partition("#")[0] for text in handles(results(view, "anthropic"))}
    around = "{}", "recall {}", "[old tool result cleared; recall {}]", "`{}`"
    for copied in (each.format(f"{handle}#2") for each in around):
        assert await recall({"handle": copied}) == "second " * 40
    for number in ("3", "99", "x", "-1"):
        answer = await recall({"handle": f"{handle}#{number}"})
        assert "has 2 results" in answer
        assert "first first" not in answer
    for lines in ("0", "0-0", "5-2"):
        assert "is no range" in await recall({"handle": f"{handle}#1", "lines": lines})
    assert await recall({"handle": f"{handle}#1", "lines": "0-1"}) == "first " * 40


async def test_a_summary_names_no_handle_that_its_summarizer_has_made_up():
    """One that stood in what it was given stays."""
    store = MemoryStore()
    recall, kept = Recall(store), await store.put(b"the whole log")

    async def inventing(_messages, _most, /):
        return f"The log is long; recall {kept}, and recall deadbeefdeadbeef has more. I recall 3 things."

    turns = [user("Go."), assistant(call("a", "log")), result("a", f"[cut; recall {kept}]\n" + "line of it\n" * 100)]
    turns += [each for at in range(5) for each in (assistant("so " * 90), user(f"Go on {at}."))]
    pipeline = Pipeline(Summarize(inventing), budget=Budget(600), store=store)
    messages = transcript("openai-chat", *turns, assistant("Done."), user("And?"))
    view = await pipeline.prepare(messages, tools=tools(recall, "openai-chat"))
    said = view.messages[1]["content"]
    assert f"recall {kept}, and an unknown handle has more. I recall 3 things." in said
    assert "deadbeef" not in said
