"""What a summarizer gives that is no summary is known, in whatever language and shape; prose and records are taken."""

from collections.abc import Sequence

import pytest

from agentctx.core.message import Message, Text
from agentctx.engine.no_summary import flaw, is_plain, strangeness, without_thoughts
from agentctx.memory import OpenAISummarizer
from agentctx.strategies import Extractive

pytestmark = pytest.mark.anyio
GIVEN = (
    Message("user", (Text("Mend the deploy of the invoices; requests to /v1/orders fail with 502. Nicht die Tests."),)),
    Message("assistant", (Text("I will raise the keepalive in nginx.conf, aber erst messe ich; kann es helfen?"),)),
)
EMPTY = (
    "...",
    "-",
    "N/A",
    "None",
    "undefined",
    "(none)",
    "Goal: n/a\nFiles:\n- none",
    "<think>They want a summary. Let",
)
CALLS = (
    '```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```',
    'I will look.\n```\n{"name": "bash", "arguments": {}}\n```',
    '[TOOL_CALLS][{"name":"bash","arguments":{}}]',
    "<|channel|>commentary to=functions.bash<|message|>{}",
    '[bash(command="ls")]',
    "Let me look.\n<tool_call>ls</tool_call>",
    "Action: bash\nAction Input: ls",
)
REFUSALS = (
    "I won't be able to help with that request.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Je suis d\u00e9sol\u00e9, mais je ne peux pas vous aider avec cette demande.",
    "Lo siento, pero no puedo ayudar con eso.",
    "\u7533\u3057\u8a33\u3042\u308a\u307e\u305b\u3093\u304c\u3001\u304a\u5fdc\u3048\u3067\u304d\u307e\u305b\u3093\u3002",
    "\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u5e2e\u52a9\u60a8\u3002",
)
ERRORS = (
    "Error generating summary: 429 Too Many Requests",
    "Summary unavailable",
    "<html><body><h1>502 Bad Gateway</h1></body></html>",
    '{"error": {"message": "Rate limit reached", "type": "requests"}}',
    "Error code: 429 - Rate limit reached for gpt-5-mini in organization org-x on tokens per min: Limit 30000",
    "openai.APITimeoutError: Request timed out.",
    "Traceback (most recent call last):\n  File 'x', line 1",
    "The service is temporarily unavailable, please try again later.",
    "Unfortunately, I cannot summarize this conversation.",
)
STRANGE = ("Nagyon sajnos ezzel most semmi esetben nem tudok neked segiteni baratom.",)
SUMMARIES = (
    "They mend the deploy.",
    "short",
    "Error handling of the deploy: requests to /v1/orders fail; keepalive in nginx.conf is raised.",
    "Connection reset in the deploy was traced to the keepalive; invoices fail with 502.",
    "Rechnungen: nginx.conf bekommt ein anderes keepalive, die Tests bleiben.",
    "Goal: mend it\nOpen items:\n- Error: 429 Too Many Requests",
    "Goal: see what Error means\nDecisions:\n- none",
    "Sorry state of nginx.conf was the cause.",
    "<think>What now?</think>Goal: mend the deploy",
)


def problem(text: str, given: Sequence[Message] = GIVEN, *, record: bool = False) -> str:
    told = without_thoughts(text)
    return flaw(told) or (strangeness(told, given, record=record) if is_plain(told) else "")


@pytest.mark.parametrize(
    ("texts", "why"),
    [(EMPTY, "empty"), (CALLS, "called a tool"), (REFUSALS, "refused"), (ERRORS, "an error"), (STRANGE, "nothing of")],
    ids=["nothing", "calls", "refusals", "errors", "other things"],
)
def test_what_is_no_summary_is_known(texts, why):
    """Each of them, also where the conversation has its words."""
    assert {text: why in problem(text) for text in texts} == dict.fromkeys(texts, True)


def test_summaries_in_any_form_are_taken():
    """Free words, a few of them, ones that speak of errors, another language, and records of any content."""
    assert {text: problem(text) for text in SUMMARIES} == dict.fromkeys(SUMMARIES, "")


def test_who_was_asked_for_a_record_does_not_give_a_few_other_words():
    """A ready summarizer is asked for headings: what has none, and no word of what was said, is refused."""
    assert OpenAISummarizer(object(), "m").writes_record
    assert not OpenAISummarizer(object(), "m", instructions="Say it in one line.").writes_record
    assert problem("Understood, go on", record=True)
    assert not problem("Understood, go on")
    assert not problem("The deploy is mended.", record=True)


@pytest.mark.parametrize("said", [*ERRORS, *REFUSALS, *CALLS], ids=range(len(ERRORS + REFUSALS + CALLS)))
async def test_the_record_of_what_was_said_is_one_whatever_that_was(said):
    """Words that would be no summary are quoted in one that needs no model, and it is not refused."""
    given = [Message("user", (Text(said),)), Message("assistant", (Text("We must not stop."),))]
    assert not problem(await Extractive()(given, 100), given)
