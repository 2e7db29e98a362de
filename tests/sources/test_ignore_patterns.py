"""Patterns of ignore files: they mean what git means, and none takes for ever."""

import subprocess

import pytest
from hypothesis import given, strategies as st
from pathspec import GitIgnoreSpec

from agentctx import SourceError
from agentctx.sources.files import Patterns

NAME = st.text("ab.", min_size=1, max_size=6)
PATH = st.lists(NAME, min_size=1, max_size=6).map("/".join)
SEGMENT = st.one_of(
    st.just("**"), st.text("aab.**?", min_size=1, max_size=7), st.sampled_from(["[ab]*a", "*[b]*", "a\\**b"])
)
PATTERN = st.builds(
    lambda start, segments, end: start + "/".join(segments) + end,
    st.sampled_from(["", "", "/", "!"]),
    st.lists(SEGMENT, min_size=1, max_size=6),
    st.sampled_from(["", "", "/"]),
)


@given(st.lists(PATTERN, min_size=1, max_size=4), PATH, st.booleans())
def test_patterns_fit_what_pathspec_says(patterns, path, folder):
    """Timed matching finds what pathspec finds."""
    path = path + "/" if folder else path
    expected = GitIgnoreSpec.from_lines(patterns).check_file(path).include
    assert Patterns.of(patterns, lenient=True).fits(path) is expected


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("a*" * 12 + "b", "a" * 120 + ".py"),
        ("a*" * 100 + "b", "a" * 250),
        ("*?" * 60 + "b", "a" * 250),
        ("[a]*" * 60 + "[b]", "a" * 250),
        ("[!b]*" * 60 + "b", "a" * 250),
        ("*" * 200 + "b", "a" * 250),
        ("a/**/" * 30 + "b", "a/" * 500 + "a"),
        ("**/a/" * 30 + "b", "a/" * 500 + "a"),
        ("**/*a*a/" * 30 + "b", "aaaa/" * 300 + "a"),
        ("*/" * 200 + "b", "a/" * 500 + "a"),
        ("a*/**/" * 30 + "*a*b", "aaa/" * 500 + "a"),
    ],
)
def test_no_pattern_takes_for_ever(ends, pattern, path):
    """However many wildcards a pattern has, it is tried to its end, or refused by name after a moment."""

    def problem():
        try:
            return "it fits" if Patterns.of([pattern], lenient=True).fits(path) else ""
        except SourceError as error:
            return error.what

    assert ends(problem) in ("", f"takes too long to match {path!r:.80}")


SETS = ["[--a]", "[[]", "[&&a]", "[a||b]", "[~~]", "[]-a]", "[a-c-e]", "[^^]"]


def test_a_set_of_characters_means_what_git_means_whatever_is_in_it(tmp_path):
    """What Python's sets may come to mean is no warning."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in (names := list("abcez-[]&|~!^")):
        (tmp_path / name).write_text("", "utf-8")
    for pattern in SETS:
        (tmp_path / ".gitignore").write_text(f"{pattern}\n", "utf-8")
        command = ["git", "-C", tmp_path, "ls-files", "--others", "--ignored", "--exclude-standard"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        patterns = Patterns.of([pattern])
        assert (pattern, sorted(told)) == (pattern, sorted(name for name in names if patterns.fits(name)))


@pytest.mark.parametrize("pattern", ["[z-a]", "[a--b]", "[b-[c]"])
def test_a_range_that_ends_before_it_begins(pattern):
    """A pattern with such a range is refused, and passed over in an ignore file."""
    with pytest.raises(SourceError, match="bad character range"):
        Patterns.of([pattern])
    assert Patterns.of([pattern, "a"], lenient=True).fits("a")
