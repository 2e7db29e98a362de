"""The pages: of a recorded session, and of a comparison of pipelines on many.

A page is one file of HTML with its styles, scripts and data in it, to which its own policy allows no address.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from agentctx.events.window import KINDS, kind_of, main_kind
from agentctx.message import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, is_marker
from agentctx.printable import printable
from agentctx.replay import Step, left_out, part_texts, summarise
from agentctx.report.data import RowChange, SessionData, State

if TYPE_CHECKING:
    from agentctx.comparison import Measured

CAPS = (20_000, 8_000, 3_000, 1_000, 400, 120)
"""The most characters of a text in the page: the first with which the page is small enough holds."""

LARGEST = 4_800_000
"""What a page may be large, in bytes, before texts are cut shorter."""

_SCRIPTS = ("session.js", "difference.js", "charts.js", "rows.js", "message.js", "page.js")


def html_page(data: SessionData, *, content: bool = True, full: bool = False, remarks: Sequence[str] = ()) -> str:
    """The page of a session.

    Args:
        data: What it shows.
        content: Whether the messages' texts are in it. Without them it has roles, sizes, outcomes and the names of
            stages, and neither texts nor reasons, names of tools or handles.
        full: Whether texts are whole, however long. Else long ones are cut in the middle, the more the larger the page
            would be, and say so.
        remarks: What there is to say of the recording, a line each.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import html_page, session_data
        >>> said = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
        >>> data = await session_data(Recording(said, format="openai-chat"), coding_agent(8_000))
        >>> html_page(data).startswith("<!doctype html>")
        True
    """
    data_of_page = ""
    for cap in (None,) if full else CAPS:
        data_of_page = _packed(_session_values(data, content=content, cap=cap))
        if len(data_of_page) <= LARGEST:
            break
    return _document(
        "page.html",
        _SCRIPTS,
        title=escape(_title(data)),
        about=_about(data),
        facts=_fact_list(_session_facts(data)),
        remarks="".join(f"<li>{escape(printable(remark))}</li>" for remark in remarks),
        data=data_of_page,
    )


def comparison_page(rows: Sequence[Measured]) -> str:
    """The page of a comparison: sums by pipeline, cost against what stays visible, and each session.

    Args:
        rows: What was measured; of a session, a model and a pipeline that are there twice, the last.

    Example:
        >>> from agentctx.comparison import Contender, measure
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import comparison_page
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> row = measure(Recording(said), Contender.of("small", preset="coding_agent", window=4_000), session="one")
        >>> comparison_page([row]).startswith("<!doctype html>")
        True
    """
    models_of = ((row, printable(row.model or "no model named")) for row in rows)
    found = {(_Session(printable(row.session), model), printable(row.pipeline)): row for row, model in models_of}
    sessions = list(dict.fromkeys(session for session, _ in found))
    pipelines = list(dict.fromkeys(pipeline for _, pipeline in found))
    return _document(
        "comparison.html",
        ("session.js", "charts.js", "comparison.js"),
        facts=_fact_list(_comparison_facts(found, sessions, pipelines)),
        data=_packed(_comparison_values(found, sessions, pipelines)),
    )


def _title(data: SessionData) -> str:
    return printable(data.recording.id or "recorded session")


def _about(data: SessionData) -> str:
    said = [printable(data.model or "no model named"), data.format, f"{len(data.given):,} messages"]
    if data.budget is not None:
        budget = data.budget
        said.append(f"window {budget.window:,}, limit {budget.limit:,}")
        said.append(f"acts above {budget.trigger_tokens:,}, down to {budget.target_tokens:,} tokens")
    return "".join(f"<li>{escape(each)}</li>" for each in said)


def _session_facts(data: SessionData) -> Iterator[tuple[str, str, str]]:
    """The few numbers that say most of a session: name, value, and what there is to say beside it."""
    found = summarise(data.steps)
    could_not = f", {found.overflowed:,} not sent" if found.overflowed else ""
    yield "Model calls", f"{found.steps:,}", f"{found.compactions:,} with a compaction{could_not}"
    less = abs(1 - found.tokens_sent / found.tokens_given) if found.tokens_given else 1.0
    than = f"{'less' if found.tokens_sent < found.tokens_given else 'more'} than the {found.tokens_given:,}"
    whole = "the full history at each call"
    beside = whole if found.tokens_sent == found.tokens_given else f"{less:.0%} {than} of the full history"
    yield "Tokens sent", f"{found.tokens_sent:,}", beside
    share = found.prefix_tokens / found.tokens_sent if found.tokens_sent else 0.0
    yield "Unchanged prefix", f"{share:.0%}", "of what was sent: the provider's cache can serve it"
    yield _cost_fact(data)
    fine = "every request" if found.clean else "see the red marks in the chart"
    yield "Valid, within budget", f"{min(found.valid, found.fitting):,} of {found.steps:,}", fine


def _cost_fact(data: SessionData) -> tuple[str, str, str]:
    ways = [way[-1] if way else 0.0 for way in (data.costs.prepared, data.costs.everything, data.costs.trimmed)]
    if data.costs.unit == "USD":
        ours, everything, trimmed = (f"${cost:,.2f}" for cost in ways)
        return "Cost", ours, f"full history {everything}, trimming at each call {trimmed}"
    ours, everything, trimmed = (f"{cost:,.0f}" for cost in ways)
    more = f"full-price tokens; full history {everything}, trimming at each call {trimmed}"
    return "Cost", ours, more


def _session_values(data: SessionData, *, content: bool = True, cap: int | None = None) -> dict[str, Any]:
    """What the scripts of the page are given, as JSON values.

    Args:
        data: What the page shows.
        content: Whether the messages' texts are in it.
        cap: The most characters of a text; None for whole texts.
    """
    writing = _Writing(data, content, cap)
    steps, budget = data.steps, data.budget
    return {
        "id": _title(data),
        "content": content,
        "cap": cap,
        "window": None if budget is None else budget.window,
        "kinds": KINDS,
        "items": [writing.item(message) for message in data.items],
        "given": data.given,
        "head": list(writing.head()),
        "changes": [writing.change(change) for change in data.changes],
        "layouts": [
            [each.call, [[added.after, *writing.state(added.state)] for added in each.added], each.order]
            for each in data.layouts
        ],
        "calls": {
            "index": [step.index for step in steps],
            "given": [step.tokens_given for step in steps],
            "sent": [step.tokens_sent for step in steps],
            "messages": [step.messages_sent for step in steps],
            "prefix": [step.prefix_tokens for step in steps],
            "limit": [step.limit for step in steps],
            "compacted": [int(step.compacted) for step in steps],
            "fine": [int(step.valid and step.fits) for step in steps],
            "unchanged": [call.unchanged for call in data.calls],
            "kinds": [call.kinds for call in data.calls],
        },
        "notes": {step.number: notes for step in steps if (notes := list(_notes(step, content=content)))},
        "costs": {
            "unit": data.costs.unit,
            **{
                name: [round(cost, 6) for cost in way]
                for name, way in (
                    ("prepared", data.costs.prepared),
                    ("everything", data.costs.everything),
                    ("trimmed", data.costs.trimmed),
                    ("billed", data.costs.billed),
                )
            },
        },
        "reasons": writing.reasons,
    }


def _notes(step: Step, *, content: bool) -> Iterator[str]:
    """What there is to say about a call, line by line."""
    if step.overflow is not None:
        yield f"Nothing could be sent: {step.overflow}" if content else "Nothing could be sent: it did not fit"
    for violation in step.violations:
        yield f"Breaks a rule: {violation}" if content else f"Breaks a rule: {violation.rule}"
    for each in left_out(step.changes):
        yield str(each)


@define
class _Writing:
    """Writes messages and states as short JSON values."""

    data: SessionData
    content: bool
    cap: int | None
    reasons: list[tuple[str, str]] = field(factory=lambda: [("", "")], init=False)
    _places: dict[tuple[str, str], int] = field(factory=lambda: {("", ""): 0}, init=False)
    _tools: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Know which tool each result comes from."""
        self._tools = {call.id: call.name for message in self.data.items for call in message.calls}

    def change(self, change: RowChange) -> list[object]:
        return [change.index, change.call, *self.state(change.state)]

    def state(self, state: State) -> list[object]:
        reason = (state.stage, state.reason if self.content else "")
        place = self._places.setdefault(reason, len(self.reasons))
        if place == len(self.reasons):
            self.reasons.append(reason)
        item = -1 if state.item is None else state.item
        found: list[object] = [state.outcome, item, place]
        return [*found, state.handle] if state.handle and self.content else found

    def item(self, message: Message) -> list[object]:
        meter = self.data.meter
        kind = KINDS.index(main_kind(message, meter))
        return [message.role, kind, meter.message(message), list(self._parts(message))]

    def head(self) -> Iterator[list[object]]:
        """What stands before the messages: name, kind, tokens, parts."""
        sizes = self.data.head
        if self.data.system is not None:
            yield ["system prompt", KINDS.index("system"), sizes["system"], list(self._parts(self.data.system))]
        if self.data.tools:
            kind = KINDS.index("tools")
            said = [
                [kind, printable(tool.name), *self._cut(_definition(tool.description, tool.parameters))]
                for tool in self.data.tools
            ]
            yield ["tool definitions", kind, sizes["tools"], said if self.content else []]

    def _parts(self, message: Message) -> Iterator[list[object]]:
        for part in message.parts if self.content else ():
            if is_marker(part):
                continue
            label, text = _said(part, self._tools)
            yield [KINDS.index(kind_of(part, message)), printable(label), *self._cut(text)]

    def _cut(self, text: str) -> list[object]:
        """A text; or its start, how many characters are not shown, and its end."""
        if self.cap is None or len(text) <= self.cap:
            return [text]
        start, end = self.cap * 3 // 4, self.cap // 4
        return [text[:start], len(text) - start - end, text[len(text) - end :]]


