"""Results in fewer tokens, by the layers of systems that compress whole requests."""

import json
from functools import partial

import pytest
from histories import broken_histories, budgets, histories
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline, Text, TruncateToolOutputs, validate
from agentctx.engine.shrink import Cut, cut_to_chars, cut_to_tokens
from agentctx.marks import Codebook, codebook_in, codes_in, fit, written_out
from agentctx.message import Mark
from agentctx.stores import MemoryStore
from agentctx.strategies import CompressLayers, ReuseLines, decompress
from agentctx.strategies.compress_layers import DICTIONARY, compress, folded, left_alone, tidied
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.tokens import FixedCounter, HeuristicCounter, TiktokenCounter

pytestmark = pytest.mark.anyio

FOLDER = "/home/dev/projects/compiler/src/"
HITS = "".join(f"{FOLDER}part{number}.py:{number}: a comma is missing\n" for number in range(60))
COUNTERS = (TiktokenCounter(), TiktokenCounter("cl100k_base"), HeuristicCounter(4))
ALL = CompressLayers(whitespace=True, observation=50, deduplicate=True)

PYTHON = "".join(
    f"class Part{n}:\n    def run(self):\n        if self.ready:\n            return '{FOLDER}'\n\n" for n in range(30)
)
GO = "".join(f"func part{n}() {{\n\tif ready {{\n\t\treturn nil\n\t}}\n}}\n\n" for n in range(40))
YAML = "".join(f"part{n}:\n  path: {FOLDER}\n  deep:\n        e:    1   \n" for n in range(40))
DIFF = (
    "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n" + f" \n-{FOLDER}a\n+        return  2\n" * 40
)
TABLE = "| file  | why   |\n|-------|-------|\n" + f"| {FOLDER}a   | none  |\n" * 40
MAKEFILE = "```make\nall:\n\tcc  main.c   \n```\n" + HITS
BASE64 = "iVBORw0KGgo" + "AbC9+/" * 200
NUMBERED = "".join(f"{n:6}\tdef part{n}(self):  # {FOLDER}\n{n:6}\t    return {n}\n" for n in range(40))
LEFT_ALONE = {
    "python": PYTHON,
    "go": GO,
    "yaml": YAML,
    "diff": DIFF,
    "table": TABLE,
    "makefile": MAKEFILE,
    "base64": BASE64,
    "numbered": NUMBERED,
}


def texts():
    """Texts with much that is said again, and with what looks like codes."""
    pieces = st.sampled_from(
        (
            FOLDER,
            "src/agentctx/core/",
            "C:\\Users\\dev\\source\\",
            "https://example.com/a/b/",
            "$OC01",
            "$P1",
            "$X01",
            "[Codebook]\n$T01=parameters\n[/Codebook]\n",
            "[Codes: §512=/home/dev/project/src] ",
            "[Codes: §512=/a] ",
            "§512",
            "§783",
            "§",
            "7",
            "the quick brown fox jumps over the lazy dog ",
            "terror substring objectively error ",
            "No such file or directory\n",
            "\n",
            "\r\n",
            " ",
            "|",
            "größe/größe/größe/",
            "\\n",
        )
    )
    many = st.builds(lambda piece, times, glue: (piece + glue) * times, pieces, st.integers(1, 40), st.text(max_size=4))
    return st.lists(st.one_of(pieces, many, st.text(max_size=30)), max_size=12).map("".join)


def agent(*outputs, tool="grep"):
    """A task and a round for each output."""
    turns = [user("the task")]
    for number, output in enumerate(outputs):
        turns += [assistant(call(f"c{number}", tool)), result(f"c{number}", output)]
    return transcript("openai-chat", *turns)


def outputs(view):
    """What the tools said, as it is sent."""
    return [message["content"] for message in view.messages if message["role"] == "tool"]


def texts_of(view):
    """The same, as values."""
    return [part for message in view.context.messages for result in message.results for part in result.content]


def books(view):
    """The codes of each."""
    return [codebook_in(text) for text in texts_of(view)]


