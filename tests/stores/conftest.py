import importlib.util
from pathlib import Path
from uuid import uuid4

import pytest

from agentctx.stores import MemoryStore, PostgresStore, RedisStore, SQLiteStore

KINDS = ["memory", "sqlite", "redis", "postgres"]


@pytest.fixture(scope="session")
def servers_module():
    """What starts servers, for tests that want one of their own."""
    spec = importlib.util.spec_from_file_location("servers", Path(__file__).parent / "servers.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def servers(tmp_path_factory, worker_id, servers_module):
    """Where the servers are that all tests share, those of other workers too."""
    base = tmp_path_factory.getbasetemp()
    with servers_module.servers(base if worker_id == "master" else base.parent) as places:
        yield places


@pytest.fixture(params=KINDS)
def kind(request):
    """The name of a kind of store."""
    return request.param


@pytest.fixture
def make(kind, tmp_path, request):
    """Make a store of that kind at a place."""
    if kind in {"redis", "postgres"}:
        servers, run = request.getfixturevalue("servers"), uuid4().hex[:8]
    memories = {}

    def make_store(place="place", **options):
        if kind == "memory":
            store = memories.setdefault(place, MemoryStore(**options))
            store.cipher = options.get("cipher")
            return store
        if kind == "sqlite":
            return SQLiteStore(tmp_path / place / "context.db", timeout=30, **options)
        if kind == "redis":
            return RedisStore(servers["redis"], prefix=f"{place}-{run}", timeout=30, **options)
        return PostgresStore(servers["postgres"], schema=f"{place}_{run}", timeout=30, **options)

    return make_store
