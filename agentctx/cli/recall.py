"""``agentctx recall``: what a conversation left out, by its handle or by words in it."""

from __future__ import annotations

import sys
from base64 import b64encode
from typing import Annotated, Any

import typer

from agentctx.cli import options
from agentctx.cli.console import in_one_line, print_json
from agentctx.cli.open_store import CipherNamed, Namespace, StorePlace, with_store
from agentctx.engine.originals import text_of
from agentctx.errors import ConfigError, StoreError
from agentctx.memory import Recall
from agentctx.printable import printable
from agentctx.stores.store import ConversationStore

Handle = Annotated[
    str | None,
    typer.Argument(metavar="[HANDLE]", show_default=False, help="The handle, or how it begins; #2: its second result."),
]
Search = Annotated[
    str | None,
    typer.Option(metavar="WORDS", show_default=False, help="Find words in what was left out, or in what HANDLE names."),
]
Conversation = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="all", help="Only what this conversation has left out."),
]
AsText = Annotated[bool, typer.Option("--text", help="As the model is shown it: of a message, what it says.")]

_MOST_TOKENS = 20_000
_FEWEST = 4
_NAMED = 4


@in_one_line
def recall(
    handle: Handle = None,
    *,
    search: Search = None,
    conversation: Conversation = None,
    text: AsText = False,
    store: StorePlace = None,
    namespace: Namespace = None,
    cipher: CipherNamed = None,
    json: options.Json = False,
) -> None:
    """Print what was left out of a request: the bytes under a handle as they are, or where words stand in it.

    A terminal is shown the text, without what it would obey; files and pipes get the bytes.

    [bold]Examples[/bold]

      agentctx recall c18f975f065f9fae --store context.db > log.txt

      agentctx recall --search "port 8080" --conversation thread-42 --store redis://localhost:6379/0
    """
    if handle is None and search is None:
        msg = "what is wanted? pass a HANDLE, or --search WORDS"
        raise ConfigError(msg)
    if search is not None and not search.strip():
        msg = "--search: expected WORDS to find, got none"
        raise ConfigError(msg)
    if search is not None:
        wanted = handle, search
        answer = with_store(store, namespace, lambda opened: _searched(opened, conversation, *wanted), cipher)
        _tell(answer, {"handle": handle, "conversation": conversation, "search": search, "answer": answer}, json=json)
        return
    asked, _, part = (handle or "").partition("#")
    name, content = with_store(store, namespace, lambda opened: _content(opened, conversation, asked), cipher)
    if json:
        print_json(content_json(name, content))
    elif text or part not in ("", "0"):
        _tell(text_of(content, part), {}, json=False)
    elif sys.stdout.isatty():  # bytes that a tool has said are for files and pipes: a terminal would obey them
        _tell(text_of(content, "0"), {}, json=False)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def content_json(handle: str, content: bytes) -> dict[str, Any]:
    """A content for machines: as text, or in base64 where it is none."""
    said: dict[str, Any] = {"handle": handle, "bytes": len(content)}
    try:
        return said | {"text": content.decode()}
    except UnicodeDecodeError:
        return said | {"base64": b64encode(content).decode()}


def _tell(text: str, told: dict[str, Any], *, json: bool) -> None:
    if json:
        print_json(told)
        return
    typer.echo(printable(text) if sys.stdout.isatty() else text)


async def _content(store: ConversationStore, conversation: str | None, handle: str) -> tuple[str, bytes]:
    """The whole handle, and what is under it."""
    own = store if conversation is None else store.for_conversation(conversation)
    name = await _whole(store, conversation, handle)
    return name, await own.get(name)


async def _whole(store: ConversationStore, conversation: str | None, begins: str) -> str:
    """The one handle that begins so.

    Raises:
        StoreError: If there is none, or more than one.
    """
    own = store if conversation is None else store.for_conversation(conversation)
    handles = await own.handles()
    if begins in handles:
        return begins
    found = [each for each in handles if each.startswith(begins.lower())] if len(begins) >= _FEWEST else []
    if len(found) > 1:
        some = ", ".join(found[:_NAMED]) + (", ..." if len(found) > _NAMED else "")
        msg = f"handle {begins!r} is the beginning of {len(found):,}: {some}"
        raise StoreError(msg)
    if not found:
        short = "" if len(begins) >= _FEWEST else f"; at least {_FEWEST} characters of one are needed"
        whose = "" if conversation is None else f" by conversation {conversation!r:.200}"
        msg = f"nothing is kept{whose} under handle {begins!r:.200}{short}"
        raise StoreError(msg)
    return found[0]


async def _searched(store: ConversationStore, conversation: str | None, handle: str | None, words: str) -> str:
    """What the recall tool answers."""
    if handle is not None:
        bare, hash_sign, part = handle.partition("#")
        handle = await _whole(store, conversation, bare) + hash_sign + part
    elif conversation is None and len(names := await store.conversations()) > 1:
        msg = f"{len(names):,} conversations share this store: pass --conversation NAME"
        raise ConfigError(msg)
    elif conversation is not None and not await store.for_conversation(conversation).handles():
        msg = f"conversation {conversation!r:.200} has left nothing out"
        raise StoreError(msg)
    asked = {"search": words} if handle is None else {"search": words, "handle": handle}
    return await Recall(store, max_tokens=_MOST_TOKENS, conversation=conversation)(asked)