def said_by(view):
    """What the tools said, in no codes."""
    return [written_out(text) for text in texts_of(view)]


@st.composite
def agents(draw):
    """A transcript in any format whose tools say much that is worth a code, and what looks like codes."""
    said = st.one_of(
        texts(), st.builds(lambda more: HITS + more, texts()), st.sampled_from(sorted(LEFT_ALONE.values()))
    )
    turns = [user("the task")]
    for number, output in enumerate(draw(st.lists(said, min_size=1, max_size=4))):
        turns += [assistant("Let me see.", call(f"c{number}", "grep")), result(f"c{number}", output)]
        turns += [user("go on")] if draw(st.booleans()) else []
    name = draw(st.sampled_from(("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")))
    return name, transcript(name, *turns)


async def compressed(messages, stage=None, **options):
    """The view after the stage."""
    return await Pipeline(CompressLayers() if stage is None else stage, **options).prepare(
        messages, format="openai-chat"
    )


@given(texts(), st.sampled_from(COUNTERS))
def test_what_is_decompressed_is_what_was_compressed(text, counter):
    """``written_out(compress(x)) == x``, also for what looks like codes; either it has fewer tokens, or it is x."""
    coded = compress(Text(text), counter)
    assert written_out(coded) == text
    assert coded.text == text or counter.count(coded.text) < counter.count(text)


@given(texts(), st.sampled_from(COUNTERS))
def test_compressing_again_does_nothing(text, counter):
    """A second application is a no-op."""
    coded = compress(Text(text), counter)
    assert compress(coded, counter) is coded


@given(texts(), texts(), st.sampled_from(COUNTERS))
def test_any_phrases_are_reversible(text, more, counter):
    """Codes of any phrases, also of those that stand in each other, are written out to the very text."""
    phrases = [each for each in dict.fromkeys([*text.split(), *more.split(), FOLDER]) if fit(each)][:8]
    book = Codebook.numbered(phrases, {}, codes_in(text))
    coded = book.encoded(text)
    assert written_out(Text(coded, marks=(Mark(book.head.strip()),))) == text
    assert book.decoded(book.counted(text)[0]) == text


@pytest.mark.parametrize(
    "literal", ["$OC01", "$P1", "$X01", "[Codebook]", "§512", "§783", "§783/app.py", "§783app.py", "[Codes: §1=x]"]
)
def test_no_literal_collides(literal):
    """What looks like a code, of ours or of another system, comes back as it was."""
    text = f"{literal}\n{HITS}{literal}0 {literal}"
    coded = compress(Text(text), TiktokenCounter())
    assert coded.text != text
    assert written_out(coded) == text


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
@pytest.mark.parametrize("stage", [CompressLayers(), ALL], ids=["codes", "all"])
async def test_code_diffs_yaml_tables_and_base64_stay(text, stage):
    """Nested Python and Go, YAML, a patch, tables, a Makefile and base64 are not touched by any layer."""
    assert left_alone(text)
    messages = agent(text)
    assert (await compressed(messages, stage)).messages[2] is messages[2]


@pytest.mark.parametrize("number", ["12345678901234567890", "9007199254740993", "1.10", "1.0", "10.00", "1e400"])
async def test_numbers_order_and_duplicates_of_json_stay(number):
    """JSON keeps its numbers, the order of its keys, keys that come twice, and its escapes; so does a bare version."""
    text = f'{{"b": {number}, "a": "<&>\\u00e9", "b": {number}, "paths": {json.dumps([FOLDER] * 40)}}}'
    for said in (text, f" {number} "):
        assert said_by(await compressed(agent(said))) == [said]
        (sent,) = said_by(await compressed(agent(said), ALL))
        assert sent.rstrip() == said.rstrip()


async def test_json_goes_without_its_blanks():
    """JSON is said as ``CompactJson`` says it, and then in codes; it is neither folded nor tidied."""
    text = json.dumps([{"path": f"{FOLDER}part{n}.py", "why": "a  b   "} for n in range(60)], indent=2)
    view = await compressed(agent(text), ALL)
    assert all(books(view))
    (sent,) = said_by(view)
    assert sent == json.dumps(json.loads(text), separators=(",", ":"))


