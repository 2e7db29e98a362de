"""Compare pipelines on recorded sessions, on all workers of a Dask cluster.

Here the cluster is two processes of this machine; pass the address of a scheduler to use another one. The same on the
command line: ``agentctx compare sessions/ --window 33% --executor compare_on_dask:executor``.

    pip install "agentctx-middleware[cli]" distributed
    python examples/compare_on_dask.py examples/sessions
"""

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

from distributed import Client, LocalCluster

from agentctx.comparison import Contender, Measured, compare
from agentctx.replay import Recording
from agentctx.transcripts import read_transcripts


def executor(address: str | None = None) -> Executor:
    """An executor on the scheduler at ``address``; without one, on two processes of this machine."""
    cluster = address or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    return Client(cluster).get_executor()


def sessions(folder: str) -> Iterator[tuple[str, Recording]]:
    """The recorded sessions of a folder, read one by one."""
    for path in sorted(Path(folder).rglob("*.jsonl*")):
        for entry in read_transcripts(str(path)):
            yield entry.place, entry.recording


def main(folder: str, address: str | None = None) -> None:
    """Print a line for each session and pipeline, as they are done."""
    pipelines = [Contender.of(name, preset=name, window=0.33) for name in ("oldest_out", "coding_agent")]
    with executor(address) as cluster:
        for row in compare(sessions(folder), pipelines, executor=cluster, workers=2, model="gpt-5.4"):
            if isinstance(row, Measured):
                seen = row.visible / row.values if row.values else 1
                print(f"{row.session}: {row.pipeline}: ${row.usd:.2f}, {seen:.0%} of what later calls needed visible")
            else:
                print(f"{row.session}: {row.pipeline}: {row.error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
