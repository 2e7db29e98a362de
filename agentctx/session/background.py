"""Work of stages ahead of their time: begun after a step, and of use as long as the view still begins the same.

It lives in the task group of ``async with session:``, and ends with that block. A step that needs what is under way
waits for it as it waits for another step, so that two that wait for each other are told so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup
from attrs import define, evolve, field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Native
from agentctx.offload import offload
from agentctx.protocols import Call, ContextStrategy, declared
from agentctx.session.lock import Deadlock, SessionLock, Within, Work, running_loop
from agentctx.session.step_context import Step
from agentctx.users_code import FAILURES, WAS_CANCELLED, described, is_cancelled

NO_BLOCK = "not in the background, which takes `async with session:` around the steps"


@frozen(eq=False, repr=False)
class _Block:
    """An ``async with session:`` that is open, and the task and the event loop that it was entered in."""

    group: TaskGroup
    task: int
    loop: Native


@define(eq=False, repr=False)
class _Job:
    """What a stage works out in the background.

    Args:
        stage: The stage.
        context: What it works on: a request that begins otherwise has no use for it.
        block: In which block it does.
        made: What it has worked out.
        problem: Why there is nothing.
        ended: Whether it is done, also where it failed.
        spent: Whether the last view began otherwise: a step that is taken back may still want it.
        scope: Cancelled where it is given up.
        lock: Held until it has ended.
    """

    stage: ContextStrategy
    context: Context
    block: _Block
    made: object = None
    problem: str = "it was cancelled"
    ended: bool = False
    spent: bool = False
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    lock: SessionLock = field(factory=SessionLock)

    def holds(self, messages: Sequence[Message]) -> bool:
        """Whether messages begin with those that it works on."""
        known = self.context.messages
        return tuple(messages[: len(known)]) == known

    async def run(self, work: Work, budget: Budget, call: Call) -> None:
        """Work it out."""
        try:
            with self.scope, Within(work):
                aim = await offload(lambda: budget.target_above(call.floor(self.context)), len(self.context.messages))
                self.made = await declared(self.stage).ahead(self.context, evolve(call, limit=aim))
                self.ended, self.problem = True, ""
        except FAILURES as error:  # whatever the user's summarizer raises, no step has asked for it yet
            self.ended, self.problem = True, described(error)
        except anyio.get_cancelled_exc_class():
            if is_cancelled() or self.scope.cancel_called:
                raise
            self.ended, self.problem = True, f"it {WAS_CANCELLED}"
        finally:
            self.lock.leave()


@define(eq=False, repr=False)
class Background:
    """What the stages of a session work out in the background.

    Args:
        blocks: The blocks that are open.
    """

    blocks: list[_Block] = field(factory=list)
    _jobs: list[_Job] = field(factory=list, init=False)

    async def open(self) -> None:
        """Begin a block."""
        group = anyio.create_task_group()
        await group.__aenter__()
        self.blocks.append(_Block(group, anyio.get_current_task().id, running_loop()))

    async def close(self) -> None:
        """End the block that this task has begun last, and what goes on in it."""
        here = anyio.get_current_task().id
        block = next((each for each in reversed(self.blocks) if each.task == here), self.blocks[-1])
        self.blocks.remove(block)
        self._jobs = [job for job in self._jobs if job.ended or job.block is not block]
        block.group.cancel_scope.cancel()
        await block.group.__aexit__(None, None, None)

    def begin(self, step: Step) -> None:
        """After a step: give up what is of no use any more, and let the stages work ahead whose time has come."""
        view, budget, stages = step.record.view, step.ctx.budget, step.ctx.plan.working_ahead
        for job in list(self._jobs):
            if job.holds(view):
                job.spent = False
            elif job.ended and not job.spent:
                job.spent = True
            else:
                self._give_up(job)
        block = next((each for each in reversed(self.blocks) if stages and each.loop is running_loop()), None)
        if block is None or budget is None or not step.record.final:
            return
        for stage in stages:
            share = declared(stage).background or 1.0
            if step.trail.tokens > share * budget.trigger_tokens and self._job_of(stage, view) is None:
                self._start(_Job(stage, step.ctx.context(view[: step.record.final]), block), budget, step.call())

    def _start(self, job: _Job, budget: Budget, call: Call) -> None:
        self._jobs.append(job)
        alone = evolve(call, before=None, shelf=None)
        job.block.group.start_soon(job.run, job.lock.enter_first(), budget, alone)

    def _give_up(self, job: _Job) -> None:
        self._jobs.remove(job)
        if job.block in self.blocks and job.block.loop is running_loop():
            job.scope.cancel()

    def _job_of(self, stage: ContextStrategy, messages: Sequence[Message]) -> _Job | None:
        return next((job for job in self._jobs if job.stage is stage and job.holds(messages)), None)

    async def of(
        self, messages: Sequence[Message], remark: Callable[[str], None], stage: ContextStrategy
    ) -> object | None:
        """What a stage has worked out for a request of these messages; None where it has nothing.

        Args:
            messages: Those of the request, before any stage has changed it.
            remark: Is told why there is nothing.
            stage: The stage.
        """
        job = self._job_of(stage, messages)
        if job is None:
            if any(job.stage is stage and not job.spent for job in self._jobs):
                remark("not from the background: what it was made of has changed since")
            elif not self.blocks:
                remark(NO_BLOCK)
            return None
        try:
            async with job.lock:
                pass
        except Deadlock as error:
            job.problem = str(error)
        if job.problem:
            remark(f"not from the background: {job.problem}")
        return job.made
