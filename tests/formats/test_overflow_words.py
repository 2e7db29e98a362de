"""Error strings as providers and servers write them: what is an overflow, what is not, and the numbers in it."""

import json
from pathlib import Path

import pytest

from agentctx import classify_error
from agentctx.formats.overflow import plain

VECTORS = Path(__file__).parents[2] / "../shared/vectors/overflow_errors.json"
FEW = {
    "overflow": [{"message": "prompt is too long: 9 tokens > 8 maximum", "code": "invalid_request_error"}],
    "not_overflow": [{"message": "You exceeded your current quota.", "status": 429}],
}
SHARED = json.loads(VECTORS.read_text("utf-8")) if VECTORS.exists() else FEW

CASES = json.loads((Path(__file__).parent / "errors.json").read_text("utf-8"))
"""Words seen in public issue threads and test suites, with the numbers that they say."""


@pytest.mark.parametrize("case", CASES["overflow"], ids=lambda case: case["message"][:60])
def test_overflow_is_recognised(case):
    """What a provider says of an overlong request is read: that it is one, the limit, the request, the prompt."""
    overflow = classify_error(case["message"])

    assert overflow is not None
    assert {name: getattr(overflow, name) for name in ("kind", "limit", "requested", "prompt")} == {
        name: value for name, value in case.items() if name != "message"
    }
    if overflow.limit is not None and overflow.requested is not None:
        assert overflow.requested - overflow.limit == overflow.excess


@pytest.mark.parametrize("message", CASES["other"], ids=lambda message: message[:60])
def test_other_errors_are_not_overflows(message):
    """Rate limits, quotas, limits of the answer, of names and of images, timeouts and the rest are no overflow."""
    assert classify_error(message) is None


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u2018", r"\u2019", r"\u0027", r"\\u0027"])
@pytest.mark.parametrize("space", [" ", "\n", r"\n", "\t  "])
def test_words_are_read_through_their_escapes(apostrophe, space):
    """Quotes and line ends of any kind, escaped once or twice, change nothing."""
    assert plain(f"It{apostrophe}s{space}TOO long") == "it's too long"


@pytest.mark.parametrize("limit", [8_000, 9_999_999])
def test_a_text_whose_size_is_not_told(limit):
    """That a text has too many characters is known without how many there are."""
    overflow = classify_error(f"string too long. Expected a string with maximum length {limit}")
    assert (overflow.kind, overflow.limit, overflow.requested, overflow.excess) == ("characters", limit, None, None)


def test_an_allowance_that_is_only_used_up_is_none():
    """A request as large as the whole allowance of a minute may still go through; one token more never does."""
    busy = "Rate limit reached on tokens per min. Limit 30,000, Requested 30,00{}"
    assert classify_error(busy.format(0)) is None
    assert classify_error(busy.format(1)).excess == 1


def test_numbers_however_they_are_written():
    """With thousands apart, or in thousands and millions."""
    for limit, size in (("1m", "1_048_577"), ("1,000k", "1,048,577"), ("1000000", "1048577")):
        overflow = classify_error(f"maximum context length is {limit} tokens, however you requested {size} tokens")
        assert (overflow.limit, overflow.requested, overflow.excess) == (1_000_000, 1_048_577, 48_577)


def body(message):
    """As most providers shape an error body."""
    return {"error": {"message": message, "type": "invalid_request_error"}}


SHAPES = {
    "exception": ValueError,
    "body": body,
    "nested": lambda message: {"detail": json.dumps(body(message))},
    "quoted": lambda message: RuntimeError(f"Provider returned error: 400 - {json.dumps(json.dumps(body(message)))}"),
    "repr": lambda message: RuntimeError(f"Error code: 400 - {body(message)}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_shape_says_the_same(shape):
    """The same words mean the same bare, in an error body, in JSON within a string, and quoted by a gateway."""
    for case in CASES["overflow"]:
        if not case["message"].startswith("{"):
            overflow = classify_error(SHAPES[shape](case["message"]))
            assert overflow is not None, case["message"]
            assert (overflow.kind, overflow.limit, overflow.requested) == (
                case["kind"],
                case["limit"],
                case["requested"],
            )


@pytest.mark.parametrize("vector", SHARED["overflow"], ids=lambda vector: vector["message"][:60])
def test_recorded_overflows(vector):
    """Every recorded overflow is recognised by its words alone, and as the error body it came in."""
    body = {"error": {"message": vector["message"], "code": vector["code"]}}

    assert classify_error(ValueError(vector["message"])) is not None
    assert classify_error(body) is not None


@pytest.mark.parametrize("vector", SHARED["not_overflow"], ids=lambda vector: vector["message"][:60])
def test_recorded_other_errors(vector):
    """No recorded error of another kind is taken for an overflow."""
    assert classify_error(vector["message"]) is None
    assert classify_error({"error": {"message": vector["message"], "code": vector["status"]}}) is None


TOO_LONG = "prompt is too long: 9 tokens > 8 maximum"


class Limited(RuntimeError):
    """An SDK's error that tells by its code what it is."""

    code = "rate_limit_exceeded"


def test_what_json_in_a_text_says_beside_its_words_counts():
    """Numbers and statuses in a body that came as text are read like those of a body."""
    numbers = {"message": "the request exceeds the available context size", "n_prompt_tokens": 9_000, "n_ctx": 8_192}
    overflow = classify_error(json.dumps({"error": numbers}))
    assert (overflow.limit, overflow.requested, overflow.excess) == (8_192, 9_000, 808)
    assert classify_error(json.dumps({"error": {"message": TOO_LONG, "status": 401}})) is None


def test_only_what_the_provider_says_counts():
    """Neither what it quotes of the request nor a number that is no status tells of an overflow."""
    assert classify_error({"error": {"message": "bad", "input": TOO_LONG}}) is None
    assert classify_error({"error": {"message": "bad", "param": 413}}) is None
    assert classify_error({"text": "so far", "error": {"message": TOO_LONG}}).limit == 8
    assert classify_error({"error": {"message": "bad", "status": 413}}).kind == "bytes"


def test_the_outermost_error_that_says_something_decides():
    """A rate limit, told by words or by a code, is one, whatever it was raised from; what says nothing is not asked."""
    assert classify_error(RuntimeError(ValueError(TOO_LONG))).limit == 8
    for outer in (RuntimeError("rate limit reached"), Limited("slow down"), RuntimeError("that went wrong")):
        outer.__cause__ = ValueError(TOO_LONG)
        assert (classify_error(outer) is None) == ("wrong" not in str(outer))
