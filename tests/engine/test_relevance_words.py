"""The words by which texts are compared."""

import pytest

from agentctx.engine.relevance import forms, raw_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the quick, brown fox.", ["the", "quick", "brown", "fox"]),
        ("self.read_file(path)", ["self", "read_file", "path"]),
        ("", []),
        ("... !", []),
    ],
)
def test_words_as_they_are_written(text, words):
    """Punctuation is no part of a word, and an identifier is one word."""
    assert raw_words(text) == words


@pytest.mark.parametrize(
    ("word", "found_by"),
    [
        ("the", {"the"}),
        ("The", {"the"}),
        ("HTTP", {"http"}),
        ("read_file", {"read_file", "read", "file"}),
        ("readFile", {"readfile", "read", "file"}),
        ("HTTPServer", {"httpserver", "http", "server"}),
        ("python3", {"python3", "python"}),
        ("42", {"42"}),
        ("x", {"x"}),
        ("ÉCOLE", {"école"}),
        ("größe_alt", {"grösse_alt", "grösse", "alt"}),
        ("日本語", {"日本語", "日本", "本語"}),
        ("日本", {"日本"}),
        ("x日本", {"x日本", "日本"}),
    ],
)
def test_what_a_word_is_found_by(word, found_by):
    """By itself, by the parts of an identifier, by pairs where no spaces divide words."""
    assert set(forms(word)) == found_by
