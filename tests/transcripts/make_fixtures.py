"""Write the fixtures anew: ``python tests/transcripts/make_fixtures.py``.

Claude Code and Codex write theirs in programs that need an account, and OpenHands needs a newer Python than this: here
their lines are written by hand, in the shapes that they write. What other frameworks write is written by them: see
``make_dumps.py``.
"""

import json
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
TASK = "Find out why the build fails."
ANSWER = "A comma is missing in a.py."
CLAUDE = "claude-opus-4-5-20251101"
GPT = "gpt-5.4"


def write_lines(name, lines):
    """Write a fixture of JSON lines."""
    (FIXTURES / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def at(seconds):
    """A date as logs write it."""
    return f"2026-01-05T10:{seconds // 60:02}:{seconds % 60:02}.000Z"


class ClaudeCode:
    """Lines of a session, each with what the program writes beside the message."""

    def __init__(self):
        self.lines = [{"type": "summary", "summary": "Build", "leafUuid": "none"}]
        self.clock = 0

    def add(self, kind, uuid, parent, message, **more):
        self.clock += 5
        here = {
            "sessionId": "5e55-10",
            "version": "2.1.39",
            "cwd": "/shop",
            "gitBranch": "main",
            "userType": "external",
        }
        named = {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": at(self.clock), "isSidechain": False}
        self.lines.append({**here, **named, "message": message, **more})

    def user(self, uuid, parent, content, **more):
        self.add("user", uuid, parent, {"role": "user", "content": content}, **more)

    def result(self, uuid, parent, call, content):
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        self.user(uuid, parent, [block], toolUseResult={"stdout": content})

    def assistant(self, uuid, parent, answer, block, output, **more):
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": 12_000,
            "output_tokens": output,
            "service_tier": "standard",
        }
        usage |= {"cache_creation_input_tokens": 600, "cache_creation": {"ephemeral_1h_input_tokens": 600}}
        message = {"id": answer, "type": "message", "role": "assistant", "model": CLAUDE, "content": [block]}
        self.add("assistant", uuid, parent, {**message, "stop_reason": None, "usage": usage}, requestId=answer, **more)


def call(name, path):
    """A call of a tool that reads a file."""
    return {"type": "tool_use", "id": name, "name": "Read", "input": {"path": path}}


def claude_code():
    """A session with blocks of one answer, a side chain, a branch that was left, and a summary of the program's own."""
    log = ClaudeCode()
    log.lines.append({"type": "file-history-snapshot", "messageId": "u1", "snapshot": {}, "isSnapshotUpdate": False})
    log.user("u0", None, "<local-command-caveat>Run by the user.</local-command-caveat>", isMeta=True)
    log.user("u1", "u0", TASK)
    log.assistant("a1", "u1", "msg_1", {"type": "thinking", "thinking": "Two files.", "signature": "c2lnbmVk"}, 2)
    log.assistant("a2", "a1", "msg_1", {"type": "text", "text": "I look at both files."}, 2)
    log.assistant("a3", "a2", "msg_1", call("toolu_1", "a.py"), 2)
    log.result("r1", "a3", "toolu_1", "print('a' 'b'")
    log.assistant("a4", "a3", "msg_1", call("toolu_2", "b.py"), 95)
    log.result("r2", "a4", "toolu_2", "import a")
    log.user("s1", None, "Count the files.", isSidechain=True, agentId="a1b2")
    log.assistant("s2", "s1", "msg_s", {"type": "text", "text": "Two."}, 5, isSidechain=True, agentId="a1b2")
    log.lines.append({"type": "system", "subtype": "turn_duration", "uuid": "x1", "parentUuid": "r2", "sessionId": "s"})
    log.assistant("b1", "x1", "msg_2", {"type": "text", "text": "I do not know."}, 8)
    log.user("b2", "b1", "Try harder.")
    log.assistant("b3", "b2", "msg_3", {"type": "text", "text": "No."}, 3)
    log.user("c0", "b1", "Look at line 1 again.")
    queued = {"type": "queued_command", "prompt": "Be quick.", "commandMode": "prompt"}
    here = {"sessionId": "5e55-10", "isSidechain": False, "timestamp": at(log.clock)}
    log.lines.append({"type": "attachment", "uuid": "c1", "parentUuid": "c0", "attachment": queued, **here})
    error = {"type": "text", "text": "API Error: 529"}
    log.assistant("c2", "c1", "msg_e", error, 0, isApiErrorMessage=True)
    log.assistant("c3", "c1", "msg_4", {"type": "text", "text": ANSWER}, 12)
    boundary = {"type": "system", "subtype": "compact_boundary", "uuid": "x2", "parentUuid": None, "sessionId": "s"}
    log.lines.append(
        {**boundary, "logicalParentUuid": "c3", "compactMetadata": {"trigger": "auto", "preTokens": 160_000}}
    )
    log.user("d1", "x2", "This session is being continued. Summary: a comma.", isCompactSummary=True)
    log.user("d2", "d1", "Mend it.")
    log.assistant("d3", "d2", "msg_5", {"type": "text", "text": "Mended."}, 7)
    write_lines("claude_code.jsonl", log.lines)
    here = {"session_id": "5e55-11", "parent_tool_use_id": None}
    model = {"type": "system", "subtype": "init", "cwd": "/shop", "tools": ["Read"], "model": CLAUDE}
    stream = [{**model, "uuid": "p0", **here}]
    for line in log.lines:
        if line.get("uuid") in ("u1", "a1", "a2", "a3", "r1", "a4", "r2", "s1", "s2", "c3"):
            side = {"parent_tool_use_id": "toolu_2"} if line["isSidechain"] else {}
            stream.append({"type": line["type"], "message": line["message"], "uuid": line["uuid"], **here, **side})
    stream.append({"type": "result", "subtype": "success", "result": ANSWER, "total_cost_usd": 0.01, **here})
    write_lines("claude_code_stream.jsonl", stream)


def codex():
    """A rollout with two calls at once, a custom tool, a turn that was taken back, and a compaction of its own."""
    lines = []

    def add(kind, payload):
        lines.append({"timestamp": at(len(lines)), "type": kind, "payload": payload})

    def said(role, text):
        kind = "output_text" if role == "assistant" else "input_text"
        add("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def billed(total, last):
        usage = [
            {
                "input_tokens": i,
                "cached_input_tokens": c,
                "output_tokens": o,
                "reasoning_output_tokens": 0,
                "total_tokens": i + o,
            }
            for i, c, o in (total, last)
        ]
        info = {"total_token_usage": usage[0], "last_token_usage": usage[1], "model_context_window": 258_400}
        add("event_msg", {"type": "token_count", "info": info, "rate_limits": None})

    meta = {
        "id": "019a-codex",
        "timestamp": at(0),
        "cwd": "/shop",
        "originator": "codex_cli_rs",
        "cli_version": "0.118.0",
    }
    add("session_meta", {**meta, "base_instructions": {"text": "You are Codex."}, "git": None})
    said("developer", "<permissions instructions>")
    said("user", "<environment_context/>")
    add("turn_context", {"cwd": "/shop", "model": GPT, "effort": "high"})
    said("user", TASK)
    add("event_msg", {"type": "user_message", "message": TASK})
    reasoning = {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "Z0FBQUFBQg=="}
    add("response_item", reasoning)
    for name in ("call_1", "call_2"):
        add(
            "response_item",
            {"type": "function_call", "name": "exec", "arguments": '{"cmd":"cat a.py"}', "call_id": name},
        )
    add("event_msg", {"type": "token_count", "info": None, "rate_limits": {}})
    billed((9_000, 2_048, 60), (9_000, 2_048, 60))
    for name in ("call_1", "call_2"):
        add("response_item", {"type": "function_call_output", "call_id": name, "output": "print('a' 'b'"})
    add("response_item", {"type": "ghost_snapshot", "ghost_commit": {"id": "g"}})
    patch = {"type": "custom_tool_call", "status": "completed", "call_id": "call_3", "name": "apply_patch"}
    add("response_item", {**patch, "input": "*** Begin Patch"})
    billed((18_500, 11_000, 100), (9_500, 8_952, 40))
    billed((18_500, 11_000, 100), (9_500, 8_952, 40))
    add("response_item", {"type": "custom_tool_call_output", "call_id": "call_3", "output": "Success."})
    said("assistant", ANSWER)
    billed((28_200, 20_400, 112), (9_700, 9_400, 12))
    said("user", "And now the tests.")
    said("assistant", "No.")
    add("event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    add("compacted", {"message": "", "replacement_history": []})
    write_lines("codex.jsonl", lines)
    early = [{"id": "early", "timestamp": at(0), "instructions": "Be brief.", "git": {}}, {"record_type": "state"}]
    early += [line["payload"] for line in lines if line["type"] == "response_item"][:6]
    write_lines("codex_early.jsonl", early)


TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
CHAT = [
    {"role": "user", "content": TASK},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "print('a' 'b'"},
]


def exchanges():
    """Batch files, and logs of requests with their answers."""
    batch = [
        {"custom_id": f"r{n}", "method": "POST", "url": url, "body": body}
        for n, (url, body) in enumerate(
            [
                ("/v1/chat/completions", {"model": GPT, "messages": CHAT, "tools": [TOOL]}),
                ("/v1/responses", {"model": GPT, "input": TASK, "instructions": "Be brief."}),
            ]
        )
    ]
    write_lines("openai_batch.jsonl", batch)
    params = {"model": CLAUDE, "max_tokens": 100, "messages": [{"role": "user", "content": TASK}]}
    write_lines("anthropic_batch.jsonl", [{"custom_id": "r0", "params": params}])
    done = {"id": "b", "custom_id": "r0", "response": {"status_code": 200, "body": {"choices": []}}, "error": None}
    write_lines("openai_batch_output.jsonl", [done, done])

    usage = {"prompt_tokens": 900, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 512}}
    answers = [{**CHAT[1], "refusal": None}, {"role": "assistant", "content": ANSWER, "refusal": None}]
    log = [
        {
            "timestamp": at(number),
            "request": {
                "url": "https://api.openai.com/v1/chat/completions",
                "body": {"model": GPT, "messages": messages},
            },
            "response": {
                "status": 200,
                "body": {"object": "chat.completion", "model": GPT, "choices": [{"message": answer}], "usage": usage},
            },
        }
        for number, (messages, answer) in enumerate(zip((CHAT[:1], CHAT), answers, strict=True))
    ]
    other = {"request": {"model": GPT, "input": "Hello"}, "response": {"object": "response", "output": []}}
    write_lines("exchanges.jsonl", [log[0], other, log[1]])

    message = {"id": "m", "type": "message", "role": "assistant", "model": CLAUDE, "stop_reason": "end_turn"}
    message |= {"content": [{"type": "text", "text": ANSWER}], "usage": {"input_tokens": 30, "output_tokens": 9}}
    body = {"model": CLAUDE, "max_tokens": 100, "system": "Be brief.", "messages": [{"role": "user", "content": TASK}]}
    write_lines("anthropic_exchange.json", [{"request": body, "response": message}])
    write_lines("anthropic_body.json", [body])

    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": ANSWER}]}}]}
    answer["usageMetadata"] = {"promptTokenCount": 40, "candidatesTokenCount": 8, "thoughtsTokenCount": 2}
    asked = {"contents": [{"role": "user", "parts": [{"text": TASK}]}], "systemInstruction": {"parts": [{"text": "x"}]}}
    write_lines("gemini_exchange.json", [{"request": asked, "response": {**answer, "modelVersion": "gemini-3.1-pro"}}])
    write_lines("gemini_body.json", [asked])

    spec = {"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}
    converse = {"messages": [{"role": "user", "content": [{"text": TASK}]}], "system": [{"text": "Be brief."}]}
    converse |= {"toolConfig": {"tools": [spec]}}
    said = {"output": {"message": {"role": "assistant", "content": [{"text": ANSWER}]}}}
    said["usage"] = {"inputTokens": 50, "outputTokens": 9, "cacheReadInputTokens": 0}
    name = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    invoked = {"schemaType": "ModelInvocationLog", "timestamp": at(1), "modelId": name, "operation": "Converse"}
    write_lines("bedrock_body.json", [{"modelId": name, **converse}])
    write_lines(
        "bedrock_log.jsonl", [{**invoked, "input": {"inputBodyJson": converse}, "output": {"outputBodyJson": said}}]
    )


def answered(name, calls, text=""):
    """A model's answer as LiteLLM gives it, with what each event of OpenHands' server repeats of it."""
    asked = [
        {"id": one, "type": "function", "function": {"name": tool, "arguments": json.dumps(args)}}
        for one, tool, args in calls
    ]
    usage = {"prompt_tokens": 900, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 700}}
    message = {"role": "assistant", "content": text, "tool_calls": asked or None}
    return {"id": name, "object": "chat.completion", "model": CLAUDE, "choices": [{"message": message}], "usage": usage}


def openhands():
    """What OpenHands' server keeps of a conversation, and what its SDK keeps."""
    tool = {
        "type": "function",
        "function": {"name": "execute_bash", "description": "Run.", "parameters": {"type": "object"}},
    }
    calls = [(f"toolu_0{n}", "execute_bash", {"command": f"cat {name}"}) for n, name in enumerate(("a.py", "b.py"), 1)]
    first, last = (
        answered("r1", calls, "I look."),
        answered("r2", [("toolu_03", "finish", {"message": ANSWER})], ANSWER),
    )
    events = [
        {"source": "agent", "action": "system", "args": {"content": "You mend software.", "tools": [tool]}},
        {
            "source": "user",
            "action": "message",
            "args": {"content": TASK, "image_urls": None, "wait_for_response": False},
        },
        {"source": "user", "action": "recall", "args": {"recall_type": "workspace_context", "query": TASK}},
        {
            "source": "environment",
            "observation": "recall",
            "content": "Added workspace context",
            "cause": 2,
            "extras": {},
        },
        {
            "source": "environment",
            "observation": "agent_state_changed",
            "content": "",
            "extras": {"agent_state": "running"},
        },
    ]
    for call, name, args in calls:
        about = {"function_name": name, "tool_call_id": call, "model_response": first, "total_calls_in_response": 2}
        events.append(
            {"source": "agent", "action": "run", "args": {**args, "thought": ""}, "tool_call_metadata": about}
        )
    for place, (call, name, args) in enumerate(calls):
        about = {"function_name": name, "tool_call_id": call, "model_response": first, "total_calls_in_response": 2}
        said = {"source": "agent", "observation": "run", "content": f"import {args['command']}", "extras": args}
        events.append({**said, "cause": 5 + place, "tool_call_metadata": about})
    about = {
        "function_name": "finish",
        "tool_call_id": "toolu_03",
        "model_response": last,
        "total_calls_in_response": 1,
    }
    done = {"final_thought": ANSWER, "outputs": {}}
    events.append({"source": "agent", "action": "finish", "args": done, "tool_call_metadata": about})
    numbered = [{"id": n, "timestamp": at(n).removesuffix("Z"), **event} for n, event in enumerate(events)]
    (FIXTURES / "openhands_trajectory.json").write_text(json.dumps(numbered), encoding="utf-8")
    write_lines(
        "openhands_output.jsonl", [{"instance_id": "django-1", "metadata": {}, "history": numbered, "metrics": {}}] * 2
    )

    text = [{"type": "text", "text": TASK, "cache_prompt": False}]
    sdk = [
        {
            "kind": "SystemPromptEvent",
            "source": "agent",
            "system_prompt": {"type": "text", "text": "x"},
            "tools": [tool],
        }
    ]
    sdk.append({"kind": "MessageEvent", "source": "user", "llm_message": {"role": "user", "content": text}})
    thinking = [{"type": "thinking", "thinking": "Two files.", "signature": "c2lnbmVk"}]
    for number, (call, name, args) in enumerate(calls):
        asked = {"id": call, "name": name, "arguments": json.dumps(args), "origin": "completion"}
        event = {"kind": "ActionEvent", "source": "agent", "thought": [], "thinking_blocks": [] if number else thinking}
        about = {"tool_name": name, "tool_call_id": call, "tool_call": asked, "llm_response_id": "r1"}
        sdk.append({**event, "action": {"kind": "ExecuteBashAction", **args}, **about})
    for call, name, args in calls:
        output = {"kind": "ExecuteBashObservation", "content": [{"type": "text", "text": f"import {args['command']}"}]}
        about = {"tool_name": name, "tool_call_id": call, "action_id": call}
        sdk.append({"kind": "ObservationEvent", "source": "environment", "observation": output, **about})
    said = {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]}
    sdk.append({"kind": "MessageEvent", "source": "agent", "llm_message": said})
    write_lines("openhands_events.jsonl", [{"id": f"e{n}", "timestamp": at(n), **event} for n, event in enumerate(sdk)])


if __name__ == "__main__":
    FIXTURES.mkdir(exist_ok=True)
    claude_code()
    codex()
    exchanges()
    openhands()