@pytest.mark.parametrize("options", [{}, {"whitespace": True, "observation": 30, "deduplicate": True}])
async def test_identical_input_gives_identical_bytes(options):
    """200 runs give the same bytes, whatever the order in which they hash."""
    messages = agent(HITS, HITS.replace("compiler", "linker"), "the quick brown fox jumps over the dog\n" * 40)
    stage = CompressLayers(**options)
    sent = {json.dumps((await compressed(messages, stage)).messages) for _ in range(200)}
    assert len(sent) == 1


@given(agents(), st.sampled_from(COUNTERS), st.sampled_from((CompressLayers(), ALL)))
def test_no_message_is_ever_larger(both_loops, made, counter, stage):
    """No message has more tokens than before, what explains the codes included."""

    async def check():
        name, messages = made
        view = await Pipeline(stage, counter=counter).prepare(messages, format=name)
        plain = await Pipeline(counter=counter).prepare(messages, format=name)
        assert view.report.tokens_after <= plain.report.tokens_after
        edits = [change for each in view.report.stages if each.stage == stage.name for change in each.changes]
        assert all(change.tokens_after < change.tokens_before for change in edits)

    both_loops(check)


@given(agents(), texts())
def test_whatever_a_model_writes_can_be_decoded(both_loops, made, text):
    """What has no codes stays as it is, what is JSON stays JSON, and decoding twice is decoding once."""

    async def check():
        name, messages = made
        view = await Pipeline(CompressLayers()).prepare(messages, format=name)
        written = json.dumps({"path": text, "more": [text]})
        said = json.loads(decompress(written, view))
        assert said.keys() == {"path", "more"}
        if "§" not in text:
            assert said["path"] == text
            assert decompress(written, view) == written
            assert decompress(text, view) == text
        assert decompress(decompress(written, view), view) == decompress(written, view)

    both_loops(check)


@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
async def test_a_large_request_stays_legal(format_name):
    """300 KB in each format are legal afterwards, and each result says what it said."""
    turns = [user("the task")]
    for number in range(60):
        turns += [
            assistant(call(f"c{number}", "grep")),
            result(f"c{number}", HITS.replace("compiler", f"c{number}") * 2),
        ]
    messages = transcript(format_name, *turns)
    view = await Pipeline(CompressLayers()).prepare(messages, format=format_name)
    assert not [each for each in validate({"messages": view.messages}, format_name) if each.severity == "error"]
    assert said_by(view) == [HITS.replace("compiler", f"c{number}") * 2 for number in range(60)]
    assert view.report.tokens_after < 0.75 * view.report.tokens_before


async def test_the_static_dictionary_saves_nothing():
    """None of the short words of the static dictionary is worth a code: it does nothing on what says them often."""
    words = " ".join(word for word in DICTIONARY if " " not in word)
    only = CompressLayers(paths=False, codebook=False)
    messages = agent(f"{words}\n" * 50)
    assert (await compressed(messages, only)).messages[2] is messages[2]


async def test_a_phrase_of_the_dictionary_that_saves_is_used():
    """A long phrase of one's own dictionary gets a code where it is said often."""
    own = CompressLayers(dictionary=("the frobnicator of subsystem seven",), paths=False, codebook=False)
    text = "".join(f"{n}: the frobnicator of subsystem seven\n" for n in range(60))
    view = await compressed(agent(text), own)
    assert outputs(view)[0].count("frobnicator") == 1
    assert said_by(view) == [text]


async def test_no_code_stands_in_a_word_or_a_path():
    """``terror`` is no ``error``, and ``/srv/home/dev`` is not below ``/home/dev``; URLs are not taken apart."""
    text = HITS + "/srv" + FOLDER + "a\nfile:" + FOLDER + "b\nmyterror terrors\n" + "xerrorx error-free\n" * 40
    coded = compress(Text(text), TiktokenCounter(), dictionary=("error", "terror"))
    assert "/srv" + FOLDER + "a" in coded.text
    assert "myterror" in coded.text
    assert written_out(coded) == text


