"""What a call of a wrapped client costs, beside reading and writing the JSON of its body once.

A wrapped client reads the body that the SDK has written, prepares it, and writes it anew if it has changed. The
processor time of a call is compared with that of the same call unwrapped. The provider answers from within this
process, and the request is posted as it is: `chat.completions.create` walks the whole body first, for some forty times
as long as its JSON takes, and the differences would drown in it::

    python benchmarks/wrapped.py            # half a minute
    python benchmarks/wrapped.py --quick    # fewer repeats
    python benchmarks/wrapped.py --json     # for machines
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from statistics import median
from time import process_time

import httpx2
import openai
from rows import Row, as_json, show

import agentctx

ROUNDS = 200
ANSWER = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}


def request() -> dict[str, object]:
    """Return a request of 480 kB: 200 calls, each with a result of 2,400 characters."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Read all."}]
    for number in range(ROUNDS):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append(
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"line {number} of a file, " * 115}
        )
    return {"model": "gpt-4o", "messages": messages}


def call(given: openai.OpenAI, body: dict[str, object]) -> object:
    """Send the request through a client, and return its answer."""
    return given.post("/chat/completions", body=body, cast_to=openai.types.chat.ChatCompletion)


def client() -> openai.OpenAI:
    """Return a client whose provider answers from within this process."""
    transport = httpx2.MockTransport(lambda _request: httpx2.Response(200, json=ANSWER))
    return openai.OpenAI(api_key="none", http_client=openai.DefaultHttpxClient(transport=transport))


def seconds(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the processor time of each work, the median of its repeats; they take turns."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(repeats + 2):
        for name, work in works.items():
            began = process_time()
            work()
            if number > 1:  # the first ones load what all of them need
                times[name].append(process_time() - began)
    return {name: median(measured) for name, measured in times.items()}


def rows(repeats: int) -> list[Row]:
    """Return the rows: a call in a session, and one that belongs to no conversation."""
    body, pipeline = request(), agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(200_000))
    written = json.dumps(body)
    in_session = agentctx.wrap(client(), pipeline, session=pipeline.session(model="gpt-4o"))
    alone = agentctx.wrap(client(), pipeline)
    plain = client()
    took = seconds(
        {
            "json": lambda: json.dumps(json.loads(written)),
            "plain": lambda: call(plain, body),
            "in a session": lambda: call(in_session, body),
            "alone": lambda: call(alone, body),
        },
        repeats,
    )
    how = f"{len(written):,} bytes, medians of {repeats} calls"
    what = "a call {} - the same call unwrapped / json.loads and json.dumps of its body"
    more = {name: (took[name] - took["plain"]) / took["json"] for name in ("in a session", "alone")}
    return [
        Row(what.format("in a session"), more["in a session"], 2.5, how=how),
        Row(what.format("of no conversation"), more["alone"], None, how=how),
    ]


def main() -> int:
    """Print the table; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--json", action="store_true", help="for machines")
    options = parser.parse_args()
    table = rows(3 if options.quick else 40)
    if options.json:
        print(as_json(table))
    else:
        show(table, "A call of a wrapped client")
    return int(not all(row.ok for row in table))


if __name__ == "__main__":
    sys.exit(main())
