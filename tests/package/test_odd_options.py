"""Whatever is passed as an option of what is public: it is taken, or refused in a sentence that names the option."""

from importlib import import_module
from inspect import Parameter, isclass, iscoroutinefunction, isfunction, signature

import pytest

from agentctx import AgentctxError, Pipeline, over
from agentctx.stores import MemoryStore


class Unprintable:
    """A value of a class whose own text cannot be had."""

    def __repr__(self):
        raise RuntimeError


MESSAGES = [{"role": "user", "content": "Hi"}]
NOTHING = object()
"""It is no value of any option."""
ODD = [NOTHING, Unprintable(), 10**400, [], [1], {}, "\ud800", "x", "", 7, -1, True, None, float("nan"), b"x", int]
NEEDED = {
    "amount": 10, "budget": 8_000, "condition": over(10), "embed": len, "error": ValueError("x"), "extractor": len,
    "format": "openai-chat", "id": "a", "keep_last": 1, "max_rounds": 1, "messages": MESSAGES, "name": "a",
    "pipeline": Pipeline(budget=8_000), "plan": Pipeline(budget=8_000), "request": {"messages": MESSAGES}, "share": 0.5,
    "store": MemoryStore(), "tier": 1, "to": "anthropic", "window": 8_000, "within": 5,
}  # fmt: skip
"""What has no default."""
PACKAGES = (
    "agentctx", "agentctx.builder", "agentctx.economics", "agentctx.events", "agentctx.presets",
    "agentctx.sources", "agentctx.stores", "agentctx.strategies", "agentctx.tokens",
)  # fmt: skip
VALUES = {
    "ArtifactTrail", "Context", "Message", "Opaque", "Sections", "SourceReport", "StepRefused", "Text", "Thinking",
    "Tool", "ToolResult",
}  # fmt: skip
"""What the library makes and hands out, or a stage makes: their fields are no options."""
ANYTHING = {
    "ContextBuilder.tools", "Facts.on", "Facts.read", "LiveView.console",
    "Session.format", "classify_error.error", "overflow_of.error", "validate.model",
}  # fmt: skip
"""What is taken whatever it is: where it is used, or by what it is passed on to, it is found out."""
BY_ANOTHER_NAME = {
    "MergeSystem.upto": "Tier", "convert.from_model": "model", "convert.system": "messages",
    "convert.tools": "messages", "count.system": "messages", "count.tools": "messages", "validate.request": "messages",
}  # fmt: skip
"""What an error names instead of the option; where the format is found out, an odd value can only leave it open."""


def makers(package):
    """What is public in a package and can be made of what is needed alone, with that and its options."""
    part = import_module(package)
    for name in part.__all__:
        make = getattr(part, name)
        wanted = (isclass(make) and not issubclass(make, BaseException)) or isfunction(make)
        if not wanted or iscoroutinefunction(make) or name in VALUES or name == "warmup":
            continue
        options = [each for each in signature(make).parameters.values() if each.kind in _BY_NAME]
        try:
            needed = {each.name: NEEDED[each.name] for each in options if each.default is each.empty}
            make(**needed)
        except (KeyError, TypeError, AttributeError, AgentctxError):
            continue
        yield name, make, needed, [each.name for each in options]


_BY_NAME = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("package", PACKAGES)
def test_an_option_is_taken_or_refused_by_its_name(package):
    """No error of Python's own comes through, and what is no value of any option is refused."""
    wrong, taken, known = [], set(), set()
    for name, make, needed, options in makers(package):
        for option in options:
            known.add(where := f"{name}.{option}")
            named = option.lower(), BY_ANOTHER_NAME.get(where, option).lower()
            for value in ODD:
                try:
                    make(**{**needed, option: value})
                except AgentctxError as error:
                    if not any(each in str(error).lower() for each in named):
                        wrong.append((where, type(value), f"says {error}"))
                except Exception as error:  # noqa: BLE001 - none is to come through
                    wrong.append((where, type(value), f"raises {error!r:.80}"))
                else:
                    if value is NOTHING:
                        taken.add(where)
    assert wrong == []
    assert taken == ANYTHING & known < known
