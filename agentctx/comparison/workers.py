"""Processes of this machine that measure sessions: begun at once, loaded once, and gone when whoever began them is."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context, parent_process
from threading import Thread


def processes(number: int) -> Executor:
    """An executor on so many processes; they begin now, and are ready while sessions are read.

    Where the system can, they are forked from a process that has loaded what they need and does nothing else.

    Args:
        number: How many processes.

    Example:
        >>> from agentctx.comparison import Contender, compare, processes
        >>> from agentctx.replay import Recording
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> pipelines = [Contender.of("all", preset="everything", window=4_000)]
        >>> with processes(1) as executor:
        ...     [row.calls for row in compare([("greeting", Recording(said))], pipelines, executor=executor, workers=1)]
        [1]
    """
    forks = "forkserver" in get_all_start_methods()
    context = get_context("forkserver" if forks else "spawn")
    if forks:
        context.set_forkserver_preload(["agentctx.comparison.loaded"])
    executor = ProcessPoolExecutor(number, context, initializer=_end_with_the_parent)
    for _ in range(number):
        executor.submit(os.getpid)
    return executor


def _end_with_the_parent() -> None:
    """Let this worker end where whoever began it is killed."""
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    Thread(target=wait, daemon=True).start()
