"""``agentctx store`` and ``agentctx recall``: what a store has of each conversation, given back or taken away.

The store is a SQLite file, or at a Redis or a PostgreSQL URL; these commands open it and never make one.
"""

from __future__ import annotations

import re
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import anyio
import typer
from attrs import asdict, frozen
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx import stores
from agentctx.characters import calendar_time, on_one_line, printable
from agentctx.cli import options
from agentctx.cli.console import FOUND, err, fail, in_one_line, print_json, printing, to_json
from agentctx.cli.options import parse_limit
from agentctx.engine.originals import text_of
from agentctx.errors import ConfigError, StoreError, StoreUnavailable
from agentctx.recall import Recall
from agentctx.stores.store import Cipher, ConversationStore, Stored, is_below
from agentctx.users_code import called, imported

T = TypeVar("T")

StorePlace = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PATH_OR_URL",
        envvar="AGENTCTX_STORE",
        show_default=False,
        help="A SQLite file, redis://HOST:PORT/DB, or postgresql://USER@HOST/DATABASE.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        show_default="agentctx",
        help="The prefix of the store in Redis, or its schema in PostgreSQL.",
    ),
]

CipherNamed = Annotated[
    str | None,
    typer.Option(
        "--cipher",
        metavar="MODULE:NAME",
        envvar="AGENTCTX_CIPHER",
        show_default=False,
        help="What decrypts the store: an object with encrypt and decrypt, or a function that makes one.",
    ),
]

Limit = Annotated[
    str | None,
    typer.Option(metavar="N", show_default="50, with --json off", help="Name at most so many; or off."),
]
Unowned = Annotated[bool, typer.Option("--unowned", help="Contents that were put for no conversation.")]

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

_LIMIT = 50
_WIDTH = 60
_MOST_TOKENS = 20_000
_FEWEST = 4
_NAMED = 4

store_app = typer.Typer(no_args_is_help=True, help="See what a store keeps of each conversation, and delete it.")


@in_one_line
def ls(
    *,
    store: StorePlace = None,
    namespace: Namespace = None,
    limit: Limit = None,
    json: options.Json = False,
) -> None:
    """Name the conversations of a store, the largest first.

    [bold]Examples[/bold]

      agentctx store ls --store context.db

      AGENTCTX_STORE=redis://localhost:6379/0 agentctx store ls --json
    """
    most = _most(limit, json=json)
    found = _with_store(store, namespace, lambda opened: opened.stored())
    found.sort(key=lambda each: (-each.bytes, each.name or ""))
    named = found[:most]
    if json:
        for each in named:
            print_json(asdict(each))
    else:
        with printing() as console:
            console.print(_table(named) if found else "the store is empty")
    _tell_rest(len(found) - len(named))


@in_one_line
def stats(*, store: StorePlace = None, namespace: Namespace = None, json: options.Json = False) -> None:
    """Say how much a store keeps.

    [bold]Examples[/bold]

      agentctx store stats --store context.db
    """
    found = _with_store(store, namespace, lambda opened: opened.stored())
    named = [each for each in found if each.name is not None]
    told = {
        "conversations": len(named),
        "bytes": sum(each.bytes for each in found),
        "histories": sum(each.history is not None for each in named),
        "states": sum(each.state is not None for each in named),
        "contents": sum(each.contents for each in named),
        "unowned_contents": sum(each.contents for each in found if each.name is None),
        "largest": max((each.bytes for each in named), default=0),
        "first_expires": min((each.expires for each in found if each.expires is not None), default=None),
    }
    if json:
        print_json(told)
        return
    with printing() as console:
        _print_stats(console, told)


@in_one_line
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The conversation.")],
    *,
    content: Annotated[bool, typer.Option("--content", help="Print messages and contents, too.")] = False,
    store: StorePlace = None,
    namespace: Namespace = None,
    cipher: CipherNamed = None,
    limit: Limit = None,
    json: options.Json = False,
) -> None:
    """Show what is kept of one conversation: history, state, and the handles of what was left out.

    What was said is printed with --content only.

    [bold]Examples[/bold]

      agentctx store show thread-42 --store context.db
    """
    most = _most(limit, json=json)
    kept = _with_store(store, namespace, lambda opened: _kept(opened, name, most), cipher)
    if json:
        print_json(kept.to_json(content=content))
    else:
        with printing() as console:
            _print_kept(console, kept, content=content)
    _tell_rest(kept.stored.contents - len(kept.contents))


