"""What a type checker makes of a wrapped client: the client's own types, for each SDK. `mypy` reads it."""

from typing import assert_type

from anthropic import Anthropic, AsyncAnthropic, AsyncAnthropicVertex
from anthropic.types import Message, MessageParam
from openai import AsyncAzureOpenAI, AsyncOpenAI, OpenAI, Stream
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.responses import Response

from agentctx import Pipeline, TrimRounds, wrap


class Own:
    def ask(self) -> str:
        return ""


plan = Pipeline(TrimRounds(3))
assert_type(wrap(Own(), plan), Own)
assert_type(wrap(Own(), plan, key=lambda body: body["user"]).ask(), str)


async def calls(azure: AsyncAzureOpenAI, vertex: AsyncAnthropicVertex) -> None:
    chat: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello."}]
    claude: list[MessageParam] = [{"role": "user", "content": "Hello."}]
    openai = wrap(AsyncOpenAI(), plan)
    assert_type(openai, AsyncOpenAI)
    assert_type(await openai.chat.completions.create(model="gpt-4o", messages=chat), ChatCompletion)
    assert_type(await openai.responses.create(model="gpt-4o", input="Hello."), Response)
    stream = wrap(OpenAI(), plan).chat.completions.create(model="gpt-4o", messages=chat, stream=True)
    assert_type(stream, Stream[ChatCompletionChunk])
    assert_type(wrap(azure, plan), AsyncAzureOpenAI)
    anthropic = wrap(AsyncAnthropic(), plan)
    assert_type(anthropic, AsyncAnthropic)
    assert_type(await anthropic.messages.create(model="claude", max_tokens=1, messages=claude), Message)
    assert_type(wrap(Anthropic(), plan), Anthropic)
    assert_type(wrap(vertex, plan), AsyncAnthropicVertex)
