"""A long agent transcript that is made, not recorded: the same for the same seed, on every machine.

System, user, and then rounds of two messages: an assistant's tool call and its result, or (one round in twenty)
an assistant's answer and the user's next wish. Messages have 509 characters on average: many are short, a few are
long, and the results are a mix of source code, JSON, logs with hexadecimal ids and prose, at about three characters
a token. A transcript cut after any even number of messages is legal.

Run this file to see what it makes: ``python benchmarks/transcript.py --messages 10000``.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

AVERAGE_CHARACTERS = 509
"""Characters of content, tool names and arguments in a message, on average."""

VOCABULARY = """
agent answer append archive assert async await batch before branch budget buffer bytes cache call change check
client close commit config context count cursor decode default delete deploy digest edit encode entry error
event exact field file filter first fixed format frame graph group handle header history image import index
input insert item join key known label last layer limit line list load lock logger long loop match merge
message meter model module name native nested number offset open order output owner page pair parse part path
payload place plain pool prefix price process prompt query queue range read reason record region reply report
request reserve reset result return review role round route row rule sample scan schema scope search second
section seed send session shape share short signal slice source split stage start state step stop store stream
string summary table target task text thread token tool trace trigger tuple unit update usage user value view
wait walk window word worker write yield
"""
WORDS = tuple(VOCABULARY.split())
TOOLS = ("read_file", "search", "shell", "query_database", "fetch_page")


def prose(rng: random.Random) -> str:
    """One line of running text."""
    words = rng.choices(WORDS, k=rng.randint(8, 22))
    return " ".join(words).capitalize() + rng.choice((".", ".", "?", ":"))


def code(rng: random.Random) -> str:
    """One line of source code."""
    one, two, three = rng.choices(WORDS, k=3)
    return rng.choice(
        (
            f"    {one}_{two} = self._{three}({one}, {two}={rng.randint(0, 99)})",
            f"    if {one} is None or {two}.{three} >= {rng.randint(1, 4096)}:",
            f'        raise ValueError(f"{one}: expected a {two}, got {{{three}!r}}")',
            f"def {one}_{two}({three}: Sequence[{two.title()}], *, {one}: int = {rng.randint(0, 9)}) -> {one.title()}:",
            f"        return [{one}.{two} for {one} in {three} if {one}.{two} not in seen]",
        )
    )


def rows(rng: random.Random) -> str:
    """One line of JSON."""
    one, two, three = rng.choices(WORDS, k=3)
    row = {one: rng.randint(0, 100_000), f"{two}_id": f"{rng.getrandbits(48):012x}", three: rng.random() < 0.5}
    return json.dumps(row) + ","


def logs(rng: random.Random) -> str:
    """One line of a log with hexadecimal ids."""
    clock = (
        f"2026-11-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.random() * 60:09.6f}Z"
    )
    level = rng.choice(("INFO", "INFO", "DEBUG", "WARNING", "ERROR"))
    ids = f"trace={rng.getrandbits(64):016x} span={rng.getrandbits(32):08x}"
    return f"{clock} {level} {rng.choice(WORDS)}.{rng.choice(WORDS)} {ids} {rng.choice(WORDS)}={rng.randint(0, 9999)}"


KINDS: tuple[Callable[[random.Random], str], ...] = (prose, code, rows, logs, logs)


def text(rng: random.Random, kind: Callable[[random.Random], str], characters: int) -> str:
    """Lines of one kind, cut off at ``characters``."""
    lines: list[str] = []
    room = characters
    while room > 0:
        lines.append(kind(rng))
        room -= len(lines[-1]) + 1
    return "\n".join(lines)[:characters]


def tool_round(rng: random.Random, number: int) -> list[dict[str, Any]]:
    """An assistant's tool call and the tool's answer; answers are long now and then."""
    call_id = f"call_{number:06}_{rng.getrandbits(32):08x}"
    name = rng.choice(TOOLS)
    arguments = {"path": f"src/{rng.choice(WORDS)}/{rng.choice(WORDS)}.py", "query": " ".join(rng.choices(WORDS, k=4))}
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    size = min(int(rng.lognormvariate(6.32, 0.83)), 12_000) + 20
    return [
        {"role": "assistant", "content": text(rng, prose, rng.randint(60, 240)), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": text(rng, rng.choice(KINDS), size)},
    ]


def talk_round(rng: random.Random) -> list[dict[str, Any]]:
    """An assistant's answer and what the user wants next."""
    return [
        {"role": "assistant", "content": text(rng, prose, rng.randint(200, 900))},
        {"role": "user", "content": text(rng, prose, rng.randint(60, 400))},
    ]


def messages(seed: int = 0) -> Iterator[dict[str, Any]]:
    """The transcript without an end, in the shape of OpenAI's chat completions."""
    rng = random.Random(seed)  # noqa: S311 - the same numbers every time are the point
    yield {"role": "system", "content": text(rng, prose, 1_800)}
    yield {"role": "user", "content": text(rng, prose, 500)}
    for number in range(10**9):
        yield from talk_round(rng) if number % 20 == 19 else tool_round(rng, number)


def transcript(length: int, seed: int = 0) -> list[dict[str, Any]]:
    """The first ``length`` messages; those of a longer transcript with the same seed begin with them."""
    return list(islice(messages(seed), length))


def blob(characters: int, seed: int = 0) -> str:
    """One text of ``characters`` characters: stretches of source code, JSON, logs and prose."""
    rng = random.Random(seed)  # noqa: S311 - the same numbers every time are the point
    pieces: list[str] = []
    room = characters
    while room > 0:
        pieces.append(text(rng, KINDS[len(pieces) % len(KINDS)], min(room, 20_000)))
        room -= len(pieces[-1]) + 1
    return "\n".join(pieces)[:characters]


def characters(message: dict[str, Any]) -> int:
    """Characters of content, tool names and arguments of a message."""
    calls = (call["function"] for call in message.get("tool_calls", ()))
    return len(message["content"]) + sum(len(call["name"]) + len(call["arguments"]) for call in calls)


def main() -> None:
    """Print what a transcript is like, or the transcript itself as JSON lines."""
    parser = argparse.ArgumentParser(description="Make a long agent transcript.")
    parser.add_argument("--messages", type=int, default=10_000, help="how many (default 10,000)")
    parser.add_argument("--seed", type=int, default=0, help="another number, another transcript (default 0)")
    parser.add_argument("--write", action="store_true", help="print the messages, one JSON object a line")
    args = parser.parse_args()
    made = transcript(args.messages, args.seed)
    if args.write:
        for message in made:
            print(json.dumps(message))
        return
    sizes = sorted(map(characters, made))
    print(f"{len(made):,} messages, {sum(sizes):,} characters, {sum(sizes) / len(sizes):.0f} on average,")
    half, tenth = sizes[len(sizes) // 2], sizes[len(sizes) * 9 // 10]
    print(f"half below {half:,}, one in ten above {tenth:,}, longest {sizes[-1]:,}")


if __name__ == "__main__":
    main()
