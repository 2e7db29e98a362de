"""Conversations for wrapped clients, in each provider's shape."""

FILLER = "The quick brown fox jumps over the lazy dog. " * 12


def chat(rounds, mark=""):
    """A conversation of so many rounds in OpenAI's Chat shape; ``mark`` stands in every message of the user."""
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Begin. {mark}"}]
    for number in range(rounds):
        messages.append({"role": "assistant", "content": f"Answer {number}. {FILLER}"})
        messages.append({"role": "user", "content": f"Question {number}? {mark}"})
    return messages


def items(rounds, mark=""):
    """The same as items of OpenAI's Responses, without the system prompt."""
    return chat(rounds, mark)[1:]


def claude(rounds, mark=""):
    """The same for Anthropic's Messages, without the system prompt."""
    return chat(rounds, mark)[1:]


def gemini(rounds, mark=""):
    """The same as Gemini's contents, without the system prompt."""
    roles = {"user": "user", "assistant": "model"}
    return [
        {"role": roles[message["role"]], "parts": [{"text": message["content"]}]} for message in chat(rounds, mark)[1:]
    ]


def converse(rounds, mark=""):
    """The same for Bedrock's Converse, without the system prompt."""
    return [{"role": message["role"], "content": [{"text": message["content"]}]} for message in chat(rounds, mark)[1:]]