def test_paths_in_compact_json_are_told_apart():
    """Paths between quotes and commas are paths of their own, and a URL begins with its scheme."""
    paths = json.dumps([f"{FOLDER}a{n}.py" for n in range(60)], separators=(",", ":"))
    coded = compress(Text(paths), TiktokenCounter())
    assert coded.text.count(FOLDER[:-1]) == 1
    urls = "".join(f"https://example.com/projects/compiler/issues/{n}\n" for n in range(60))
    coded = compress(Text(urls), TiktokenCounter())
    assert list(codebook_in(coded).phrases.values()) == ["https://example.com/projects/compiler/issues"]


async def test_an_error_at_the_end_is_kept_with_the_exit_code():
    """A long log keeps its end, and the lines between that tell of errors; once is enough."""
    lines = [f"step {n} of 300 done" for n in range(300)]
    lines[140] = "ERROR: disk full"
    text = "\n".join([*lines, "EXIT CODE 1: FATAL"])
    stage = CompressLayers(observation=50)
    view = await compressed(agent(text), stage)
    (sent,) = outputs(view)
    assert "EXIT CODE 1: FATAL" in sent
    assert "ERROR: disk full" in sent
    assert len(sent.split("\n")) <= 50
    assert (await compressed(view.messages, stage)).messages[2] is view.messages[2]


async def test_rows_of_stars_and_headings_stay():
    """Rows of stars, dashes and number signs are what somebody said, and stay."""
    text = "".join(f"user{n} ****\n----\n# # #\n" for n in range(12))
    assert tidied(text) == text
    assert folded(text, 50)[0].startswith("user0 ****\n----\n# # #\n")


@given(texts(), st.integers(10, 60))
def test_layers_that_leave_out_do_it_once(text, most):
    """Folding and tidying what was folded or tidied changes nothing; a folded text has no more lines than it may."""
    assert tidied(tidied(text)) == tidied(text)
    shorter, _ = folded(text, most)
    assert folded(shorter, most) == (shorter, [])
    assert len(shorter.split("\n")) <= most


def test_whitespace_stands_where_it_matters():
    """Indentation, tabs, columns and Markdown's line breaks stay; blanks at the ends of lines and empty lines go."""
    text = "a   \n        b\tc    d\nbreak  \nnext\r\n\n\n\n\nend"
    assert tidied(text) == "a\n        b\tc    d\nbreak  \nnext\n\nend"


async def test_two_texts_of_one_result_are_not_doubled():
    """A result that comes in two texts stays as it is."""
    messages = transcript("anthropic", user("Go."), assistant(call("a", "grep")), result("a", "x"), user("go on"))
    messages[2]["content"][0]["content"] = [{"type": "text", "text": HITS}, {"type": "text", "text": "second   part"}]
    view = await Pipeline(ALL).prepare(messages, format="anthropic")
    assert view.messages[2] is messages[2]


async def test_calls_ids_and_order_stay():
    """Calls, their ids and arguments, and the order of results are the caller's own objects."""
    arguments = {"city": "San Francisco", "pad": "  " * 400}
    messages = transcript(
        "openai-chat",
        user("Weather?"),
        assistant(call("call_123", "get_weather", arguments), call("call_124", "grep")),
        result("call_123", HITS),
        result("call_124", HITS),
    )
    view = await compressed(messages, CompressLayers(whitespace=True, deduplicate=True))
    assert view.messages[1] is messages[1]
    assert [message["tool_call_id"] for message in view.messages[2:]] == ["call_123", "call_124"]
    assert said_by(view) == [HITS, HITS]


async def test_a_small_request_stays():
    """What is short passes untouched."""
    messages = agent("fine", HITS[:300])
    view = await compressed(messages, ALL)
    assert list(map(id, view.messages)) == list(map(id, messages))