@in_one_line
def purge(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False, help="The conversations.")
    ] = None,
    *,
    unowned: Unowned = False,
    expired: Annotated[bool, typer.Option("--expired", help="All that has expired.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: StorePlace = None,
    namespace: Namespace = None,
    json: options.Json = False,
) -> None:
    """Delete all that a store has of conversations: history, state, and contents that no other has left out.

    What it has of their sub-agents, as of thread-42/1, is deleted with it.

    [bold]Examples[/bold]

      agentctx store purge thread-42 --store context.db

      agentctx store purge --expired --yes --store context.db
    """
    wanted = [*dict.fromkeys(names or ()), *([None] if unowned else [])]
    if not wanted and not expired:
        msg = "what is to be deleted? pass a NAME, --unowned or --expired"
        raise ConfigError(msg)
    there = _with_store(store, namespace, lambda opened: _found(opened, wanted, below=True))
    if not yes and (there or expired):
        _ask(there, expired=expired)
    told = _with_store(store, namespace, lambda opened: _purged(opened, wanted, there, expired=expired))
    if json:
        print_json(told)
        return
    parts = [_conversations(told["conversations"])] if told["conversations"] else []
    parts += ["unowned contents"] if unowned else []
    parts += [f"{told['expired']:,} that had expired"] if expired else []
    typer.echo(f"deleted {' and '.join(parts) or 'nothing'}: {told['bytes']:,} bytes")


for command in (ls, show, purge, stats):
    store_app.command(no_args_is_help=command in (show, purge))(command)


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
        msg = "--search: must be words to find, got none"
        raise ConfigError(msg)
    if search is not None:
        wanted = handle, search
        answer = _with_store(store, namespace, lambda opened: _searched(opened, conversation, *wanted), cipher)
        if json:
            print_json({"handle": handle, "conversation": conversation, "search": search, "answer": answer})
        else:
            _say(answer)
        return
    asked, _, part = (handle or "").partition("#")
    name, content = _with_store(store, namespace, lambda opened: _content(opened, conversation, asked), cipher)
    if json:
        print_json(_content_json(name, content))
    elif text or part not in ("", "0"):
        _say(text_of(content, part))
    elif sys.stdout.isatty():  # bytes that a tool has said are for files and pipes: a terminal would obey them
        _say(text_of(content, "0"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _most(limit: str | None, *, json: bool) -> int | None:
    if limit is None:
        return None if json else _LIMIT
    return parse_limit("--limit", limit)


def _tell_rest(left: int) -> None:
    if left > 0:
        err().print(f"note: {left:,} more: --limit {_LIMIT * 10} or --limit off names them", style="dim")


def _table(found: Sequence[Stored]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    table.add_column("conversation", overflow="fold")
    for title in ("bytes", "left out", "history", "state", "expires"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in found:
        versions = (_written(each.history), _written(each.state))
        name = Text("(unowned)", style="dim") if each.name is None else Text(on_one_line(each.name, _WIDTH))
        table.add_row(name, f"{each.bytes:,}", f"{each.contents:,}", *versions, _time(each.expires))
    return table


def _written(version: int | None) -> str:
    """When a document was written: its version is the microsecond, nearly."""
    return "-" if version is None else _time(version / 1e6)


def _time(expires: float | None) -> str:
    if expires is None:
        return "never"
    return f"{calendar_time(expires):%Y-%m-%d %H:%M} UTC"


def _print_stats(console: Console, told: dict[str, Any]) -> None:
    contents = f"{told['contents']:,}, one that several conversations left out counted for each"
    rows = {
        "conversations": f"{told['conversations']:,}, the largest of {told['largest']:,} bytes",
        "bytes": f"{told['bytes']:,}",
        "histories": f"{told['histories']:,}",
        "states": f"{told['states']:,}",
        "left out": contents + (f"; {told['unowned_contents']:,} unowned" if told["unowned_contents"] else ""),
        "expires first": _time(told["first_expires"]),
    }
    for name, value in rows.items():
        console.print(Text(f"{name:<14} ", style="dim").append(value, style="not dim"))


@frozen
class _Kept:
    """What a store has of one conversation.

    Args:
        stored: How much.
        messages: The messages of its history; None where they cannot be read.
        pieces: The bytes of each piece of its session's state; None where they cannot be read.
        contents: What it has left out, by handle; None for what cannot be read.
        why: What says why something cannot be read.
    """

    stored: Stored
    messages: Sequence[Any] | None
    pieces: dict[str, int] | None
    contents: dict[str, bytes | None]
    why: str | None

    def to_json(self, *, content: bool) -> dict[str, Any]:
        """For machines; what was said only with ``content``."""
        return {
            **asdict(self.stored),
            "messages": None if self.messages is None else (self.messages if content else len(self.messages)),
            "pieces": self.pieces,
            "handles": [
                _content_json(handle, kept)
                if content and kept is not None
                else {"handle": handle, "bytes": None if kept is None else len(kept)}
                for handle, kept in self.contents.items()
            ],
            "unreadable": self.why,
        }


async def _kept(store: ConversationStore, name: str, most: int | None) -> _Kept:
    (stored,) = await _found(store, [name])
    own = store.for_conversation(name)
    why: list[str] = []
    history = await _or_none(store.load(name), why) if stored.history is not None else None
    state = await _or_none(store.load_state(name), why) if stored.state is not None else None
    handles = (await own.handles())[:most]
    return _Kept(
        stored,
        None if history is None else history.messages,
        None if state is None else {piece: len(body) for piece, body in state.pieces.items()},
        {handle: await _or_none(own.get(handle), why) for handle in handles},
        why[0] if why else None,
    )


async def _or_none(asked: Awaitable[T], why: list[str]) -> T | None:
    """What a store has; None where it cannot be read, as what is encrypted."""
    try:
        return await asked
    except StoreUnavailable:
        raise
    except StoreError as error:
        why.append(str(error))
        return None


async def _found(store: ConversationStore, wanted: Sequence[str | None], *, below: bool = False) -> list[Stored]:
    """What a store has of these.

    Args:
        store: The store.
        wanted: The conversations.
        below: What it has of their sub-agents, too.

    Raises:
        StoreError: If it has nothing of one that is named.
    """
    stored, found = await store.stored() if wanted else [], dict[str | None, Stored]()
    for name in wanted:
        there = [each for each in stored if each.name == name or (below and is_below(each.name, name))]
        if name is not None and not there:
            msg = f"the store has nothing of conversation {name!r:.200}; agentctx store ls names what it has"
            raise StoreError(msg)
        found |= {each.name: each for each in there}
    return list(found.values())


def _print_kept(console: Console, kept: _Kept, *, content: bool) -> None:
    stored = kept.stored
    head = Text(on_one_line(stored.name or "", _WIDTH), style="bold")
    console.print(head.append(f"  {stored.bytes:,} bytes, expires {_time(stored.expires)}", style="not bold dim"))
    console.print(f"history    {_history(kept)}")
    console.print(f"state      {_state(kept)}")
    console.print(f"left out   {stored.contents:,}")
    if kept.why is not None:
        console.print(Text(printable(kept.why), style="yellow"))
    for handle, body in kept.contents.items():
        console.print(f"  {handle}  {'?' if body is None else f'{len(body):,}':>12} bytes")
        if content and body is not None:
            console.print(printable(text_of(body)))
    for message in (kept.messages or ()) if content else ():
        console.print(printable(to_json(message).decode()))


def _history(kept: _Kept) -> str:
    if kept.stored.history is None:
        return "none"
    written = f"written {_written(kept.stored.history)}"
    if kept.messages is None:
        return written
    roles = Counter(str(each.get("role") or each.get("type")) for each in kept.messages if isinstance(each, dict))
    said = ", ".join(f"{count:,} {on_one_line(role, 20)}" for role, count in sorted(roles.items()))
    several = "" if len(kept.messages) == 1 else "s"
    return f"{written}, {len(kept.messages):,} message{several}" + (f": {said}" if said else "")


def _state(kept: _Kept) -> str:
    if kept.stored.state is None:
        return "none"
    written = f"written {_written(kept.stored.state)}"
    if kept.pieces is None:
        return written
    return f"{written}, {len(kept.pieces):,} pieces, {sum(kept.pieces.values()):,} bytes"


def _ask(there: Sequence[Stored], *, expired: bool) -> None:
    """Ask whether to delete; end the command where the answer is no."""
    named = [on_one_line(each.name, _WIDTH) for each in there if each.name is not None]
    some = ", ".join(map(repr, named[:_NAMED])) + (", ..." if len(named) > _NAMED else "")
    what = [some if len(named) == 1 else f"{_conversations(len(named))} ({some})"] if named else []
    what += ["unowned contents"] if len(named) < len(there) else []
    what += ["all that has expired"] if expired else []
    size = f" ({sum(each.bytes for each in there):,} bytes)" if there else ""
    try:
        sure = _confirmed(f"Delete {' and '.join(what)}{size}?")
    except (EOFError, KeyboardInterrupt):
        err().print()
        fail("nothing was deleted: nobody answered; --yes deletes without asking")
    if not sure:
        fail("nothing was deleted", FOUND)


def _confirmed(question: str) -> bool:
    """What the user says to a question; nothing of it is on stdout, where ``typer.confirm`` leaves a blank.

    Raises:
        EOFError: If nobody answers.
    """
    while True:
        typer.echo(f"{question} [y/N]: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        answer = line.strip().lower()
        if answer in {"", "n", "no", "y", "yes"}:
            return answer in {"y", "yes"}
        typer.echo("answer y or n", err=True)


def _conversations(number: int) -> str:
    return f"{number:,} conversation{'' if number == 1 else 's'}"


async def _purged(
    store: ConversationStore, wanted: Sequence[str | None], there: Sequence[Stored], *, expired: bool
) -> dict[str, int]:
    freed = [await store.purge(name) for name in wanted]
    swept = await store.sweep() if expired else 0
    conversations = sum(each.name is not None for each in there)
    return {"conversations": conversations, "bytes": sum(freed), "expired": swept}


def _say(text: str) -> None:
    typer.echo(printable(text) if sys.stdout.isatty() else text)


def _content_json(handle: str, content: bytes) -> dict[str, Any]:
    """A content for machines: as text, or in base64 where it is none."""
    said: dict[str, Any] = {"handle": handle, "bytes": len(content)}
    try:
        return said | {"text": content.decode()}
    except UnicodeDecodeError:
        return said | {"base64": b64encode(content).decode()}


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


def _with_store(
    place: str | None,
    namespace: str | None,
    work: Callable[[ConversationStore], Awaitable[T]],
    cipher: str | None = None,
) -> T:
    """Open the store that is meant, work with it, and close it.

    Raises:
        ConfigError: If no store is named, or it cannot be one, or the cipher is none.
        StoreError: If there is no store, or it fails. No error has a password in it.
    """
    if not place:
        msg = "which store? pass --store PATH_OR_URL, or set AGENTCTX_STORE"
        raise ConfigError(msg)
    return anyio.run(partial(_work, place, namespace, work, None if cipher is None else _cipher(cipher)))


async def _work(
    place: str, namespace: str | None, work: Callable[[ConversationStore], Awaitable[T]], cipher: Cipher | None
) -> T:
    try:
        async with store_at(place, namespace) as store:
            store.cipher = cipher
            return await work(store)
    except StoreError as error:
        said = str(error)  # a driver may quote the URL, with the password in it
        found = re.search(r"//[^/@]*:([^/@]+)@", place)
        for secret in (place, *(() if found is None else (found[1],))) if _URL.fullmatch(place) else ():
            said = said.replace(secret, "***")
        raise StoreError(said) from error


def _cipher(named: str) -> Cipher:
    """The cipher of that name.

    Raises:
        ConfigError: If there is none.
    """
    found = imported(named, "--cipher")
    if isinstance(found, type) or (callable(found) and not isinstance(found, Cipher)):
        found = called(found, named, "--cipher")
    if not isinstance(found, Cipher):
        msg = f"--cipher {named}: must be an object with encrypt and decrypt, got {type(found).__name__}"
        raise ConfigError(msg)
    return found


_TIMEOUT = 30.0
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_REDIS = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}
_POSTGRES = frozenset({"postgres", "postgresql"})


def store_at(
    place: str, namespace: str | None = None, *, create: bool = False, ttl: float | None = None
) -> ConversationStore:
    """The store at a path or a URL.

    Args:
        place: The path or the URL.
        namespace: The prefix in Redis, or the schema in PostgreSQL.
        create: Whether to make one where none is.
        ttl: Seconds that a conversation stays after it was written to last.

    Raises:
        ConfigError: If it cannot be one.
    """
    url = _URL.fullmatch(place)
    if url is None:
        if namespace is not None:
            msg = "--namespace: a SQLite file has none"
            raise ConfigError(msg)
        return stores.SQLiteStore(place, timeout=_TIMEOUT, create=create, ttl=ttl)
    scheme, rest, name = url[1].lower(), url[2], namespace or "agentctx"
    if scheme in _REDIS:
        _check_port(place)
        return stores.RedisStore(f"{_REDIS[scheme]}://{rest}", prefix=name, timeout=_TIMEOUT, create=create, ttl=ttl)
    if scheme in _POSTGRES:
        return stores.PostgresStore(place, schema=name, timeout=_TIMEOUT, create=create, ttl=ttl)
    msg = f"--store: {scheme}:// is no store: pass a SQLite file, redis://..., unix://..., or postgresql://..."
    raise ConfigError(msg)


def _check_port(place: str) -> None:
    """Refuse a URL that redis-py cannot read; it would quote what it takes for the port, such as half a password."""
    try:
        _ = urlsplit(place).port
    except ValueError:
        msg = "--store: what stands behind the host is no port; in a password / # ? : and @ are written as %2F %23 ..."
        raise ConfigError(msg) from None
