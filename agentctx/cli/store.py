"""``agentctx store``: what a store has of each conversation, and taking it away."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

import typer
from attrs import asdict, frozen
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx.cli import options
from agentctx.cli.console import FOUND, err, fail, in_one_line, print_json, printing, to_json
from agentctx.cli.open_store import CipherNamed, Namespace, StorePlace, with_store
from agentctx.cli.options import parse_limit
from agentctx.cli.recall import content_json
from agentctx.engine.originals import text_of
from agentctx.errors import ConfigError, StoreError, StoreUnavailable
from agentctx.printable import on_one_line, printable
from agentctx.stores.store import ConversationStore, Stored

T = TypeVar("T")

Limit = Annotated[
    str | None,
    typer.Option(metavar="N", show_default="50, with --json off", help="Name at most so many; or off."),
]
Unowned = Annotated[bool, typer.Option("--unowned", help="Contents that were put for no conversation.")]

_LIMIT = 50
_WIDTH = 60

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
    found = with_store(store, namespace, lambda opened: opened.stored())
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
    found = with_store(store, namespace, lambda opened: opened.stored())
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
    kept = with_store(store, namespace, lambda opened: _kept(opened, name, most), cipher)
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

    [bold]Examples[/bold]

      agentctx store purge thread-42 --store context.db

      agentctx store purge --expired --yes --store context.db
    """
    wanted = [*dict.fromkeys(names or ()), *([None] if unowned else [])]
    if not wanted and not expired:
        msg = "what is to be deleted? pass a NAME, --unowned or --expired"
        raise ConfigError(msg)
    there = with_store(store, namespace, lambda opened: _found(opened, wanted))
    if not yes and (there or expired):
        _ask(there, expired=expired)
    told = with_store(store, namespace, lambda opened: _purged(opened, wanted, expired=expired))
    if json:
        print_json(told)
        return
    parts = [_conversations(told["conversations"])] if told["conversations"] else []
    parts += ["unowned contents"] if unowned else []
    parts += [f"{told['expired']:,} that had expired"] if expired else []
    typer.echo(f"deleted {' and '.join(parts) or 'nothing'}: {told['bytes']:,} bytes")


for command in (ls, show, purge, stats):
    store_app.command(no_args_is_help=command in (show, purge))(command)


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
        table.add_row(_named(each.name), f"{each.bytes:,}", f"{each.contents:,}", *versions, _time(each.expires))
    return table


def _named(name: str | None) -> Text:
    return Text("(unowned)", style="dim") if name is None else Text(on_one_line(name, _WIDTH))


def _written(version: int | None) -> str:
    """When a document was written: its version is the microsecond, nearly."""
    return "-" if version is None else _time(version / 1e6)


def _time(expires: float | None) -> str:
    if expires is None:
        return "never"
    return f"{datetime.fromtimestamp(expires, UTC):%Y-%m-%d %H:%M} UTC"


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
                content_json(handle, kept)
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


async def _found(store: ConversationStore, wanted: Sequence[str | None]) -> list[Stored]:
    """What a store has of these.

    Raises:
        StoreError: If it has nothing of one that is named.
    """
    there = {each.name: each for each in await store.stored()} if wanted else {}
    missing = [name for name in wanted if name is not None and name not in there]
    if missing:
        msg = f"the store has nothing of conversation {missing[0]!r:.200}; agentctx store ls names what it has"
        raise StoreError(msg)
    return [there[name] for name in wanted if name in there]


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
    what = [repr(named[0]) if len(named) == 1 else _conversations(len(named))] if named else []
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


async def _purged(store: ConversationStore, wanted: Sequence[str | None], *, expired: bool) -> dict[str, int]:
    freed = [(name, await store.purge(name)) for name in wanted]
    swept = await store.sweep() if expired else 0
    conversations = sum(name is not None and size > 0 for name, size in freed)
    return {"conversations": conversations, "bytes": sum(size for _, size in freed), "expired": swept}
