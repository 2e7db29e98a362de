"""The same conversation through each provider's own SDK: asked by a plain client whose address is the proxy's."""

from functools import cache

import boto3
import openai
from anthropic import Anthropic
from botocore.config import Config
from google import genai
from google.genai import types

FILLER = "The quick brown fox jumps over the lazy dog. " * 12
TASK = "Find out why the build of project Canary-77 fails."


def rounds(number, mark=""):
    """A task and so many rounds, as pairs of who speaks and what is said."""
    said = [("user", f"{TASK} {mark}")]
    for place in range(number):
        said += [("assistant", f"Answer {place}. {mark} {FILLER}"), ("user", f"Question {place}? {mark}")]
    return said


def plain(said):
    return [{"role": role, "content": text} for role, text in said]


OPEN = []
"""The clients that were made, to be closed at the end: to make one takes a tenth of a second."""


@cache
def made(kind, **settings):
    """A client with these settings, made once."""
    OPEN.append(kind(**settings))
    return OPEN[-1]


def chat(url, said, *, stream, key="sk-one"):
    client = made(openai.OpenAI, base_url=f"{url}/v1", api_key=key, max_retries=0)
    messages = [{"role": "system", "content": "Be brief."}, *plain(said)]
    if not stream:
        return client.chat.completions.create(model="gpt-5.4", messages=messages).choices[0].message.content
    asked = {"model": "gpt-5.4", "messages": messages, "stream_options": {"include_usage": True}}
    events = client.chat.completions.create(stream=True, **asked)
    return "".join(each.choices[0].delta.content or "" for each in events if each.choices)


def respond(url, said, *, stream, key="sk-one"):
    client = made(openai.OpenAI, base_url=f"{url}/v1", api_key=key, max_retries=0)
    asked = {"model": "gpt-5.4", "instructions": "Be brief.", "input": plain(said), "store": False}
    if not stream:
        return client.responses.create(**asked).output_text
    events = client.responses.create(stream=True, **asked)
    return "".join(each.delta for each in events if each.type == "response.output_text.delta")


def message(url, said, *, stream, key="sk-ant-one"):
    client = made(Anthropic, base_url=url, api_key=key, max_retries=0)
    asked = {"model": "claude-sonnet-5-5", "max_tokens": 100, "system": "Be brief.", "messages": plain(said)}
    if not stream:
        return client.messages.create(**asked).content[0].text
    with client.messages.stream(**asked) as events:
        return "".join(events.text_stream)


def gemini(url, key):
    return genai.Client(api_key=key, http_options={"base_url": url})


def generate(url, said, *, stream, key="AIza-one"):
    client = made(gemini, url=url, key=key)
    roles = {"user": "user", "assistant": "model"}
    contents = [types.Content(role=roles[role], parts=[types.Part(text=text)]) for role, text in said]
    settings = types.GenerateContentConfig(system_instruction="Be brief.")
    asked = {"model": "gemini-2.5-flash", "contents": contents, "config": settings}
    if not stream:
        return client.models.generate_content(**asked).text
    return "".join(each.text or "" for each in client.models.generate_content_stream(**asked))


def bedrock(url, key):
    """A client that signs its requests, over the proxy's address."""
    session = boto3.Session(key, f"secret of {key}", region_name="eu-west-1")
    return session.client("bedrock-runtime", endpoint_url=url, config=Config(retries={"total_max_attempts": 1}))


def converse(url, said, *, stream, key="AKIAONE"):
    messages = [{"role": role, "content": [{"text": text}]} for role, text in said]
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    asked = {"modelId": model, "messages": messages, "system": [{"text": "Be brief."}]}
    client = made(bedrock, url=url, key=key)
    if not stream:
        return client.converse(**asked)["output"]["message"]["content"][0]["text"]
    events = client.converse_stream(**asked)["stream"]
    deltas = [each["contentBlockDelta"]["delta"] for each in events if "contentBlockDelta" in each]
    return "".join(each["text"] for each in deltas)


def words(body):
    """The messages of a request, whatever its shape, without a system prompt."""
    given = body.get("messages") or body.get("input") or body.get("contents")
    return [each for each in given if each.get("role") != "system"]


TALKS = {
    "openai": chat,
    "responses": respond,
    "anthropic": message,
    "gemini": generate,
    "bedrock": converse,
}
