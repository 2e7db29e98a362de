"""Take a conversation to another provider or model in the middle of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any

from attrs import define, field, frozen

from agentctx.core.changes import Change, ChangesInForce, Outcome, match
from agentctx.core.message import SYSTEM_ROLES, Context, Message, Native, Text, Tool
from agentctx.core.protection import FOREIGN_REASONING
from agentctx.core.report import Report, StageReport
from agentctx.engine.reading import Reader, as_list, naming_what_is_too_deep, reader, write_native
from agentctx.engine.repair import repair
from agentctx.errors import InvalidInput
from agentctx.models.table import shares_reasoning
from agentctx.protocols import Call, TokenCounter
from agentctx.providers.translate import Respelling, Translator, Turn, beside_tool, grouped, placeholder, translated
from agentctx.tokens.counting import as_counter
from agentctx.wire_format import Capabilities, WireFormat

_STAGE = "convert"
SAID_BY_THE_USER = "no system message may stand in the middle here: it is said by the user"


_Models = tuple[str | None, str | None]
"""The model that will be called, and the one before."""


@frozen
class Converted:
    """A conversation in another provider's shape.

    Args:
        messages: The messages (Gemini's ``contents``, Responses' ``input`` items).
        system: The system prompt where the format keeps it apart from the messages (``system``, ``instructions``,
            ``system_instruction``), else None.
        tools: The tool definitions, or None when there are none.
        report: What could not stay as it was; its indexes are those of the messages passed in.

    Example:
        >>> from agentctx import convert
        >>> moved = convert([{"role": "user", "content": "Hi"}], to="gemini")
        >>> moved.messages
        [{'role': 'user', 'parts': [{'text': 'Hi'}]}]
    """

    messages: list[Any]
    system: Native
    tools: list[Any] | None
    report: Report


def convert(
    messages: Sequence[Any],
    to: str,
    *,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
    from_model: str | None = None,
    system: Native = None,
    tools: Native = None,
    counter: TokenCounter | Callable[[str], int] | None = None,
) -> Converted:
    """Take a conversation to another provider or model: legal there, and as whole as it can be.

    Reasoning stays with the model that made it. Ids and names of calls get the spelling that the provider takes, the
    same for the same every time, so that a growing conversation may be converted again at each step. Media that it
    does not take are named in a text. What only its own provider understands (server-side tools, compaction) becomes
    text where it can be read, else it goes. Cache markers are not taken along. A broken history is repaired. Within
    one format only the reasoning goes, unless both models are named and share it.

    Args:
        messages: The transcript in its provider's own shape; neither it nor anything in it is changed.
        to: The format to convert to, for example ``"anthropic"``.
        format: The format of ``messages``; found out when not given.
        model: The model that will be called: some take less than their format does.
        from_model: The model that was called until now; helps to find out the format.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        counter: Counts text for the report, instead of the models' encodings: a counter, or a function of a text.

    Raises:
        InvalidInput: If something cannot be read, is nested too deep, or a format is unknown.
        AmbiguousFormat: If the messages fit several formats and none is named.
        ConfigError: If the counter is none, or async.

    Example:
        >>> from agentctx import convert
        >>> messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
        >>> moved = convert(messages, to="anthropic")
        >>> moved.system, moved.messages
        ('Be brief.', [{'role': 'user', 'content': 'Hi'}])
    """
    as_list(messages)
    counted = as_counter(counter)
    with naming_what_is_too_deep(messages, system, tools):
        source = reader(messages, system=system, tools=tools, format=format, model=from_model, counter=counted)
        goal = reader(messages, format=to, model=model, counter=counted)
        return _converted(source, goal, (messages, system, tools), (model, from_model))


def _converted(source: Reader, goal: Reader, passed: tuple[Sequence[Any], Any, Any], models: _Models) -> Converted:
    """What was passed, for the model that will be called, from the one before."""
    started, (messages, system, tools), (model, from_model) = perf_counter(), passed, models
    given = source.context(messages, system, tools)
    log = _Log(source, goal)
    if source.wire.name.partition("/")[0] == goal.wire.name.partition("/")[0]:
        # Reasoning may stay where nothing says that another model is called, or both models share it.
        keep = model is None or (from_model is not None and shares_reasoning(model, from_model))
        converted = _within(given, log, keep=keep), system, None if tools is None else [*tools]
    else:
        converted = _across(given, log, goal.wire.capabilities(model, goal.profile))
    after = goal.context(*converted)
    if not after.messages:
        where = "messages"
        raise InvalidInput(where, "nothing is left to send: no message says anything that can be taken along")
    if len(after.messages) != len(given.messages):
        numbers = f"{len(given.messages)} messages became {len(after.messages)}"
        done = "joined" if len(after.messages) < len(given.messages) else "split"
        log.remarks.append(f"{numbers}, {done} as {goal.wire.name} has them")
    return Converted(*converted, log.report(given, after, perf_counter() - started))


@define
class _Log:
    """What has to be said about the messages passed in.

    Args:
        why: The reasons, by index, of those that could not stay as they were.
        outcomes: What became of them, where that is not "edited".
    """

    source: Reader
    goal: Reader
    why: dict[int, list[str]] = field(factory=dict)
    outcomes: dict[int, Outcome] = field(factory=dict)
    remarks: list[str] = field(factory=list)

    def say(self, indexes: Sequence[int | None], *reasons: str, outcome: Outcome | None = None) -> None:
        """Say something about messages passed in; a message that was made on the way has no index."""
        for index in indexes:
            if index is not None and reasons:
                self.why.setdefault(index, []).extend(reasons)
                if outcome is not None:
                    self.outcomes[index] = outcome

    def dropped(self, indexes: Iterable[int]) -> None:
        """Say that nothing is left of messages passed in."""
        for index in indexes:
            self.outcomes[index] = Outcome.DROPPED
            self.why.setdefault(index, ["nothing in it could be sent"])

    def report(self, given: Context, after: Context, seconds: float) -> Report:
        """The report as of one stage."""
        meter = self.source.meter
        changes: list[Change] = []
        for index in sorted(self.why):
            message, outcome = given.messages[index], self.outcomes.get(index, Outcome.EDITED)
            reason, tokens = "; ".join(dict.fromkeys(self.why[index])), meter.message(message)
            left = 0 if outcome is Outcome.DROPPED else tokens
            changes.append(Change(index, message.role, outcome, _STAGE, reason, tokens, left, by="fit"))
        before, size = meter.size(given), self.goal.meter.size(after)
        stage = StageReport(_STAGE, tuple(changes), before, size, seconds, tuple(dict.fromkeys(self.remarks)))
        return Report(
            (stage,) if stage.acted else (),
            ChangesInForce(tuple(changes)),
            len(given.messages),
            len(after.messages),
            before,
            size,
            meter.bytes(given),
            self.goal.meter.bytes(after),
            seconds=seconds,
        )


def _within(given: Context, log: _Log, *, keep: bool) -> list[Any]:
    """The messages in the format that they are in: legal for where they go, and without reasoning that is not."""
    wire = log.goal.wire
    bare: list[Message] = []
    places: list[tuple[int, ...]] = []
    for index, message in enumerate(given.messages):
        kept = message if keep else wire.without_reasoning(message)
        if kept is not message:
            log.say((index,), FOREIGN_REASONING, outcome=Outcome.DROPPED if kept is None else None)
        if kept is not None:
            bare.append(kept)
            places.append((index,))
    return _written(wire, _legal(bare, places, log.goal, log))


def _legal(
    messages: Sequence[Message], places: Sequence[tuple[int, ...]], reading: Reader, log: _Log
) -> Sequence[Message]:
    """The messages made legal for their format; what was done is said of where they come from."""
    call = Call(reading.meter, reading.wire.name, wire=reading.wire)
    whole = repair(messages, call, reading.wire)
    log.remarks += call.notes.remarks
    for place, message in zip(places, messages, strict=True):
        if said := call.notes.why(message).why:
            log.say(place, said)
    return messages if whole is None else whole


def _across(given: Context, log: _Log, target: Capabilities) -> tuple[list[Any], Any, list[Any] | None]:
    """Messages, system prompt and tools in the other format."""
    wire = log.goal.wire
    turns, translator = _turns(given, log, target)
    lead = next((n for n, turn in enumerate(turns) if turn.role not in SYSTEM_ROLES), len(turns))
    system = None
    if wire.system_apart:
        said = (part for turn in turns[:lead] for part in turn.parts)
        texts = tuple(part for part in said if isinstance(part, Text) and part.text.strip())
        system = wire.write_system(Message("system", texts)) if texts else None
        for turn in turns[:lead]:
            log.say(turn.origins, "the system prompt stands apart from the messages", outcome=Outcome.MOVED)
        turns = turns[lead:]
    made = _settled(turns, target, log)
    tools = _tools(given.tools, made, translator, log)
    return _written(wire, made), system, tools


def _written(wire: WireFormat, messages: Sequence[Message]) -> list[Any]:
    return [write_native(wire, message, f"converted messages[{place}]") for place, message in enumerate(messages)]


def _turns(given: Context, log: _Log, target: Capabilities) -> tuple[list[Turn], Translator]:
    """What was said, in plain values; the system prompt first."""
    places = [(index,) for index in range(len(given.messages))]
    messages = _legal(given.messages, places, log.source, log)
    origins = match(given.messages, messages).origins
    translator = Translator.to(target, log.source.wire)
    turns: list[Turn] = []
    if given.system is not None:  # what is lost of it has no index, and is remarked
        spoken = translator.message(given.system)
        log.remarks += [f"the system prompt: {why}" for why in spoken.why]
        turns.append(Turn("system", tuple(spoken.parts)))
    for origin, message in zip(origins, messages, strict=True):
        spoken, place = translator.message(message), () if origin is None else (origin,)
        if origin is not None and origin not in log.why and message != given.messages[origin]:
            log.say(place, "what breaks a rule of its own format was repaired")
        said = bool(spoken.parts or spoken.shown)
        log.say(place, *spoken.why, outcome=None if said else Outcome.DROPPED)
        if not said and not spoken.why:
            log.dropped(place)
        turns.append(Turn(message.role, tuple(spoken.parts), place))
        turns.append(Turn("user", tuple(spoken.shown), place))
    log.dropped(set(range(len(given.messages))) - {origin for origin in origins if origin is not None})
    return [turn for turn in turns if turn.parts], translator


def _settled(turns: Sequence[Turn], target: Capabilities, log: _Log) -> list[Message]:
    """The turns as messages that the format takes: grouped, and repaired where that broke a rule."""
    if target.system_between == "user":
        for turn in turns:
            log.say(turn.origins if turn.role in SYSTEM_ROLES else (), SAID_BY_THE_USER)
    found = grouped(turns, target)
    for turn in found:
        log.say(turn.origins, *turn.why)
    messages = [Message(turn.role, turn.parts) for turn in found]
    origins = {id(message): turn.origins for message, turn in zip(messages, found, strict=True)}
    if target.system_between == "system":  # system messages stand where they may
        messages = [*log.goal.wire.arrange_for(messages, None, lambda each, why: log.say(origins[id(each)], why))]
    places = [origins.get(id(message), ()) for message in messages]
    legal = _legal(messages, places, log.goal, log)
    if legal is messages:
        return messages
    again = grouped((Turn(each.role, each.parts) for each in legal), target)
    return [Message(turn.role, turn.parts) for turn in again]


def _tools(tools: Sequence[Tool], messages: Sequence[Message], translator: Translator, log: _Log) -> list[Any] | None:
    """The tool definitions; where a provider wants each tool that was called, also those that are gone."""
    made, lost = translated(tools, log.goal.wire, translator.names)
    if lost:
        log.remarks.append(f"tools without a counterpart went: {', '.join(lost)}")
    if left := list(dict.fromkeys(key for tool in tools for key in beside_tool(tool))):
        log.remarks.append(f"only its own format has a place for, in tools: {', '.join(left)}")
    if not made and translator.target.called_tools:
        called = dict.fromkeys(call.name for message in messages for call in message.calls)
        made, _ = translated(map(placeholder, called), log.goal.wire, Respelling(translator.target.names))
        if called:
            wanted = f"{log.goal.wire.name} wants the tools that were called"
            log.remarks.append(f"{wanted}: placeholders for {', '.join(called)}")
    return made or None
