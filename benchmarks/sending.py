"""What a way of trimming sends before each model call, and how a session of ours sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from attrs import frozen
from recorded import Recorded

from agentctx import Context, ContextOverflow, InvalidInput, Pipeline, View
from agentctx.retention import watched
from agentctx.stores import MemoryStore


@frozen
class Sent:
    """One request.

    Args:
        context: What was sent; None when nothing could be.
        compacted: Whether messages that an earlier request had were changed or left out at this step.
        moved: Whether the request does not begin with the one before.
        store: Where what was left out is kept; None where it is not.
        recallable: Texts that the model can have back by a tool of another library's.
        view: What a session of ours made, with its report.
    """

    context: Context | None
    compacted: bool = False
    moved: bool = False
    store: MemoryStore | None = None
    recallable: Sequence[str] = ()
    view: View | None = None


Way = Callable[[Recorded, int], AsyncIterator[Sent]]


def in_session(build: Callable[[int], Pipeline], model: str | None = None, *, recall: bool = False) -> Way:
    """A session of the pipeline that ``build`` makes for a window, with a model or with none named.

    Args:
        build: Makes the pipeline.
        model: The model, if any.
        recall: Whether what is left out is kept, and the model has the recall tool.
    """

    async def way(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
        natives, recording = recorded.recording.messages, recorded.recording
        pipeline, store = build(window), None
        if recall:
            store = MemoryStore()
            recording, pipeline = watched(recording, pipeline, store)
        session = pipeline.session(model=model, format=recorded.source.wire.name)
        fresh = 0
        for length in recorded.calls:
            try:
                view = await session.prepare(natives[:length], system=recording.system, tools=recording.tools)
            except (ContextOverflow, InvalidInput):
                yield Sent(None)
                continue
            old = any(change.index < fresh for change in view.report.changes)
            yield Sent(view.context, old, view.report.first_changed is not None, store, view=view)
            fresh = length

    return way
