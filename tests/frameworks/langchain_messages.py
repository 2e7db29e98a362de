"""LangChain's messages of a history of Chat Completions, as its chat models make them."""

import json

from every_call import BROKEN
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage


def messages_of(history):
    """The messages; a call whose arguments are not JSON is among the ``invalid_tool_calls``."""
    made = []
    for each in history:
        if each["role"] == "user":
            made.append(HumanMessage(each["content"]))
        elif each["role"] == "tool":
            made.append(ToolMessage(each["content"], tool_call_id=each["tool_call_id"]))
        else:
            made.append(AIMessage(each["content"] or "", **_calls_of(each["tool_calls"])))
    return made


def _calls_of(calls):
    valid, invalid = [], []
    for call in calls:
        function = call["function"]
        named = {"id": call["id"], "name": function["name"]}
        if function["arguments"] == BROKEN:
            invalid.append({"type": "invalid_tool_call", **named, "args": BROKEN, "error": "no JSON"})
        else:
            valid.append({**named, "args": json.loads(function["arguments"])})
    return {"tool_calls": valid, "invalid_tool_calls": invalid}


def as_claude_makes_them(history):
    """The messages as ``ChatAnthropic`` makes them: a call stands in the content, too. It has none that is not JSON."""
    made = []
    for message in messages_of(history):
        if isinstance(message, AIMessage):
            broken = {"name": "read", "args": {"broken": BROKEN}}
            calls = [*message.tool_calls, *({**broken, "id": call["id"]} for call in message.invalid_tool_calls)]
            words = [{"type": "text", "text": message.content}] if message.content else []
            blocks = [{"type": "tool_use", "id": call["id"], "name": "read", "input": call["args"]} for call in calls]
            message = AIMessage([*words, *blocks], tool_calls=calls)  # noqa: PLW2901 - the same in Claude's way
        made.append(message)
    return made