async def test_the_users_words_stay():
    """The user's and the assistant's words are not put in codes, however often they say something."""
    messages = transcript("openai-chat", user(HITS), assistant(HITS), user(HITS))
    view = await compressed(messages, ALL)
    assert list(map(id, view.messages)) == list(map(id, messages))


async def test_the_same_code_means_the_same_everywhere():
    """Two results with the same directory use one code for it, and a code of another is another."""
    other = HITS.replace("compiler", "linker")
    view = await compressed(agent(HITS, other, HITS))
    first, second, third = (book.phrases for book in books(view))
    assert first == third != second
    assert all(first[each] == second[each] for each in first.keys() & second.keys())


async def test_a_code_that_is_taken_means_nothing_else():
    """Where two phrases would have the same code, the later one gets another, also in a later step of a session."""
    (number,) = Codebook.numbered([FOLDER[:-1]], {}, ()).phrases
    clash = next(
        f for n in range(100_000) if number in Codebook.numbered([f := f"/home/dev/other{n}/src"], {}, ()).phrases
    )
    messages = agent(HITS, HITS.replace(FOLDER[:-1], clash))
    session = Pipeline(CompressLayers()).session(format="openai-chat")
    await session.prepare(messages[:3])
    view = await session.prepare(messages)
    first, second = (book.phrases for book in books(view))
    assert first[number] == FOLDER[:-1]
    assert clash in second.values()
    assert all(first[each] == second[each] for each in first.keys() & second.keys())
    assert said_by(view) == [HITS, HITS.replace(FOLDER[:-1], clash)]


async def test_what_a_model_writes_in_codes_is_decoded():
    """Words and arguments of a call are decoded by what the model was sent; what nobody defined stays."""
    view = await compressed(agent(HITS), CompressLayers(codebook=False))
    (number,) = books(view)[0].phrases
    assert decompress(f"See §{number}/part7.py and §999.", view) == f"See {FOLDER}part7.py and §999."
    for escaped in (True, False):
        arguments = json.dumps({"path": f"§{number}/a"}, ensure_ascii=escaped)
        assert json.loads(decompress(arguments, view)) == {"path": f"{FOLDER}a"}
    assert decompress("nothing", view) == "nothing"
    assert decompress(f"§{number}", view.context) == FOLDER[:-1]


async def test_a_windows_path_is_escaped_in_arguments():
    """A directory with backslashes is written into JSON as JSON wants it, and into words as it is."""
    folder = "C:\\Users\\dev\\projects\\compiler\\"
    view = await compressed(agent("".join(f"{folder}part{n}.cs({n}): error CS1002\n" for n in range(60))))
    (number,) = books(view)[0].phrases
    assert json.loads(decompress(f'{{"path": "§{number}\\\\a.cs"}}', view)) == {"path": f"{folder}a.cs"}
    assert decompress(f"§{number}\\a.cs", view) == f"{folder}a.cs"


async def test_a_code_that_is_also_said_for_itself_is_not_guessed():
    """Where the user speaks of what looks like the code, what the model writes stays as it is."""
    number = next(iter(books(await compressed(agent(HITS)))[0].phrases))
    view = await compressed([*agent(HITS), {"role": "user", "content": f"What does §{number} of the law say?"}])
    assert decompress(f"§{number}", view) == f"§{number}"


@pytest.mark.parametrize("order", [1, -1])
async def test_lines_of_results_in_codes_are_found_again(order):
    """References and codes go together in any order, at once and in a session: lines are compared as they read."""
    messages = agent(HITS, f"head\n{HITS}tail", HITS.replace("comma", "colon"), HITS)
    stages, sizes = (CompressLayers(), ReuseLines())[::order], []
    pipeline = Pipeline(*stages)
    session = pipeline.session(format="openai-chat")
    for stop in (3, 5, 7, 9):
        stepped = await session.prepare(messages[:stop])
    for view in (await pipeline.prepare(messages, format="openai-chat"), stepped):
        said = outputs(view)
        assert [book is not None for book in books(view)] == [True, False, True, False]
        assert all("the same as lines" in said[place] for place in (1, 3))
        sizes.append(view.report.tokens_after)
    assert sizes[0] == sizes[1] < (await compressed(messages)).report.tokens_after


