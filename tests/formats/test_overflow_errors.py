"""Exceptions as SDKs raise them: where the words, codes and statuses lie."""

import json

import pytest

from agentctx import ContextOverflow, classify_error, overflow_of
from agentctx.clients.over_http import Refused
from agentctx.formats import Overflow
from agentctx.formats.overflow import OVERFLOW

WORDS = "This model's maximum context length is 8192 tokens. However, your messages resulted in 8327 tokens."
BUSY = "Rate limit reached for gpt-5 in organization org-x on requests per min (RPM): Limit 500, Used 500, Requested 1."


class StatusError(Exception):
    """As the OpenAI, Anthropic and Groq SDKs shape theirs."""

    def __init__(self, message, status_code=400, body=None, response=None):
        super().__init__(message)
        self.message, self.status_code, self.body, self.response = message, status_code, body, response
        self.code = body.get("code") if isinstance(body, dict) else None


class ClientError(Exception):
    """As botocore shapes its errors."""

    def __init__(self, code, message, status):
        super().__init__(f"An error occurred ({code}) when calling the Converse operation: {message}")
        self.response = {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status, "RetryAttempts": 0},
        }


class ContextWindowOverflowException(Exception):
    """As Strands, LangChain and LiteLLM name theirs."""


class UnreadResponse:
    """As httpx has it while a stream was not read: asking for the text fails."""

    status_code = 400

    @property
    def text(self):
        """Not there yet."""
        raise RuntimeError


class ReadResponse:
    """As httpx and requests have it once it was read."""

    def __init__(self, body):
        self.status_code, self._content = 400, body


def raised(error, cause=None, context=None):
    """The error as it is after being raised from, or while handling, another one."""
    error.__cause__, error.__context__ = cause, context
    error.__suppress_context__ = cause is not None
    return error


def test_code_in_the_body_suffices():
    """A body with the code of an overflow is one, whatever the message says."""
    error = StatusError("Error code: 400", body={"message": "Bad request", "code": "context_length_exceeded"})

    assert classify_error(error).kind == "window"


def test_body_of_a_read_response_is_looked_at():
    """The words may be only in the response's bytes."""
    error = StatusError("Bad Request", response=ReadResponse(json.dumps({"error": {"message": WORDS}}).encode()))

    assert classify_error(error).limit == 8_192


def test_unread_response_is_left_alone():
    """A response that was not read is not read for this."""
    assert classify_error(StatusError("Bad Request", response=UnreadResponse())) is None


def test_botocore_error():
    """A Bedrock validation error is an overflow by its words, throttling is none."""
    overflow = classify_error(ClientError("ValidationException", "Input is too long for requested model.", 400))

    assert (overflow.kind, overflow.provider) == ("window", "bedrock")
    assert classify_error(ClientError("ThrottlingException", "Too many tokens, please wait.", 429)) is None


def test_class_name_suffices():
    """An exception class that is named for the overflow is one."""
    assert classify_error(ContextWindowOverflowException("request failed")).kind == "window"


@pytest.mark.parametrize("link", ["cause", "context"])
def test_causes_are_followed(link):
    """An overflow is found behind the exceptions that wrap it."""
    inner = StatusError(WORDS)
    middle = raised(RuntimeError("model call failed"), **{link: inner})

    assert classify_error(raised(LookupError("agent step failed"), cause=middle)).requested == 8_327


def test_suppressed_context_is_not_followed():
    """``raise ... from None`` hides what went before."""
    error = raised(ValueError("no answer"), context=StatusError(WORDS))
    error.__suppress_context__ = True

    assert classify_error(error) is None


def test_outermost_that_says_something_decides():
    """A rate limit that came while an overflow was handled is a rate limit."""
    assert classify_error(raised(StatusError(BUSY, 429), context=StatusError(WORDS))) is None


def test_groups_are_followed():
    """One member of an exception group suffices."""
    group = ExceptionGroup("tasks", [ValueError("no"), ExceptionGroup("inner", [StatusError(WORDS)])])

    assert classify_error(group).limit == 8_192


def test_a_member_that_occurs_twice_hides_no_other():
    """Each is looked at once, and all of them."""
    again = ValueError("no")
    assert classify_error(ExceptionGroup("tasks", [again, again, StatusError(WORDS)])).limit == 8_192


