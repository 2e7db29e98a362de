"""The local servers: as strict as the providers, in the providers' words."""

import json
import runpy
from itertools import pairwise
from pathlib import Path

import anthropic
import boto3
import httpx
import openai
import pytest
from botocore.config import Config
from google import genai
from google.genai import types

from agentctx.testing.servers import Said, chat_completions, converse, generate_content, messages, responses

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI, BEDROCK = "/v1beta/models/gemini-3.5-flash:generateContent", "/model/us.anthropic.claude-sonnet-5-5/converse"
HELLO = [{"role": "user", "content": "Hello."}]
CLAUDE = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": HELLO}
GPT = {"model": "gpt-4o", "messages": HELLO}
ITEMS = {"model": "gpt-5.4", "input": HELLO}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}
LOST = {
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "lost", "content": "found"}]},
    "openai-chat": {"role": "tool", "tool_call_id": "lost", "content": "found"},
    "openai-responses": {"type": "function_call_output", "call_id": "lost", "output": "found"},
}
BINDING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}

REFUSED = {
    "chat: a result without a call": (
        *(chat_completions, CHAT, {**GPT, "messages": [LOST["openai-chat"]]}),
        "must be a response to a preceeding message with 'tool_calls'",
    ),
    "chat: no model": (chat_completions, CHAT, {"messages": HELLO}, "you must provide a model parameter"),
    "chat: no object": (chat_completions, CHAT, [1], "you must provide a model parameter"),
    "chat: an unknown field": (
        chat_completions,
        CHAT,
        {**GPT, "foo": 1},
        "Unrecognized request argument supplied: foo",
    ),
    "chat: an unknown field of a message": (
        *(chat_completions, CHAT, {**GPT, "messages": [*HELLO, {**HELLO[0], "foo": 1}]}),
        "Unknown parameter: 'messages[1].foo'.",
    ),
    "chat: an unknown field of a part": (
        *(chat_completions, CHAT),
        {**GPT, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello.", "foo": 1}]}]},
        "Unknown parameter: 'messages[0].content[0].foo'.",
    ),
    "chat: an unknown role": (
        *(chat_completions, CHAT, {**GPT, "messages": [{"role": "robot", "content": "Hello."}]}),
        "Invalid value: 'robot'.",
    ),
    "responses: a result without a call": (
        *(responses, RESPONSES, {**ITEMS, "input": [LOST["openai-responses"]]}),
        "No tool call found for function call output with call_id lost.",
    ),
    "responses: no model": (responses, RESPONSES, {"input": "Hello."}, "Missing required parameter: 'model'."),
    "responses: no input": (responses, RESPONSES, {"model": "gpt-5.4"}, "Missing required parameter: 'input'."),
    "responses: an unknown field": (responses, RESPONSES, {**ITEMS, "foo": 1}, "Unknown parameter: 'foo'."),
    "responses: an unknown field of an item": (
        *(responses, RESPONSES, {**ITEMS, "input": [{**HELLO[0], "foo": 1}]}),
        "Unknown parameter: 'input[0].foo'.",
    ),
    "responses: wrong instructions": (
        *(responses, RESPONSES, {**ITEMS, "instructions": [1]}),
        "Invalid type for 'instructions': expected a string, but got an array instead.",
    ),
    "responses: nothing is kept": (
        *(responses, RESPONSES, {**ITEMS, "previous_response_id": "resp_0"}),
        "Previous response with id 'resp_0' not found.",
    ),
    "anthropic: a result without a call": (
        *(messages, MESSAGES, {**CLAUDE, "messages": [LOST["anthropic"]]}),
        "unexpected `tool_use_id` found in `tool_result` blocks: lost",
    ),
    "anthropic: no model": (messages, MESSAGES, {"messages": HELLO, "max_tokens": 1}, "model: Field required"),
    "anthropic: no room": (
        *(messages, MESSAGES, {"messages": HELLO, "model": "claude-sonnet-5-5"}),
        "max_tokens: Field required",
    ),
    "anthropic: no answer": (
        *(messages, MESSAGES, {**CLAUDE, "max_tokens": 0}),
        "max_tokens: must be greater than or equal to 1",
    ),
    "anthropic: an unknown field": (messages, MESSAGES, {**CLAUDE, "foo": 1}, "foo: Extra inputs are not permitted"),
    "anthropic: an unknown field of a block": (
        *(messages, MESSAGES),
        {**CLAUDE, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello.", "foo": 1}]}]},
        "messages.0.content.0.foo: Extra inputs are not permitted",
    ),
    "anthropic: a beta feature without its header": (
        *(messages, MESSAGES, {**CLAUDE, "thinking": BINDING}),
        "thinking.block_binding: Extra inputs are not permitted",
    ),
    "anthropic: betas in the body": (
        *(messages, MESSAGES, {**CLAUDE, "betas": ["any"]}),
        "betas: Extra inputs are not permitted",
    ),
    "anthropic: a system message first": (
        *(
            messages,
            MESSAGES,
            {**CLAUDE, "model": "claude-opus-5-5", "messages": [{"role": "system", "content": "No."}]},
        ),
        "use the top-level 'system' parameter",
    ),
    "gemini: nothing": (generate_content, GEMINI, {"contents": []}, "contents is not specified"),
    "gemini: an unknown field": (
        *(generate_content, GEMINI, {**CONTENTS, "foo": 1}),
        'Invalid JSON payload received. Unknown name "foo": Cannot find field.',
    ),
    "gemini: an unknown field of a part": (
        *(generate_content, GEMINI, {"contents": [{"role": "user", "parts": [{"text": "Hello.", "foo": 1}]}]}),
        "Unknown name \"foo\" at 'contents[0].parts[0]': Cannot find field.",
    ),
    "bedrock: blank text": (
        *(converse, BEDROCK, {"messages": [{"role": "user", "content": [{"text": " "}]}]}),
        "blank",
    ),
    "bedrock: a beta feature that is not asked for": (
        *(converse, BEDROCK),
        {
            "messages": [{"role": "user", "content": [{"text": "Hello."}]}],
            "additionalModelRequestFields": {"thinking": BINDING},
        },
        "thinking.block_binding: Extra inputs are not permitted",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_illegal_request_is_refused_in_the_providers_words(serve, case):
    """A request that breaks a rule gets status 400 and the provider's sentence, and counts as not accepted."""
    app, path, body, words = REFUSED[case]
    desk, url = serve(app)
    answer = httpx.post(f"{url}{path}", json=body)
    assert answer.status_code == 400
    said = answer.json()
    assert words in (said["message"] if "message" in said else said["error"]["message"])
    assert desk.accepted == []
    assert len(desk.requests) == 1


def test_gemini_knows_its_operations(serve):
    """``countTokens`` counts and is no model call; what is no operation is not found."""
    desk, url = serve(generate_content)
    model = f"{url}/v1beta/models/gemini-3.5-flash"
    assert httpx.post(f"{model}:countTokens", json=CONTENTS).json()["totalTokens"] > 0
    assert httpx.post(f"{model}:bogus", json=CONTENTS).status_code == 404
    assert desk.requests == []


def test_every_answer_has_ids_of_its_own(serve):
    """What a tool call is known by is never used twice in a conversation."""
    _, url = serve(messages, answer=lambda _: Said("", (("look", {}), ("look", {}))))
    answers = [httpx.post(f"{url}{MESSAGES}", json=CLAUDE).json() for _ in range(3)]
    ids = [block["id"] for answer in answers for block in answer["content"]]
    assert len(set(ids)) == 6
    assert all(first != second for first, second in pairwise(answer["id"] for answer in answers))


def read_chat(url):
    asked = {"model": "gpt-4o", "messages": HELLO}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        whole = client.chat.completions.create(**asked).choices[0].message
        with client.chat.completions.stream(**asked) as stream:
            final = stream.get_final_completion().choices[0].message
    return [(each.content, json.loads(each.tool_calls[0].function.arguments)) for each in (whole, final)]


def read_responses(url):
    asked = {"model": "gpt-5.4", "input": "Hello."}
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        whole = client.responses.create(**asked)
        with client.responses.stream(**asked) as stream:
            final = stream.get_final_response()
    return [(each.output_text, json.loads(each.output[1].arguments)) for each in (whole, final)]


def read_messages(url):
    with anthropic.Anthropic(base_url=url, api_key="none") as client:
        whole = client.messages.create(**CLAUDE)
        with client.messages.stream(**CLAUDE) as stream:
            final = stream.get_final_message()
    assert whole.content[0] == final.content[0]
    assert whole.content[0].thinking == "Where?"
    return [(each.content[1].text, each.content[2].input) for each in (whole, final)]


def read_gemini(url):
    asked = {"model": "gemini-3.5-flash", "contents": "Hello."}
    with genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url)) as client:
        whole = client.models.generate_content(**asked).candidates[0].content.parts
        chunks = list(client.models.generate_content_stream(**asked))
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    text = "".join(part.text or "" for part in parts)
    return [(whole[0].text, whole[1].function_call.args), (text, parts[-1].function_call.args)]


def read_converse(url):
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    config = Config(retries={"total_max_attempts": 1})
    client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)
    asked = {
        "modelId": "us.anthropic.claude-sonnet-5-5",
        "messages": [{"role": "user", "content": [{"text": "Hello."}]}],
    }
    whole = client.converse(**asked)["output"]["message"]["content"]
    stream = client.converse_stream(**asked)["stream"]
    deltas = [event["contentBlockDelta"]["delta"] for event in stream if "contentBlockDelta" in event]
    client.close()
    thought = {name: value for delta in deltas for name, value in delta.get("reasoningContent", {}).items()}
    assert thought == whole[0]["reasoningContent"]["reasoningText"]
    text = "".join(delta.get("text", "") for delta in deltas)
    return [(whole[1]["text"], whole[2]["toolUse"]["input"]), (text, json.loads(deltas[-1]["toolUse"]["input"]))]


READ = {
    chat_completions: read_chat,
    responses: read_responses,
    messages: read_messages,
    generate_content: read_gemini,
    converse: read_converse,
}


@pytest.mark.parametrize("app", READ)
def test_a_stream_says_what_a_whole_answer_says(serve, app):
    """The real SDK reads the same words, calls and reasoning from a stream as from a whole answer."""
    _, url = serve(app, answer=lambda _: Said("Let me look.", (("look", {"place": "here"}),), thinking="Where?"))
    whole, streamed = READ[app](url)
    assert whole == streamed == ("Let me look.", {"place": "here"})


def test_the_known_fields_are_those_of_the_sdks():
    """The table of fields is what the script makes of the installed SDKs; other versions may know more."""
    folder = Path(__file__).parents[2]
    known = json.loads((folder / "agentctx/testing/servers/fields.json").read_text())
    made = runpy.run_path(str(folder / "scripts/request_fields.py"))["table"]()
    assert made.keys() == known.keys() - {"made from"}
    for name, table in made.items():
        assert set(table["request"]) & set(known[name]["request"]) >= {"tools"}
        assert {"text", "message", "user", ""} & known[name]["message"].keys()
        lost = set(known[name]["request"]) - set(table["request"])
        assert lost == set(), f"{name} knows no more of {lost}"