def _definition(description: str, parameters: object) -> str:
    return "\n".join(filter(None, (description, json.dumps(parameters, default=str) if parameters else "")))


def _said(part: Part, tools: Mapping[str, str]) -> tuple[str, str]:
    """A label for a part, and its text."""
    match part:
        case Text(text=text):
            return "", text
        case Thinking(text=text, encrypted=encrypted):
            return "", text or f"{len(encrypted or ''):,} encrypted characters"
        case ToolCall(name=name, arguments=arguments):
            return name, arguments
        case ToolResult(call_id=call, name=name, content=content, is_error=wrong):
            known = name or tools.get(call, "")
            said = "\n".join(part_texts(Message("tool", content)))
            return f"{known} (error)".strip() if wrong else known, said
        case Opaque(kind=kind, data=native):
            return kind, json.dumps(native, default=str, ensure_ascii=False)
    return "", "\n".join(part_texts(Message("user", (part,))))  # a picture, a sound, a document


_NUMBERS = (
    *("calls", "tokens_given", "tokens_sent", "prefix_tokens", "usd", "compactions", "invalid", "overflowed"),
    *("values", "visible", "recallable", "said", "kept", "seconds"),
)


@frozen
class _Session:
    """A session as it is shown: once for each model that it was counted and paid for."""

    place: str
    model: str


