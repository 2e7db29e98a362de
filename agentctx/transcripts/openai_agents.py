"""The OpenAI Agents SDK: items of a run, and its state; ``to_input_list()`` and sessions give items of Responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentctx.core.message import Native
from agentctx.errors import InvalidInput
from agentctx.replay import Recording
from agentctx.transcripts.files import Fields, Read, left_out

ITEMS = "the OpenAI Agents SDK (RunItem)"
STATE = "the OpenAI Agents SDK (RunState)"


def read_items(items: Sequence[Native], _beside: Fields) -> Read:
    """The items of a run, each with the item of Responses that it holds; what was asked is not among them."""
    note = "the items of a run do not hold what was asked: result.to_input_list() does"
    return Read(Recording(_raw(items), format="openai-responses", pending=False), (note, *_others(items)))


def read_state(state: Fields, place: str) -> Iterator[Read]:
    """The items of a run's state, behind what was asked.

    Raises:
        InvalidInput: If nothing was asked.
    """
    asked = state.get("original_input")
    messages = [{"role": "user", "content": asked}] if isinstance(asked, str) else asked
    items: Native = next((state[key] for key in ("session_items", "generated_items") if state.get(key)), [])
    if not isinstance(messages, list) or not isinstance(items, list) or not messages:
        raise InvalidInput(place, "this run's state holds no items: no model was called")
    waits = not items
    recording = Recording([*messages, *_raw(items)], format="openai-responses", pending=waits)
    yield Read(recording, _others(items))


def _others(items: Sequence[Native]) -> tuple[str, ...]:
    """What there is to say of items that hold none of Responses."""
    others = [item for item in items if isinstance(item, Mapping) and not isinstance(item.get("raw_item"), Mapping)]
    return left_out(others, "item")


def _raw(items: Sequence[Native]) -> list[Native]:
    raw = [item.get("raw_item") for item in items if isinstance(item, Mapping)]
    return [
        {key: value for key, value in each.items() if value is not None} for each in raw if isinstance(each, Mapping)
    ]
