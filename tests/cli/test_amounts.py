"""Numbers as people write them."""

import pytest
from hypothesis import given, strategies as st

from agentctx import ConfigError, InvalidInput
from agentctx.cli.options import Typed, parse_amount, parse_limit, parse_tokens
from agentctx.formats.registry import format_named


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("8000", 8000),
        ("8_000", 8000),
        ("8,000", 8000),
        ("32k", 32_000),
        ("32K", 32_000),
        (" 32 k ", 32_000),
        ("1.5m", 1_500_000),
        (".5k", 500),
        ("0.001k", 1),
        ("1.0", 1),
    ],
)
def test_tokens_are_read_as_people_write_them(text, tokens):
    """A token count may have separators, a fraction and k or m."""
    assert parse_tokens("--window", text) == tokens


@pytest.mark.parametrize(
    "text",
    [
        "",
        "k",
        "0",
        "-1",
        "1.5",
        "0.0001k",
        "32kb",
        "32 32",
        "1e3",
        "80%",
        "nan",
        "inf",
        "٣",
        "9" * 99,
        "1__",
        "1,5k",
        "12,34",
    ],
)
def test_what_is_no_token_count_names_the_option_and_the_text(text):
    """A bad token count is an error that names the option, shows what was typed and says what to write."""
    with pytest.raises(ConfigError, match=r"--window: .*such as 8000, 32k or 1\.5m") as caught:
        parse_tokens("--window", text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [("0.8", 0.8), ("80%", 0.8), ("1", 1.0), ("100%", 1.0), ("24k", 24_000), ("2", 2), ("0.1%", 0.001)],
)
def test_an_amount_up_to_one_is_a_share(text, amount):
    """Up to 1, or with a percent sign, an amount is a share; above it is tokens."""
    found = parse_amount("--trigger", text)
    assert (found, type(found)) == (amount, type(amount))


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-0.5", "half", "1.5"])
def test_what_is_no_amount_is_refused(text):
    """A share of nothing, of more than all, or a fraction of a token is an error."""
    with pytest.raises(ConfigError, match="--trigger"):
        parse_amount("--trigger", text)


@pytest.mark.parametrize(("text", "limit"), [("0", 0), ("8", 8), ("2k", 2000), ("off", None), ("OFF", None)])
def test_a_limit_may_be_off(text, limit):
    """A limit is a whole number from 0, or off."""
    assert parse_limit("--keep-results", text) == limit


@pytest.mark.parametrize("text", ["-1", "some", "1.5", "50%", ""])
def test_what_is_no_limit_is_refused(text):
    """Anything else is an error that names the option."""
    with pytest.raises(ConfigError, match="--keep-results"):
        parse_limit("--keep-results", text)


@given(st.integers(1, 10**12))
def test_every_token_count_reads_back(tokens):
    """What was printed with separators is read back as the same number."""
    assert parse_tokens("--window", f"{tokens:,}") == tokens


@given(st.text())
def test_no_text_breaks_the_parsers(text):
    """Any text is a number or a ConfigError, never anything else."""
    for parse in (parse_tokens, parse_amount, parse_limit):
        try:
            parse("--option", text)
        except ConfigError:
            continue


@pytest.mark.parametrize(
    ("name", "meant"), [("openai", "'openai-chat' or 'openai-responses'"), ("claude", "'anthropic'")]
)
def test_a_format_by_its_usual_name_is_named(name, meant):
    """A format that is called as people call it is refused with the name that is meant."""
    with pytest.raises(InvalidInput, match=f"did you mean {meant}"):
        format_named(name)


def test_the_window_of_a_model_keeps_its_input_limit():
    """Where a model's input has a limit of its own, the command line keeps it, too."""
    typed = Typed(None, None, None, None, "off", "off")
    assert [typed.budget(name).limit for name in ("gpt-5", "gpt-5.1-codex")] == [272_000, 272_000]
