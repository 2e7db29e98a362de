"""Every provider's SDK talks through the proxy as it talks to its provider."""

import json
from itertools import pairwise

import pytest
from talks import TALKS, TASK, rounds, words

EVERY = pytest.mark.parametrize("name", TALKS)
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@EVERY
@BOTH
def test_what_fits_is_sent_as_it_came(provider, name, stream):
    """The provider gets the client's own bytes, and the client the provider's answer."""
    at = provider(name)
    assert TALKS[name](at.address, rounds(1), stream=stream) == "One word after another."
    assert TALKS[name](at.url, rounds(1), stream=stream) == "One word after another."
    assert at.desk.requests[0] == at.desk.requests[1]


@EVERY
def test_a_long_conversation_fits_and_keeps_its_prefix(provider, name):
    """A client that sends its whole history gets through a small window, and the provider sees a stable prefix."""
    at = provider(name, window=1_700)
    for number in range(10, 18):
        TALKS[name](at.url, rounds(number, name), stream=number % 2 == 0)
    sent = [words(body) for body in at.desk.accepted]
    assert len(sent) == 8
    assert all(TASK in json.dumps(each[0]) for each in sent)
    goes_on = [after[: len(before)] == before for before, after in pairwise(sent)]
    assert sum(goes_on) >= 5


@EVERY
@BOTH
def test_an_overflow_is_made_up_for(provider, name, stream):
    """When the provider's window is smaller than the pipeline's, a strictly smaller request is sent, once."""
    at = provider(name, overflows=1)
    assert TALKS[name](at.url, rounds(8, f"{name}{stream}"), stream=stream) == "One word after another."
    assert len(at.desk.requests) == 2
    assert len(at.desk.accepted) == 1
    assert len(str(at.desk.requests[1])) < len(str(at.desk.requests[0]))


@EVERY
def test_an_overflow_within_a_stream_is_made_up_for(provider, name):
    """Where a stream says that the request was too large, it goes on with the answer to a smaller one."""
    at = provider(name, overflows=1, refuses="stream")
    assert TALKS[name](at.url, rounds(8, f"{name} late"), stream=True) == "One word after another."
    assert len(at.desk.requests) == 2
