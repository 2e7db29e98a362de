# ruff: noqa: RUF001 - these letters are meant
from concurrent.futures import ThreadPoolExecutor

import pytest
import regex
from hypothesis import given, strategies as st
from scripts_of_the_world import PASSAGES
from tiktoken import Encoding, registry

import agentctx.tokens.tiktoken as loading
from agentctx import ConfigError
from agentctx.tokens.tiktoken import TiktokenCounter, encoding

NAMES = ["o200k_base", "cl100k_base"]
COUNTER = TiktokenCounter()
MIXED = " ".join(PASSAGES.values()) + '\n{"id": 12345, "path": "/usr/lib/x.py"}\n  def f(a, b):\n\treturn a + b\n'
WILD = st.text(max_size=300) | st.text(st.sampled_from("aA0 \n'🇪🇺👩‍💻\u0301中=/\ud83d\ude00"), max_size=400)


@pytest.mark.parametrize("name", NAMES)
@given(text=WILD)
def test_count_is_tiktokens(name, text):
    """The count of any text is the length of what tiktoken makes of it."""
    assert len(encoding(name).encode_ordinary(text)) == TiktokenCounter(name).count(text)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", [MIXED * 60, "中文，没有空格。" * 20_000, "x" * 300_000, '{"a": [1, 2]}\n' * 20_000])
def test_count_of_long_text_is_tiktokens(name, text):
    """Long texts are counted in parts, and the count is still that of the whole."""
    assert len(encoding(name).encode_ordinary(text)) == TiktokenCounter(name).count(text)


def test_empty_text_has_no_tokens():
    """The empty text has no tokens."""
    assert COUNTER.count("") == 0


@pytest.mark.parametrize("special", ["<|endoftext|>", "<|endofprompt|>", "<|im_start|>"])
def test_special_tokens_are_text(special):
    """The name of a special token in a tool output is counted as the characters that it is."""
    assert COUNTER.count(special) > 1


@pytest.mark.parametrize(
    ("damaged", "sound"), [("\ud800", "\ufffd"), ("a\udfffb", "a\ufffdb"), ("\udc00 \ud800", "\ufffd \ufffd")]
)
def test_lone_surrogates_count_as_replacements(damaged, sound):
    """Text that no encoding can hold is counted as if each lone surrogate were U+FFFD."""
    assert COUNTER.count(sound) == COUNTER.count(damaged)


def test_nul_is_counted():
    """NUL characters are characters."""
    assert COUNTER.count("\0" * 10) >= 1