def test_the_exception_that_another_one_keeps_is_looked_at():
    """Some wrappers keep the provider's error as ``original_exception``, and raise theirs from nothing."""
    wrapper = RuntimeError("model call failed")
    wrapper.original_exception = StatusError(WORDS)
    assert classify_error(wrapper).limit == 8_192


class Spoken(Exception):
    """As an exception that makes its words when it is asked for them."""

    def __str__(self):
        return WORDS


def test_words_that_are_made_when_asked_for_count():
    """What an exception says is what ``str`` gives, whatever it stores."""
    assert classify_error(Spoken()).limit == 8_192


@pytest.mark.parametrize(
    "said",
    [
        "Error code: 403 - forbidden",
        "max_tokens: 9999 > 8192, which is the maximum allowed number of output tokens",
        "string too long. Expected a string with maximum length 64, but got a string with length 70",
    ],
)
def test_another_error_that_came_of_an_overflow_is_none(said):
    """Access, a long answer or a long name: the outermost that says what is wrong decides, not what it came from."""
    assert classify_error(raised(ValueError(said), cause=StatusError(WORDS))) is None


def test_circular_causes_end():
    """Exceptions that name each other as cause are looked at once."""
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one

    assert classify_error(one) is None


@pytest.mark.parametrize(
    "event",
    [
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"},
        },
        {
            "type": "response.failed",
            "response": {"error": {"code": "context_length_exceeded", "message": "Your input"}},
        },
        {"validationException": {"message": "The model returned the following errors: Input is too long."}},
        {
            "error": json.dumps(
                {"error": {"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 8}}
            )
        },
        {
            "choices": [
                {"finish_reason": "model_context_window_exceeded", "message": {"content": "", "role": "assistant"}}
            ]
        },
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
                }
            }
        ],
        'event: error\ndata: {"type":"error","error":{"type":"invalid_request","message":"prompt is too long"}}\n\n',
        b'{"error":{"message":"Prompt contains 9 tokens, too large for model with 8 maximum context length"}}',
        memoryview(b'{"error":{"message":"prompt is too long"}}'),
        {
            "base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"},
            "choices": [],
        },
        {
            "ErrorCode": "CLIENT_ERROR_FROM_MODEL",
            "OriginalMessage": '{"error":"`inputs` must have less than 9 tokens"}',
        },
    ],
    ids=[
        "anthropic",
        "responses",
        "bedrock",
        "ollama",
        "zai",
        "gemini",
        "sse",
        "bytes",
        "view",
        "minimax",
        "sagemaker",
    ],
)
def test_stream_events_and_bodies(event):
    """What comes instead of an answer is read as well: events, bodies, lists, server-sent text, bytes."""
    assert classify_error(event).kind == "window"


def test_numbers_given_as_fields():
    """llama.cpp gives its numbers as fields beside the message."""
    overflow = classify_error({"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 17949, "n_ctx": 8192}})

    assert (overflow.limit, overflow.requested, overflow.excess, overflow.prompt) == (8_192, 17_949, 9_757, 17_949)
    for name, told in (("n_ctx", (8_192, None)), ("n_prompt_tokens", (None, 8_192))):
        overflow = classify_error({"error": {"type": "exceed_context_size_error", name: 8_192}})
        assert (overflow.limit, overflow.requested) == told


def test_what_the_model_said_is_no_error():
    """An answer in which the model speaks of overflows is none."""
    answer = {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "prompt is too long"}}]}

    assert classify_error(answer) is None


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_hopeless_statuses(status):
    """Where no smaller request helps, the words do not count."""
    assert classify_error(StatusError("Context length exceeded", status)) is None


def test_bare_413():
    """A request entity that is too large is an overflow in bytes, unless the words speak of a rate."""
    assert classify_error(StatusError("Error code: 413", 413)) == Overflow(
        "bytes", provider="test_overflow_errors", message="Error code: 413"
    )
    assert classify_error(StatusError("rate limit", 413)) is None


@pytest.mark.parametrize("said", ["Error code: {}", "HTTP {}", "{} - refused", "status: {}"])
def test_a_status_that_a_text_begins_with(said):
    """It counts as if it had come as a number."""
    assert classify_error(said.format(413)).kind == "bytes"
    assert classify_error(said.format(401) + ": " + WORDS) is None


