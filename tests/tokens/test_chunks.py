# ruff: noqa: RUF001 - these letters are meant
import random

import pytest
from hypothesis import given, strategies as st

from agentctx.tokens.tiktoken import EXACT_CUT, SPACES, chunks, encoding, safe_parts

ENCODINGS = ["o200k_base", "cl100k_base"]
PIECES = [
    *"aZ09 \t\n\r'\"-_/.,:;=+*#@(){}[]<>|~`^%$&!?\\\0\x7f",
    *("'s", "'LL", "'re", "don't", "CamelCase", "snake_case", "0x1f", "123456", "\r\n", "    ", "\n\n\t", "//", "###"),
    *("é", "ß", "Ж", "ſ", "'ſ", "İ", "ǅ", "ʰ", "\u0301", "\u200d", "\u00a0", "\u3000", "，", "。", "：", "；", "、"),
    *(
        "中",
        "文",
        "ひ",
        "ら",
        "カ",
        "タ",
        "・",
        "ー",
        "한",
        "ก",
        "अ",
        "ع",
        "٣",
        "Ⅷ",
        "²",
        "😀",
        "👍🏽",
        "🇪🇺",
        "\ud800",
        "\U000323b0",
    ),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=60).map("".join)


@pytest.mark.parametrize("name", ENCODINGS)
@given(text=TEXTS)
def test_parts_count_as_much_as_the_whole(name, text):
    """At every exact cut the counts of both sides add up to the count of the whole."""
    encode = encoding(name).encode_ordinary
    whole = len(encode(text))
    cuts = [found.end() for found in EXACT_CUT.finditer(text)]
    assert [whole] * len(cuts) == [len(encode(text[:cut])) + len(encode(text[cut:])) for cut in cuts]


@pytest.mark.parametrize("name", ENCODINGS)
def test_parts_count_as_much_in_long_mixtures(name):
    """Long random mixtures of scripts, blanks and marks, cut wherever they may be, count as they do whole."""
    encode, dice = encoding(name).encode_ordinary, random.Random(name)  # noqa: S311 - a fuzz needs no secret
    for _ in range(60):
        text = "".join(dice.choices(PIECES, k=2000))
        assert len(encode(text)) == sum(len(encode(part)) for part in chunks(text, size=64))


@given(text=TEXTS, size=st.integers(1, 50))
def test_parts_are_the_text(text, size):
    """Nothing is lost, added or moved, whatever the size of the parts."""
    assert text == "".join(chunks(text, size))


def test_parts_have_about_the_size_asked_for():
    """Ordinary text is cut soon after the size that was asked for."""
    assert max(map(len, chunks("some ordinary words, and more. " * 10_000, size=1000))) < 1020


@pytest.mark.parametrize("blank", [" ", "\t", "\u3000", "\u00a0"])
def test_long_runs_of_blanks_are_cut(blank):
    """No part has a run of blanks as long as the one on which tiktoken panics; the run is cut, the rest is not."""
    text = "start" + blank * (2 * SPACES + 10) + "end"
    assert [len(part) for part in safe_parts(text)] == [SPACES + 5, SPACES, 13]


def test_long_words_stay_whole():
    """A long run of anything but blanks is not cut: its count stays exact."""
    text = "ж" * (SPACES + 10)
    assert [text] == list(chunks(text))
