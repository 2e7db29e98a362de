"""The table of refusals: each row reads its own examples, with any numbers in them."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import classify_error
from agentctx.formats.overflow import plain, refusal_sentence, refusals

EXAMPLES = [pytest.param(row, example, id=example[:60]) for row in refusals() for example in row.examples]

SHAPES = {
    "text": str,
    "exception": RuntimeError,
    "body": lambda message: {"error": {"message": message, "type": "invalid_request_error"}},
    "text in a body": lambda message: {"detail": json.dumps({"error": {"message": message}})},
}


@st.composite
def numbers(draw):
    """The numbers of a request that is too large: a limit, the excess over it, and the answer's share of the rest."""
    limit, excess, answer = (draw(st.integers(*ends)) for ends in ((10_000, 2_000_000), (100, 999_999), (100, 9_000)))
    return {
        "limit": limit,
        "excess": excess,
        "requested": limit + excess,
        "answer": answer,
        "prompt": limit + excess - answer,
    }


def filled(example, amounts, form="d"):
    """The sentence with its numbers, and these numbers: without an answer in it, the prompt is the whole request."""
    if "{answer}" not in example:
        amounts = amounts | {"prompt": amounts["requested"]}
    message = example.format(**{name: format(amount, form) for name, amount in amounts.items()})
    named = ("limit", "requested", "excess", "prompt")
    return message, {name: amounts[name] for name in named if f"{{{name}}}" in example}


def test_every_row_has_an_example():
    """Words that no provider uses have no place in the table."""
    assert [row.pattern.pattern for row in refusals() if not row.examples] == []


@pytest.mark.parametrize(("row", "example"), EXAMPLES)
def test_an_example_is_in_the_words_of_its_row(row, example):
    """The row that an example stands in recognises it, though another one may decide before."""
    text = plain(filled(example, dict.fromkeys(("limit", "excess", "requested", "answer", "prompt"), 12_345))[0])
    assert row.pattern.search(text)
    assert row.unless is None or not row.unless.search(text)


@pytest.mark.parametrize(("row", "example"), EXAMPLES)
@given(amounts=numbers(), form=st.sampled_from(["d", ","]), shape=st.sampled_from([*SHAPES]))
def test_an_example_is_read_by_its_row(row, example, amounts, form, shape):
    """Its kind, its provider and its numbers are those of its row, in every shape; of no other kind."""
    message, told = filled(example, amounts, form)
    overflow = classify_error(SHAPES[shape](message))
    if row.kind is None:
        assert overflow is None
        return
    assert overflow is not None
    assert (overflow.kind, {name: getattr(overflow, name) for name in told}) == (row.kind, told)
    assert not row.provider or overflow.provider == row.provider


def test_every_api_refuses_in_a_sentence_that_is_read():
    """The library's own refusals are in the words of the provider, with their numbers."""
    for api in ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"):
        overflow = classify_error(refusal_sentence(api, prompt=9_000, limit=8_000))
        assert (overflow.kind, overflow.prompt, overflow.requested, overflow.limit) == ("window", 9_000, 9_000, 8_000)