async def test_the_prefix_stays_put():
    """A session says the same of what is there at every step: new results bring their own codes."""
    messages = agent(*(HITS.replace("compiler", f"part{n}") for n in range(6)))
    session = Pipeline(CompressLayers()).session(format="openai-chat")
    last = []
    for stop in (3, 5, 7, 9, 11, 13):
        view = await session.prepare(messages[:stop])
        assert view.messages[: len(last)] == last
        last = view.messages
    assert all(books(view))


@pytest.mark.parametrize("tokens", [30, 60, 150, 400])
async def test_what_is_cut_can_still_be_read(tokens):
    """A cut result keeps what explains its codes, or has none; it fits, and is not put in codes again."""
    stages = (CompressLayers(), TruncateToolOutputs(tokens))
    view = await compressed(agent(HITS), Pipeline(*stages))
    (sent,) = outputs(view)
    assert TiktokenCounter().count(sent) <= tokens
    (plain,) = said_by(view)
    assert "§" not in plain
    assert all(HITS.find(piece.strip()) >= 0 for piece in plain.split("[…")[0].splitlines())
    assert (await compressed(view.messages, Pipeline(*stages))).messages[2] is view.messages[2]


@given(texts(), st.integers(1, 500), st.sampled_from(COUNTERS))
def test_cuts_keep_codes_whole(text, limit, counter):
    """What is cut in codes reads, written out, as pieces of the text: within the limit, in tokens and in characters."""
    coded = compress(Text(HITS + text), counter)
    for shorter, size in (
        (cut_to_chars(coded, limit, Cut(marker="\n\0\n")), len),
        (cut_to_tokens(coded, limit, counter, Cut(marker="\n\0\n")), counter.count),
    ):
        assert size(shorter.text) <= limit
        place = 0
        for piece in written_out(shorter).split("\n\0\n"):
            place = (HITS + text).index(piece, place) + len(piece)


async def test_the_original_is_in_the_store():
    """What is folded names a handle where there is a store; the report has the original of all that changed."""
    store = MemoryStore()
    view = await compressed(agent(HITS), CompressLayers(), store=store)
    (change,) = view.report.changes
    assert json.loads(await store.get(change.handle))["content"] == HITS
    assert change.tokens_after < change.tokens_before


async def test_the_assistants_words_go_once_they_are_said_again():
    """A message of the assistant that says what one before it said goes, where another of its own stands before it."""
    spoken = [
        user("Go."),
        assistant("Done."),
        assistant("Well."),
        assistant("Done."),
        user("Go on."),
        assistant("Done."),
    ]
    messages = transcript("openai-chat", *spoken, user("And?"))
    view = await compressed(messages, CompressLayers(deduplicate=True))
    assert [message["content"] for message in view.messages] == ["Go.", "Done.", "Well.", "Go on.", "Done.", "And?"]


def test_work_grows_with_the_text(work):
    """Ten times as many phrases are about ten times as much work."""

    def done(count):
        text = "\n".join(f"alpha{n * 7919 % 10_007} beta{n} gamma{n}" for n in range(count))
        return work(lambda: compress(Text(text), FixedCounter()))

    assert done(40_000) < 15 * done(4_000)


