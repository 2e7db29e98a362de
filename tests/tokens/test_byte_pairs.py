import inspect

import pytest
from hypothesis import given, strategies as st

from agentctx.tokens.tiktoken import FIRST_CHARACTERS, VOCABULARIES, FirstTexts, encoding

FIRST = {name: FirstTexts(each, 10**12) for name, each in VOCABULARIES.items()}
LATIN = st.characters(max_codepoint=0x24F) | st.characters(min_codepoint=0x2000, max_codepoint=0x2BFF)
SPLITTING = (
    "aAzZ's'StT'rReE'vVlLmMdD 01\n\r\t\x0b\x0c\x1c\x1f\x00./-_\x85\u00a0\u2028\u017f\u212a\u2019\u00e9\u00c9\u2014"
)


@pytest.mark.parametrize("name", FIRST)
@given(text=st.text(LATIN, max_size=300) | st.text(SPLITTING, max_size=64))
def test_latin_text_counts_as_by_tiktoken(name, text):
    """What is counted without tiktoken has as many tokens as tiktoken makes of it."""
    assert FIRST[name].count(text) in (None, len(encoding(name).encode_ordinary(text)))


@pytest.mark.parametrize("name", FIRST)
@pytest.mark.parametrize("source", [pytest, st, VOCABULARIES["o200k_base"]], ids=["pytest", "hypothesis", "agentctx"])
def test_files_count_as_by_tiktoken(name, source):
    """So do the lines of source files, and every one of them is counted."""
    module = inspect.getmodule(source if inspect.ismodule(source) else type(source))
    lines = inspect.getsource(module).splitlines(keepends=True)
    assert [len(encoding(name).encode_ordinary(line)) for line in lines] == [FIRST[name].count(line) for line in lines]


@pytest.mark.parametrize("name", FIRST)
def test_each_character_is_split_as_by_tiktoken(name):
    """Every character of the scripts that are counted here, beside letters, digits, marks, blanks and contractions."""
    encode, first = encoding(name).encode_ordinary, FIRST[name]
    texts = [f"A{each}b {each} {each}{each}'{each}1{each}-\n{each}\n" for each in map(chr, range(0x2C00))]
    counts = {text: first.count(text) for text in texts}
    assert [text for text, count in counts.items() if count not in (None, len(encode(text)))] == []
    assert sum(count is not None for count in counts.values()) > 3_000


@pytest.mark.parametrize(
    "text", ["\u4e2d", "e\u0301", "\U0001f600", "\ud83d", "x" * 41, " " * 41, "a b" * FIRST_CHARACTERS]
)
def test_the_rest_is_left_to_tiktoken(text):
    """Text in other scripts, that has very long pieces, or that is too much, is not counted."""
    assert FirstTexts(VOCABULARIES["o200k_base"]).count(text) is None


def test_after_enough_texts_no_more_is_counted():
    """Who counts that much is better off with tiktoken."""
    first, text = FirstTexts(VOCABULARIES["o200k_base"]), "a b " * (FIRST_CHARACTERS // 40)
    assert [first.count(text) for _ in range(11)] == [2 * (FIRST_CHARACTERS // 40) + 1] * 10 + [None]
