"""What our preset's own cache markers are worth, where a provider's cache has to be asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bills import OURS, Row, Total
from recorded import Recorded, of_recording
from sending import in_session
from windows import Windows

from agentctx import Budget, Pipeline
from agentctx.economics import CacheSimulator, PromptReader, cost
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.presets import coding_agent

MODELS = {
    "anthropic": ("claude-sonnet-4-5", "claude-sonnet-5-5"),
    "openai-chat": ("gpt-5.6-sol",),
    "openai-responses": ("gpt-5.6-sol",),
}
"""By the format of a recording, models whose cache takes markers in it; sonnet-5-5 binds its reasoning besides."""
PAUSE = 20.0
CAREFUL = "a careful client"
"""One that marks, besides, how far each request is the same as the one before: it knows that only afterwards."""


def bare(window: int) -> Pipeline:
    """Our preset without its last stage, which sets the markers."""
    preset = coding_agent(Budget(window))
    return Pipeline(*preset.stages[:-1], budget=preset.budget)


async def measure_markers(kinds: Mapping[str, Sequence[Recorded]], windows: Windows) -> list[Row]:
    """Ours as it is sent, without its markers, and with those of a careful client in their place."""
    rows: list[Row] = []
    for kind, sessions in kinds.items():
        for model in sorted({model for recorded in sessions for model in _models(recorded)}):
            chosen = [recorded for recorded in _counted(sessions, model) if windows.worth(recorded, profile(model))]
            if chosen:
                rows.append(await _row(kind, chosen, model, windows))
    return rows


def _models(recorded: Recorded) -> Sequence[str]:
    return MODELS.get(recorded.source.wire.name, ())


def _counted(sessions: Sequence[Recorded], model: str) -> Iterator[Recorded]:
    """The sessions in a format that has the model, counted as it counts."""
    for recorded in sessions:
        if model in _models(recorded):
            yield of_recording(recorded.kind, recorded.recording, model)


async def _row(kind: str, sessions: Sequence[Recorded], model: str, windows: Windows) -> Row:
    totals = {
        "no markers": await _sent(sessions, model, windows, marked=False, careful=False),
        CAREFUL: await _sent(sessions, model, windows, marked=False, careful=True),
        OURS: await _sent(sessions, model, windows, marked=True, careful=False),
    }
    return Row(kind, model, len(sessions), sum(len(recorded.calls) for recorded in sessions), totals, beside=CAREFUL)


async def _sent(sessions: Sequence[Recorded], model: str, windows: Windows, *, marked: bool, careful: bool) -> Total:
    total, table, now = Total(), profile(model), 0.0
    cache = CacheSimulator(cache_rules(table))
    for recorded in sessions:
        window = windows.of(recorded)
        way = in_session((lambda room: coding_agent(Budget(room))) if marked else bare, model)
        reader = PromptReader(recorded.source.meter, own=None if careful else recorded.source.wire.cache_markers)
        number = 0
        async for sent in way(recorded, window):
            prompt = None if sent.context is None else reader.read(sent.context)
            usage = None if prompt is None else cache.send(prompt, now, recorded.outputs[number])
            total.add(sent, prompt, window, usage, 0.0 if usage is None else cost(usage, table))
            now, number = now + PAUSE, number + 1
    return total
