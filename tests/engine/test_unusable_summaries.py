"""What a summarizer gives that is no summary is known, in whatever language and shape; prose and records are taken."""

from collections.abc import Sequence

import pytest

from agentctx.engine.summary import alone, flaw, strangeness, without_thoughts
from agentctx.message import Message, Text
from agentctx.strategies import Extractive, OpenAISummarizer

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
    "Ziel: keine\nEntscheidungen: keine",
    "\u76ee\u6807\uff1a\u65e0\n\u51b3\u5b9a\uff1a\u65e0",
    '{"goal": "", "decisions": [], "next_step": null}',
    "```json\n{}\n```",
    "Here is the summary of the conversation:",
    "<summary></summary>",
    "[REDACTED]",
    "Content filtered.",
    "## Zusammenfassung\n\n## Ziel\n",
)
CALLS = (
    '```json\n{"name": "bash", "arguments": {"command": "ls"}}\n```',
    'I will look.\n```\n{"name": "bash", "arguments": {}}\n```',
    '[TOOL_CALLS][{"name":"bash","arguments":{}}]',
    "<|channel|>commentary to=functions.bash<|message|>{}",
    '[bash(command="ls")]',
    "Let me look.\n<tool_call>ls</tool_call>",
    "Action: bash\nAction Input: ls",
    '{"functionCall": {"name": "bash", "args": {}}}',
    '{"tool": "bash", "args": {"cmd": "ls"}}',
    '{"thought": "look", "tool": "bash", "tool_input": {}}',
    'Goal: <tool_call>{"name": "bash"}</tool_call>',
)
REFUSALS = (
    "I won't be able to help with that request.",
    "I'm afraid I can't do that.",
    "I must refuse.",
    "I'd rather not.",
    "That's not something I can help with.",
    "Cannot comply.",
    "As an AI language model, I have no access to it.",
    "As an AI, summarizing this is not possible.",
    "Als KI-Modell kann ich das nicht zusammenfassen.",
    "En tant que mod\u00e8le de langage, je ne peux pas.",
    "Como modelo de lenguaje, no puedo.",
    "\u4f5c\u4e3a\u4e00\u4e2aAI\u8bed\u8a00\u6a21\u578b\uff0c\u6211\u65e0\u6cd5\u603b\u7ed3\u3002",
    "\u65e0\u6cd5\u63d0\u4f9b\u5e2e\u52a9\u3002",
    "\u304a\u624b\u4f1d\u3044\u3067\u304d\u307e\u305b\u3093\u3002",
    "\ub3c4\uc640\ub4dc\ub9b4 \uc218 \uc5c6\uc2b5\ub2c8\ub2e4.",
    "\u041f\u0440\u043e\u0441\u0442\u0438\u0442\u0435, \u043d\u043e \u044f \u043d\u0435 \u043c\u043e\u0433\u0443.",
    "Es tut mir leid, aber dabei kann ich nicht helfen.",
    "Je suis d\u00e9sol\u00e9, mais je ne peux pas vous aider avec cette demande.",
    "Lo siento, pero no puedo ayudar con eso.",
    "\u7533\u3057\u8a33\u3042\u308a\u307e\u305b\u3093\u304c\u3001\u304a\u5fdc\u3048\u3067\u304d\u307e\u305b\u3093\u3002",
    "\u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u5e2e\u52a9\u60a8\u3002",
    "Goal: I'm sorry, but I can't help with that.",
    "Goal:\nI cannot summarize this conversation.\nNext step: none",
    "Goal: \u62b1\u6b49\uff0c\u6211\u65e0\u6cd5\u534f\u52a9\u5904\u7406\u8be5\u8bf7\u6c42\u3002",
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
    "Request timed out.",
    "Une erreur est survenue.",
    "This model's maximum context length is 8192 tokens.",
    "Goal: Error 429: rate limit reached",
    "[object Object]",
    "[Errno 111] Connection refused",
    "curl: (7) Failed to connect",
    "<coroutine object summarize at 0x7f>",
)
SMALL_TALK = (
    "There is nothing to summarize.",
    "Il n'y a rien \u00e0 r\u00e9sumer.",
    "Keine Zusammenfassung verf\u00fcgbar.",
    "OK",
    "Here you go!",
    "Let me summarize this conversation for you.",
    "Certainly! Below is the summary.",
    "The conversation has been summarized.",
    "Done.",
    "Understood, go on",
    "Hello! How can I help you today?",
    "Sure! Please paste the conversation.",
    "Summarize the conversation above.",
    "Nagyon sajnos ezzel most semmi esetben nem tudok neked segiteni baratom.",
)
SUMMARIES = (
    "They mend the deploy.",
    "short",
    "As an AI support bot for the shop, the assistant refunded the order; the address is open.",
    "Als KI-Anbieter ist einer gesetzt, der Deploy bleibt.",
    "Como modelo de datos se eligi\u00f3 el de facturas.",
    "Error handling of the deploy: requests to /v1/orders fail; keepalive in nginx.conf is raised.",
    "Connection reset in the deploy was traced to the keepalive; invoices fail with 502.",
    "Rechnungen: nginx.conf bekommt ein anderes keepalive, die Tests bleiben.",
    "Goal: mend it\nOpen items:\n- Error: 429 Too Many Requests",
    "Goal: see what Error means\nDecisions:\n- none",
    "Sorry state of nginx.conf was the cause.",
    "<think>What now?</think>Goal: mend the deploy",
    "Le client a re\u00e7u une cafeti\u00e8re en panne ; une autre, noire, part lundi.",
    "\u9867\u5ba2\u306e\u30b3\u30fc\u30d2\u30fc\u30e1\u30fc\u30ab\u30fc\u304c\u6545\u969c\u3002\u9ed2\u306e\u4ea4\u63db\u54c1\u3092\u6708\u66dc\u306b\u767a\u9001\u3059\u308b\u3002",
    '{"topic": "broken coffee maker", "decision": "replacement ships Monday", "colour": "black"}',
    '{"errors": ["Error 500 checkout: fixed"], "left": ["integration tests"]}',
    '{"detail": "checkout fixed through config/prod.yaml", "next": "integration tests"}',
    '{"input": "user wants checkout fixed", "output": "config/prod.yaml changed"}',
    'It failed:\n```json\n{"input": "checkout", "parameters": {"retries": 3}}\n```\nFixed in config/prod.yaml.',
    "functions.checkout() now reads retries from config/prod.yaml.",
    "Backoff added in stripe_client.py.\nAction: integration tests\nAction Input: none",
    "Leider kann ich Kunden noch nicht bezahlen lassen: Stripe meldet 429; Backoff erg\u00e4nzt.",
    "Error 500 in checkout was traced to the missing key retries; fixed. Payment timeout raised to 30 s.",
    "Request timed out in payments: raised the timeout to 30 seconds in payments.py.",
    "I can't run pytest here, so p0.py was edited without tests.",
)


def problem(text: str, given: Sequence[Message] = GIVEN, *, record: bool = False) -> str:
    told = without_thoughts(text)
    return flaw(told) or (strangeness(told, given, record=record) if alone(told) else "")


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (EMPTY, "empty"),
        (CALLS, "called a tool"),
        (REFUSALS, "refused"),
        (ERRORS, "an error"),
        (SMALL_TALK, "something else"),
    ],
    ids=["nothing", "calls", "refusals", "errors", "small talk"],
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
    assert problem("Waiting for whatever follows", record=True)
    assert not problem("Waiting for whatever follows")
    assert not problem("The deploy is mended.", record=True)


@pytest.mark.parametrize("said", [*ERRORS, *REFUSALS, *CALLS], ids=range(len(ERRORS + REFUSALS + CALLS)))
async def test_the_record_of_what_was_said_is_one_whatever_that_was(said):
    """Words that would be no summary are quoted in one that needs no model, and it is not refused."""
    given = [Message("user", (Text(said),)), Message("assistant", (Text("We must not stop."),))]
    assert not problem(await Extractive()(given, 100), given)