def _comparison_facts(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    models = sorted({session.model for session in sessions})
    calls = {session: row.calls for (session, _), row in found.items()}
    yield "Sessions", f"{len(sessions):,}", f"{sum(calls.values()):,} model calls"
    yield "Pipelines", f"{len(pipelines):,}", ", ".join(pipelines)
    yield "Models", f"{len(models):,}", ", ".join(models[:4]) + (", …" if len(models) > 4 else "")
    missing = len(sessions) * len(pipelines) - len(found)
    yield "Replays", f"{len(found):,}", f"{missing:,} missing" if missing else "every session with every pipeline"


def _comparison_values(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> dict[str, Any]:
    times = Counter(session.place for session in sessions)
    names = {
        session: printable(row.id or row.session) + (f" · {session.model}" if times[session.place] > 1 else "")
        for (session, _), row in found.items()
    }
    models = sorted({session.model for session in sessions})
    numbers = {key: [getattr(row, name) for name in _NUMBERS] for key, row in found.items()}
    return {
        "pipelines": pipelines,
        "models": models,
        "sessions": [[names[session], session.place, models.index(session.model)] for session in sessions],
        "numbers": _NUMBERS,
        "rows": [[numbers.get((session, pipeline)) for pipeline in pipelines] for session in sessions],
    }


_CHARTS = "uplot/uPlot.iife.min.js"
_STYLES = ("uplot/uPlot.min.css", "page.css")


def _document(template: str, scripts: Sequence[str], **values: str) -> str:
    """A page.

    Args:
        template: The asset that has its elements.
        scripts: The assets that make it work, in order; the library of charts stands before them.
        values: HTML for the places of the template.
    """
    code, styles = [_asset(name) for name in (_CHARTS, *scripts)], [_asset(name) for name in _STYLES]
    scripts_allowed, styles_allowed = (  # the page's own, and no address
        " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in texts)
        for texts in (code, styles)
    )
    policy = f"default-src 'none'; script-src {scripts_allowed}; style-src {styles_allowed}"
    return Template(_asset(template)).substitute(
        values,
        policy=f"{policy}; base-uri 'none'; form-action 'none'",
        licence=escape(_asset("uplot/LICENSE").replace("--", "")),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        scripts="\n".join(f"<script>{script}</script>" for script in code),
    )


def _packed(values: Mapping[str, object]) -> str:
    """Values as a page unpacks them."""
    packer = zlib.compressobj(9, wbits=-15)
    text = json.dumps(values, separators=(",", ":"))
    return b64encode(packer.compress(text.encode()) + packer.flush()).decode()


def _fact_list(facts: Iterable[tuple[str, str, str]]) -> str:
    """Name, value, and what there is to say beside it: entries of a description list."""
    return "".join(
        f'<div class="fact"><dt>{escape(name)}</dt><dd>{escape(value)}</dd><dd class="more">{escape(more)}</dd></div>'
        for name, value, more in facts
    )


def _asset(name: str) -> str:
    return files("agentctx.report").joinpath("assets", *name.split("/")).read_text(encoding="utf-8")
