"""For people who test their agents and strategies: builders of transcripts, fakes, assertions, and the laws.

The local servers are in ``agentctx.testing.servers`` and need ``pip install 'agentctx-middleware[testing]'``. Fixtures
for pytest are there by themselves: see ``agentctx.testing.pytest_plugin``.
"""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.testing.assertions import (
        assert_fits as assert_fits,
        assert_prefix_stable as assert_prefix_stable,
        assert_task_survives as assert_task_survives,
    )
    from agentctx.testing.fakes import (
        CountingCounter as CountingCounter,
        Faults as Faults,
        FlakyError as FlakyError,
        FlakyStage as FlakyStage,
        FlakyStore as FlakyStore,
        Recorder as Recorder,
        ScriptedModel as ScriptedModel,
        ServerFault as ServerFault,
        failing_listener as failing_listener,
        fixed_summarizer as fixed_summarizer,
    )
    from agentctx.testing.laws import check_laws as check_laws, check_laws_on as check_laws_on
    from agentctx.testing.store_laws import check_store as check_store
    from agentctx.testing.writers import (
        assistant as assistant,
        call as call,
        history as history,
        result as result,
        system as system,
        thinking as thinking,
        tool as tool,
        transcript as transcript,
        user as user,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.testing.assertions": "assert_fits assert_prefix_stable assert_task_survives",
            "agentctx.testing.fakes": (
                "CountingCounter Faults FlakyError FlakyStage FlakyStore Recorder ScriptedModel ServerFault "
                "failing_listener fixed_summarizer"
            ),
            "agentctx.testing.laws": "check_laws check_laws_on",
            "agentctx.testing.store_laws": "check_store",
            "agentctx.testing.writers": "assistant call history result system thinking tool transcript user",
        },
    )
