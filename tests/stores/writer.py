"""A process that writes to a SQLite store until it is killed, and tells each record that was acknowledged.

Run as ``writer.py PATH NUMBER``: a record is a content, a batch of messages and a piece of a state.
"""

import hashlib
import os
import sys

import anyio

from agentctx.errors import StoreConflict
from agentctx.stores import SQLiteStore


def record(number, turn):
    """Three messages that belong together, each with a sum over what it says."""
    text = f"{number}:{turn} " * 200
    return [{"n": number, "turn": turn, "part": part, "text": text, "sum": sum_of(text)} for part in range(3)]


def sum_of(text):
    """The sum over a text."""
    return hashlib.sha256(text.encode()).hexdigest()


async def write(path, number):
    """Write on and on: to a conversation that all share, and to one of its own."""
    store, turn = SQLiteStore(path, timeout=60), 0
    state = await store.load_state(f"own-{number}")
    version = state.version
    while True:
        handle = await store.for_conversation("shared").put(record(number, turn)[0]["text"].encode())
        await store.append("shared", record(number, turn), None)
        try:
            pieces = {"turn": str(turn).encode(), "text": b"x" * 5_000, f"turn/{turn - 3}": None, f"turn/{turn}": b"y"}
            version = await store.save_state(f"own-{number}", pieces, version)
        except StoreConflict as error:
            sys.exit(f"nobody else writes here: {error}")
        os.write(1, f"{number} {turn} {handle}\n".encode())
        turn += 1


if __name__ == "__main__":
    anyio.run(write, sys.argv[1], int(sys.argv[2]))
