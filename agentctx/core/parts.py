"""The parts of a message: plain values, equal when they look equal.

A part that was read from a provider's payload remembers the block it came from in ``source``, which takes no
part in equality. The writer gives that block back when the part still says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import field, frozen


def _source() -> Any:  # noqa: ANN401 - a native block may be any JSON value or SDK object
    return field(default=None, eq=False, repr=False, kw_only=True)


def _caller() -> Any:  # noqa: ANN401 - a string or None; the type that attrs wants
    return field(default=None, repr=False, kw_only=True)


@frozen
class Text:
    """Text that the model reads.

    Args:
        text: The characters.
        source: The native block it was read from, if any.
    """

    text: str
    source: Any = _source()


@frozen
class Media:
    """An image, a sound, a document or a film.

    Args:
        kind: ``"image"``, ``"audio"``, ``"video"`` or ``"document"``.
        media_type: The MIME type, when known.
        data: The content in base64, when it is carried inline.
        url: Where it is, when it is carried by reference (a URL, or a provider's file id).
        detail: The provider's wish for resolution (``"low"``, ``"high"``, …), when given.
        source: The native block it was read from, if any.
        words: What is said beside it and read with it (a document's title, context, file name); empty when nothing is.
    """

    kind: str
    media_type: str | None = None
    data: str | None = field(default=None, repr=False)
    url: str | None = None
    detail: str | None = None
    source: Any = _source()
    words: str = field(default="", repr=False, kw_only=True)


@frozen
class Thinking:
    """Reasoning that the provider may have signed. It is kept whole or dropped, never edited.

    Args:
        text: The readable reasoning; empty when it is redacted or encrypted.
        signature: The provider's signature, when it signed.
        encrypted: Encrypted or redacted reasoning, as opaque characters.
        source: The native block it was read from, if any.
    """

    text: str
    signature: str | None = None
    encrypted: str | None = field(default=None, repr=False)
    source: Any = _source()

    @property
    def signed(self) -> bool:
        """Whether the provider checks these bytes when they come back."""
        return self.signature is not None or self.encrypted is not None


@frozen
class ToolCall:
    """The model asks for a tool.

    Args:
        id: The provider's id of the call; not always unique in real transcripts.
        name: The tool's name.
        arguments: The arguments as JSON text (or free text for custom tools).
        signature: A signature that travels with the call (Gemini), when there is one.
        source: The native block it was read from, if any.
        optional: Whether the provider takes the call also while nobody has answered it: a request for approval.
        caller: The id of the server-side call whose code made this one, when one did.
    """

    id: str
    name: str
    arguments: str
    signature: str | None = None
    source: Any = _source()
    optional: bool = field(default=False, eq=False, repr=False, kw_only=True)
    caller: str | None = _caller()


@frozen
class ToolResult:
    """What a tool answered.

    Args:
        call_id: The id of the call that it answers.
        content: What the tool said, as parts (``Text``, ``Media``, ``Opaque``).
        name: The tool's name, when the format carries it in the result.
        is_error: Whether the tool failed.
        source: The native block or message it was read from, if any.
        interim: Whether the tool says more later: another result of the same call takes this one's place.
        caller: The id of the server-side call whose code made the call that this answers, when one did.
    """

    call_id: str
    content: tuple[Part, ...]
    name: str | None = None
    is_error: bool = False
    source: Any = _source()
    interim: bool = field(default=False, eq=False, repr=False, kw_only=True)
    caller: str | None = _caller()

    @property
    def text(self) -> str:
        """The text of all text parts, joined as they stand."""
        return "".join(part.text for part in self.content if isinstance(part, Text))


@frozen
class Opaque:
    """A block that we do not understand: it rides through untouched and is counted by its serialised size.

    Args:
        kind: The block's own type name.
        data: The native block.
        opens: The id of a server-side call that this block opens, if it does.
        closes: The id of the server-side call that this block answers, if it does.
        source: The native block it was read from, if any.
        caller: The id of the server-side call whose code made the call that this block opens or answers, if one did.
    """

    kind: str
    data: Any = field(hash=False)
    opens: str | None = None
    closes: str | None = None
    source: Any = _source()
    caller: str | None = _caller()


Part = Text | Media | Thinking | ToolCall | ToolResult | Opaque


def server_ends(parts: Iterable[Part]) -> Iterator[tuple[str, bool]]:
    """The ids of the server-side calls that parts open (True) or answer (False), in order."""
    for part in parts:
        if isinstance(part, Opaque):
            if part.opens is not None:
                yield part.opens, True
            if part.closes is not None:
                yield part.closes, False
