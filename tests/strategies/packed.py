"""A small agent's transcript, packed: what the tests of packing share."""

from agentctx import Budget, Pipeline
from agentctx.testing import assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter


def agent(rounds, outputs=None, last="and now?"):
    """A task, rounds that read, and a last question; in fixed tokens each message costs ten."""
    turns = [system("be brief"), user("the task")]
    for number in range(rounds):
        text = (outputs or {}).get(number, f"found {number}")
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", text)]
    return transcript("openai-chat", *turns, *([user(last)] if last else []))


def answered(view):
    """The ids of the results that are sent."""
    return [message["tool_call_id"] for message in view.messages if message["role"] == "tool"]


def asked(view):
    """The ids of the calls that are sent."""
    return [each["id"] for message in view.messages for each in message.get("tool_calls", ())]


async def packed(stage, messages, tokens, **options):
    """The view in so many tokens, ten a message unless another counter is given."""
    pipeline = Pipeline(stage, budget=Budget(tokens), **{"counter": FixedCounter(10), **options})
    return await pipeline.prepare(messages, format="openai-chat")