def test_busy_without_a_word():
    """A body that is not there may mean an overflow with status 400, and never with 429."""
    assert classify_error(StatusError("400 status code (no body)")).kind == "window"
    assert classify_error(StatusError("400 status code (no body)", 429)) is None


@pytest.mark.parametrize("body", ["", "[]", "{}", "null"])
def test_a_status_without_a_word(body):
    """A wrapped client, which has the status and the body alone, knows the overflow that the SDK's error is."""
    assert classify_error(Refused(body, 400)).kind == "window"
    assert classify_error(Refused(body, 429)) is None


@pytest.mark.parametrize("body", ["<b>Bad Request</b>", '{"error": {"code": "invalid_api_key"}}', '{"message": "no"}'])
def test_a_status_with_a_word(body):
    """Where the body says something, the status alone tells nothing."""
    assert classify_error(Refused(body, 400)) is None


@pytest.mark.parametrize("quoted", [json.dumps, str], ids=["JSON", "Python"])
@pytest.mark.parametrize("key", ["message", "text", "request", "prompt"])
@pytest.mark.parametrize(
    "said", ["Concurrency exceeded for model foo", "Service tier capacity exceeded for this model."]
)
def test_a_key_is_no_word(quoted, key, said):
    """The name of a field in a text is not what its value says is too large."""
    assert classify_error(f"Error 503: {quoted({'object': 'error', key: said})}") is None
    overflow = f"Error 503: {quoted({'object': 'error', key: 'The conversation exceeded what the model takes'})}"
    assert classify_error(overflow).kind == "window"


def test_overflow_wins_over_a_server_status():
    """llama.cpp once answered overflows with status 500, Bedrock streams with 200."""
    assert classify_error(StatusError("the request exceeds the available context size", 500)).kind == "window"
    assert classify_error(StatusError(WORDS, 200)).kind == "window"


def test_our_own_overflow_is_none_of_a_provider():
    """What was never sent cannot be mended by sending less: ``ContextOverflow`` says that nothing can be left out."""
    assert classify_error(ContextOverflow(9, 8)) is None


class AnswerWithExtensions:
    """As httpx has a response, with the overflow that travels in it."""

    def __init__(self, overflow):
        self.status_code, self.extensions = 400, {OVERFLOW: overflow}


@pytest.mark.parametrize("travels", ["as its cause", "in its response"])
def test_the_overflow_behind_an_sdks_error_is_one(travels):
    """It stands for the provider's own error, and tells the limit, the tokens, and how many are too many."""
    overflow = ContextOverflow(9, 5)
    if travels == "as its cause":
        error = raised(StatusError(WORDS), cause=overflow)
    else:
        error = StatusError(WORDS, response=AnswerWithExtensions(overflow))
    assert overflow_of(error) is overflow
    assert classify_error(error) == Overflow("window", 5, 9, 4, message=str(error))


def test_what_holds_no_overflow_has_none():
    """An error of another kind, and an overflow that is the caller's own."""
    assert overflow_of(StatusError(WORDS)) is None
    assert classify_error(ContextOverflow(9, 5)) is None


@pytest.mark.parametrize("nothing", [None, {}, [], "", b"", 0, object(), ValueError(), KeyboardInterrupt()])
def test_nothing_is_no_overflow(nothing):
    """What says nothing is no overflow and no error."""
    assert classify_error(nothing) is None


class Speechless(Exception):
    """As an exception whose own code fails when it is asked for its words."""

    def __str__(self):
        return self.args[1]


def test_exception_that_cannot_say_itself():
    """An exception whose text cannot be had is still looked at, and never replaced by the failure to have it."""
    assert classify_error(Speechless()) is None
    assert classify_error(raised(Speechless(), cause=StatusError(WORDS))).limit == 8_192


def test_json_nested_without_end():
    """A body of brackets alone is no JSON that could be read, and no crash."""
    assert classify_error("[" * 100_000) is None


@pytest.mark.parametrize("word", ["exceed", "context ", "prompt ", "limit: 1 ", "9,"])
def test_no_error_takes_for_ever_to_read(ends, word):
    """A text made to be hard to match, longer than any that is looked at, is read to its end."""
    assert ends(classify_error, word * 100_000) is None