@pytest.mark.parametrize("piece", ["a" * 50, " ", "a/", "| ", "[", "1:", "-", "§", "key: "])
def test_no_text_takes_for_ever(ends, piece):
    """Long texts of one piece again and again are looked through to their end."""
    text = piece * (1_000_000 // len(piece)) + "."
    ends(compress, Text(text), FixedCounter())
    ends(tidied, text)


@given(histories(), budgets())
def test_the_laws(both_loops, history, budget):
    """The stage keeps the laws on any transcript; without blanks it says what no tool said."""
    args = (history.messages, budget, history.format, history.system, history.tools)
    both_loops(partial(check_laws, CompressLayers(observation=20, deduplicate=True), *args))
    both_loops(partial(check_laws, ALL, *args, may=("tool_text",)))


@given(agents(), budgets(4_000), st.sampled_from((None, TruncateToolOutputs(150), FitContextWindow())))
def test_the_laws_on_what_is_worth_a_code(both_loops, made, budget, cut):
    """The stage keeps the laws on results in codes, in every format, also where they are cut afterwards."""
    name, messages = made
    own = CompressLayers(observation=40, deduplicate=True)
    both_loops(partial(check_laws, own if cut is None else Pipeline(own, cut), messages, budget, name))


@given(broken_histories(), budgets())
def test_the_laws_on_broken_histories(both_loops, history, budget):
    """The stage keeps the laws on transcripts that had to be repaired, with a stage that cuts behind it."""
    stage = Pipeline(CompressLayers(deduplicate=True), TruncateToolOutputs(120))
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@pytest.mark.parametrize(
    "options", [{"dictionary": "word"}, {"dictionary": (1,)}, {"observation": 9}, {"observation": True}]
)
def test_wrong_options(options):
    """Options that make no sense are refused when the stage is built."""
    with pytest.raises(ConfigError, match="CompressLayers"):
        CompressLayers(**options)


async def test_what_the_view_does_not_define_keeps_its_bytes():
    """Where the view has no such code, JSON stays as the model has escaped it."""
    view = await Pipeline(CompressLayers()).prepare(transcript("openai-chat", user("plain words")))
    for written in ('{"text": "see \\u00a7512 of the law"}', '[{"p": "\\u00a71"}]'):
        assert decompress(written, view) == written


IN = "/srv/app/backend/services/payments/handlers"
SOURCES = {
    "go": "package main\n\nimport (\n" + "".join(f'\t"{IN}/p{number}"\n' for number in range(20)) + ")\n",
    "shell": "#!/bin/bash\nset -e\n" + "".join(f"cp {IN}/a{number} {IN}/b{number}\n" for number in range(20)),
    "make": "".join(f"{IN}/a{number}.o: {IN}/a{number}.c\n\tcc -c $<\n" for number in range(20)),
    "ruby": "".join(f"require '{IN}/a{number}'\n" for number in range(20)),
    "yaml": "".join(f"- {IN}/a{number}\n" for number in range(20)),
    "toml": "[tool.x]\n" + "".join(f'a{number} = "{IN}/a{number}"\n' for number in range(20)),
    "block": "data:\n  motd: |\n    hello   \n\n\n\n    world   \n" + f"    {IN}/a   \n" * 20,
}


@pytest.mark.parametrize("name", SOURCES)
async def test_sources_of_any_language_are_left_alone(name):
    """What a compiler, a shell, or a reader of settings takes is sent as it is, also where blanks may go."""
    view = await Pipeline(CompressLayers(whitespace=True)).prepare(
        transcript("openai-chat", user("x"), assistant(call("a", "bash")), result("a", SOURCES[name]))
    )
    assert view.messages[2]["content"] == SOURCES[name]


def test_of_a_very_long_text_pieces_tell_what_is_worth_a_code():
    """It comes back, and is about as much shorter as a short one; where its pieces have nothing, it is not read."""
    counter = TiktokenCounter()
    long = "".join(f"{IN}/part{number}.py:{number}: unused\n" for number in range(8_000))
    coded = compress(Text(long), counter)
    assert written_out(coded) == long
    assert len(coded.text) < 0.5 * len(long)
    words = "".join(f"{number * 7919 % 100_003} {number}\n" for number in range(40_000))
    assert compress(text := Text(words), counter) is text


async def test_a_cut_of_a_tools_own_legend_is_a_cut():
    """A tool may write a line of codes itself: whoever cuts such a text has said nothing that the tool did not say."""
    legend = "[Codes: §512=/a] " + "".join(f"§512/{number} is here; " for number in range(80))
    messages = transcript("bedrock", user("the task"), assistant(call("c1", "grep")), result("c1", legend), user("ok"))
    await check_laws(TruncateToolOutputs(50), messages, Budget(4_000), "bedrock")