@pytest.mark.parametrize("run", [" ", "\t", "=", "q", "中", "<|endoftext|>"])
def test_a_million_of_one_character_is_counted(run):
    """Runs of a million neither raise nor hang, and count ten times what a tenth of them counts; tiktoken panics."""
    text = run * (1_000_001 // len(run))
    count = COUNTER.count(text)
    assert count == pytest.approx(10 * COUNTER.count(text[: len(text) // 10]), abs=20)


@given(text=WILD, tokens=st.integers(0, 120))
def test_head_is_a_start_that_fits(text, tokens):
    """The head is a start of the text, has no more tokens than asked for, and ends where a grapheme cluster ends."""
    head = COUNTER.head(text, tokens)
    assert text.startswith(head)
    assert COUNTER.count(head) <= tokens
    assert len(head) in {0, *(found.end() for found in regex.finditer(r"\X", text))}


@given(text=WILD, tokens=st.integers(0, 120))
def test_tail_is_an_end_that_fits(text, tokens):
    """The tail is an end of the text, has no more tokens than asked for, and begins where a grapheme cluster begins."""
    tail = COUNTER.tail(text, tokens)
    assert text.endswith(tail)
    assert COUNTER.count(tail) <= tokens
    assert len(text) - len(tail) in {len(text), *(found.start() for found in regex.finditer(r"\X", text))}


@given(text=WILD, tokens=st.integers(0, 2000))
def test_what_fits_is_not_cut(text, tokens):
    """A text that has no more tokens than asked for comes back whole."""
    fits = COUNTER.count(text) <= tokens
    assert fits == (COUNTER.head(text, tokens) == text) == (COUNTER.tail(text, tokens) == text)


@pytest.mark.parametrize("tokens", [10, 100, 1_000, 10_000])
@pytest.mark.parametrize("end", ["head", "tail"])
def test_as_much_as_possible_is_kept(tokens, end):
    """Of ordinary text no more than three tokens are wasted."""
    words = "The quick brown fox — 12345 of them — didn't jump over /usr/lib/lazy_dog.py; why? " * 3_000
    assert tokens - 3 <= COUNTER.count(getattr(COUNTER, end)(words, tokens)) <= tokens


@pytest.mark.parametrize("script", PASSAGES)
def test_cut_text_is_free_of_fragments(script):
    """No cut leaves half a character behind, in any script."""
    text = PASSAGES[script] * 20
    for tokens in range(1, 40):
        assert "\ufffd" not in COUNTER.head(text, tokens) + COUNTER.tail(text, tokens)


def test_nothing_is_kept_of_nothing():
    """With no tokens to spend, or fewer, nothing is kept."""
    assert [
        COUNTER.head("a b", 0),
        COUNTER.tail("a b", 0),
        COUNTER.head("a", -1),
        COUNTER.tail("a", -1),
    ] == ["", "", "", ""]


@given(text=WILD, tokens=st.integers(-2, 200))
def test_exceeds_is_what_counting_says(text, tokens):
    """Whether a text exceeds a limit is what its count says."""
    assert (COUNTER.count(text) > tokens) == COUNTER.exceeds(text, tokens)


@pytest.mark.parametrize(
    "text", ["word " * 60_000, "😀" * 100_000, "=" * 200_000, "中" * 100_000], ids=lambda text: text[:4]
)
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_exceeds_is_exact_near_the_limit(text, distance):
    """Long texts are judged exactly, also one token below and above their count."""
    count = COUNTER.count(text)
    fresh = TiktokenCounter()
    fresh._cache.clear()
    assert (distance < 0) == fresh.exceeds(text, count + distance)


def test_cutting_reads_what_is_kept(monkeypatch):
    """To cut a thousand tokens of a megabyte, a small part of it is tokenized."""
    text, loaded, read = MIXED * 400, encoding(COUNTER.encoding), []

    class Watched:
        def encode_ordinary(self, text):
            read.append(len(text))
            return loaded.encode_ordinary(text)

        def __getattr__(self, name):
            return getattr(loaded, name)

    monkeypatch.setattr(loading, "encoding", lambda _name: Watched())
    COUNTER._cache.clear()
    assert COUNTER.head(text, 1_000)
    assert COUNTER.tail(text, 1_000)
    assert 0 < sum(read) < len(text) / 20


def test_equal_counters_are_equal():
    """Counters of one encoding are equal, hash alike and share what they counted."""
    assert TiktokenCounter() == TiktokenCounter("o200k_base") != TiktokenCounter("cl100k_base")
    assert hash(TiktokenCounter()) == hash(TiktokenCounter())
    assert TiktokenCounter()._cache is COUNTER._cache


def test_unknown_encoding_is_refused_when_built():
    """An encoding that is not shipped is refused before anything is counted."""
    with pytest.raises(ConfigError, match=r"^encoding must be one of o200k_base, cl100k_base, got 'gpt2'$"):
        TiktokenCounter("gpt2")


def test_loaded_encoding_is_reused(monkeypatch):
    """An encoding that tiktoken itself has loaded is used, not loaded again."""
    theirs = Encoding(
        "o200k_base", pat_str=r"\S+|\s+", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
    )
    monkeypatch.setitem(registry.ENCODINGS, "o200k_base", theirs)
    monkeypatch.setattr(loading, "_encodings", {})
    assert encoding("o200k_base") is theirs


def test_vocabulary_is_loaded_once_by_many_threads(monkeypatch):
    """Threads that count for the first time at the same time all get the one encoding."""
    monkeypatch.setattr(loading, "_encodings", {})
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(encoding, ["cl100k_base"] * 8))
    assert all(each is loaded[0] for each in loaded)
