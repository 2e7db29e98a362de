"""A conversation as versioned JSON, and back."""

from __future__ import annotations

from typing import Any

from agentctx.engine.plan import Plan
from agentctx.engine.reasoning import opening
from agentctx.errors import InvalidInput
from agentctx.providers.registry import format_named
from agentctx.session.allowances import Allowances
from agentctx.session.checked import LARGEST, Checked
from agentctx.session.conversation import Conversation, Given
from agentctx.session.fingerprint import Digest, digest, exact_digest, from_plain, to_plain
from agentctx.session.record import Record, Sent
from agentctx.session.record_state import dump_record, load_record
from agentctx.session.state import SENT, dump_budget, load_budget
from agentctx.wire_format import WireFormat


def dump_conversation(known: Conversation) -> dict[str, Any]:
    """A conversation as plain JSON values.

    Raises:
        InvalidInput: If JSON cannot hold a message of the view; names it.
    """
    fixed = None if known.fixed is None else digest(known.fixed).hex()
    last = known.last
    opened_with = known.opening
    if known.around is not None:
        opened_with = Digest(digest(opening(known.around.context(()))))
    sent = known.sent
    return {
        "model": known.model,
        "home": known.allowances.home,
        "format": known.format or (known.wire_name or "").partition("/")[0] or None,
        "assumed": known.assumed,
        "steps": known.steps,
        "budget": dump_budget(known.allowances.own),
        "sent": {"tokens": sent.tokens, "length": sent.length, "intact": sent.intact, "at": _moment(sent.at)},
        "learned": known.allowances.dump(),
        "fixed": fixed,
        "head": None if last is None else _plain_head(last),
        "opening": None if opened_with is None else opened_with.content.hex(),
        "record": dump_record(known.record),
    }


def _moment(at: float | None) -> float | None:
    """When a request was sent; None when the clock said what is no time: its cache counts as cold then."""
    return at if at is not None and abs(at) <= LARGEST else None


def _plain_head(last: Given) -> list[Any] | None:
    """System prompt and tools of the last request, and their exact digest; None when JSON cannot hold them."""
    try:
        head = [to_plain(last.system, "system"), to_plain(last.tools, "tools")]
        return [*head, exact_digest(head).hex()]
    except (InvalidInput, RecursionError):
        return None


def load_conversation(plan: Plan, state: Checked) -> Conversation:
    """The conversation that was dumped.

    Args:
        plan: The pipeline.
        state: The session's state.

    Raises:
        InvalidInput: If the state is damaged; names the place.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    own = load_budget(state.values["budget"], state.at("budget"))
    allowances = Allowances(plan, state.name_or_none("home"), own)
    allowances.load(state.listed("learned"))
    known = Conversation(plan, state.name_or_none("model"), state.name_or_none("format"), allowances)
    known.steps = state.whole("steps")
    known.fixed, known.opening = state.digest_or_none("fixed"), state.digest_or_none("opening")
    sent = Checked.of(state.values["sent"], state.at("sent"), SENT)
    if known.format is not None:
        _load_messages(known, state, known.format, sent)
        known.format = None if state.truth("assumed") else known.format
    elif state.values["record"] != dump_record(Record()):
        raise state.fail("format", "it is missing, though there are messages")
    return known


def _load_messages(known: Conversation, state: Checked, format_name: str, sent: Checked) -> None:
    try:
        wire = format_named(format_name, known.model)
    except InvalidInput as error:
        raise state.fail("format", error.what) from error
    known.wire_name, known.record = wire.name, load_record(state.values["record"], wire)
    known.in_force = known.record.in_force()
    length = sent.whole("length")  # what cannot be sent may have become shorter since
    known.sent = Sent(
        sent.whole("tokens"),
        length,
        sent.whole("intact", most=min(length, len(known.record.out))),
        sent.real_or_none("at"),
    )
    if state.values["head"] is not None:
        known.last = _last(known, state, wire)


def _last(known: Conversation, state: Checked, wire: WireFormat) -> Given:
    """The last request as far as the state holds it: the messages of the view, and of the others what tells them."""
    try:
        system, tools, told = (from_plain(native) for native, _ in state.listed("head"))
        same = exact_digest(state.values["head"][:2]).hex() == told and known.fixed == [system, tools]
    except (TypeError, ValueError, RecursionError) as error:
        raise state.fail("head", f"expected a system prompt, tools and a digest: {error}") from error
    if not same or not isinstance(tools, (list, type(None))):
        raise state.fail("head", "it is not the system prompt and the tools that the state tells of")
    wire.read_system(system)
    wire.read_tools(tools)
    record = known.record
    natives = list(record.seen)
    for place, origin in enumerate(record.origins):
        if origin is not None and record.as_given(place):
            natives[origin] = record.out[place]
    for message, origin in zip(record.tail, record.tail_origin, strict=True):
        natives[origin] = message.source
    return Given(natives, system, tools, loaded=True)
