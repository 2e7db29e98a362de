"""Whatever a user may pass as a function: where it raises or answers nonsense, the error says which it was."""

import anyio
import pytest

from agentctx import (
    AgentctxError,
    Budget,
    FitContextWindow,
    Pack,
    Pipeline,
    Protect,
    Session,
    Sessions,
    Tiered,
    count,
    when,
)
from agentctx.builder import Block, ContextBuilder, Facts
from agentctx.economics import Condition
from agentctx.sources import (
    ContextItem,
    Decay,
    Environment,
    PromptSection,
    ReadOnlyFiles,
    StablePrompt,
    gather,
    prioritise,
)
from agentctx.strategies import Embedded, TruncateOldest
from agentctx.testing import assistant, call, result, transcript, user

ROUNDS = [turn for i in range(8) for turn in (assistant(call(f"c{i}", "read", {})), result(f"c{i}", "word " * 60))]
SAID = transcript("openai-chat", user("Begin."), *ROUNDS, user("Go on."))
ITEM = ContextItem("title", "some words " * 50)


async def prepared(*stages, **options):
    """A step of a pipeline that has to cut."""
    return await Pipeline(*stages, **{"budget": Budget(500, trigger=0.5), **options}).prepare(
        SAID, format="openai-chat"
    )


async def built(block=None, **options):
    """A request of one block that is too large."""
    options = {"budget": 400, "format": "openai-chat", **options}
    return (
        await ContextBuilder(**options).add(Block("said", SAID, **{"evict": TruncateOldest(), **(block or {})})).build()
    )


async def opened(*names, **options):
    """Sessions by name, opened one after the other."""
    sessions = Sessions(Pipeline(budget=Budget(500)), **options)
    for name in names:
        async with sessions.open(name):
            pass


async def brings(_query):
    return [ITEM]


async def stable(load="words", **options):
    prompt = StablePrompt([PromptSection("one", load if callable(load) else lambda: load)], **options)
    await prompt.start()
    if prompt.problems:
        raise AgentctxError(str(prompt.problems))
    return prompt.build()


async def timed(clock):
    decay = Decay(clock=clock)
    decay.add("words")
    decay.access("ctx_1")
    decay.pin("ctx_1")
    return decay.entries()


async def said(found):
    """What a gathering says of the one source that failed."""
    report = (await found).sources[0]
    if report.problem:
        raise AgentctxError(report.problem)


def table(plain, later, folder):
    """What is done with functions of a user's, by what they are; plain and async ones."""
    return {
        "counter of a pipeline": lambda: prepared(FitContextWindow(), counter=plain),
        "counter of a builder": lambda: built(counter=plain),
        "counter of count": lambda: anyio.to_thread.run_sync(lambda: count(SAID, format="openai-chat", counter=plain)),
        "counter of gather": lambda: gather([brings], max_tokens=50, counter=plain),
        "counter of prioritise": lambda: anyio.to_thread.run_sync(lambda: prioritise([ITEM], 50, counter=plain)),
        "counter of ReadOnlyFiles": lambda: anyio.to_thread.run_sync(
            lambda: ReadOnlyFiles(500, root=folder, counter=plain)
        ),
        "counter of Decay": lambda: anyio.to_thread.run_sync(lambda: Decay(counter=plain).add("words")),
        "counter of StablePrompt": lambda: stable(counter=plain),
        "clock of a session": lambda: Session(Pipeline(), format="openai-chat", clock=plain).prepare(SAID),
        "clock of Sessions": lambda: opened("a", clock=plain),
        "clock of Decay": lambda: timed(plain),
        "load of Sessions": lambda: opened("a", load=plain),
        "async load of Sessions": lambda: opened("a", load=later),
        "embed": lambda: prepared(Pack(relevance=Embedded(later))),
        "relevance": lambda: prepared(Pack(relevance=later)),
        "tier_of": lambda: prepared(Tiered(tier_of=plain)),
        "predicate of Protect": lambda: prepared(FitContextWindow(), protect=[Protect.where(plain)]),
        "rule of protection": lambda: prepared(FitContextWindow(), protect=[plain]),
        "condition": lambda: prepared(when(Condition(plain, "mine"), FitContextWindow())),
        "stage": lambda: prepared(later),
        "eviction": lambda: built({"evict": later}),
        "extractor": lambda: built(facts=Facts(later, on=())),
        "formatter": lambda: built(formatter=later),
        "provider": lambda: said(gather([later])),
        "redactor": lambda: said(gather([Environment(redact=plain)])),
        "section": lambda: stable(plain),
    }


TRUE_OF_ANYTHING = {"predicate of Protect", "condition"}
"""What is asked for yes or no: any object is one of them."""


def raises(*_given):
    return 1 / 0


async def raises_later(*_given):
    return 1 / 0


def odd(*_given):
    return object()


async def odd_later(*_given):
    return object()


@pytest.mark.parametrize("what", table(raises, raises_later, None))
@pytest.mark.anyio
async def test_what_raises_is_named(what, tmp_path):
    """The error is of this library, with the function's own as its cause, or it is its own and says where it was."""
    with anyio.fail_after(60), pytest.raises((AgentctxError, ZeroDivisionError)) as caught:
        await table(raises, raises_later, tmp_path)[what]()
    told = " ".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "division by zero" in told
    assert any(word in told for word in ("raised", "while", "load of Sessions", "ZeroDivisionError")), told
    assert isinstance(caught.value, AgentctxError) or "while" in told


@pytest.mark.parametrize("what", sorted(table(odd, odd_later, None).keys() - TRUE_OF_ANYTHING))
@pytest.mark.anyio
async def test_nonsense_is_named(what, tmp_path):
    """What answers something that makes no sense there is named in one error of this library."""
    with anyio.fail_after(60), pytest.raises(AgentctxError):
        await table(odd, odd_later, tmp_path)[what]()
