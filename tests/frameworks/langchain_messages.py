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
