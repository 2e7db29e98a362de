"""What a user names by ``module:name`` and fails when it is imported, called or used: one line that names it."""

import importlib
import json
import sys

import anyio
import pytest

from agentctx.stores import SQLiteStore

OWN = """
import sys
from agentctx import FitContextWindow, Pipeline

class Strange(BaseException):
    pass

class Plain:
    def encrypt(self, content):
        return content
    def decrypt(self, content):
        return content

class Leaves(Plain):
    def decrypt(self, content):
        sys.exit(7)

def failing(error):
    def made(*given):
        raise error
    return made

exits, closes, panics = failing(SystemExit(7)), failing(GeneratorExit("closed")), failing(Strange("odd"))
interrupts, fails = failing(KeyboardInterrupt()), failing(ValueError("boom"))
late = Pipeline(exits, FitContextWindow())
"""
MAKERS = {
    "exits": "it called sys.exit(7)",
    "closes": "GeneratorExit: closed",
    "panics": "Strange: odd",
    "fails": "ValueError: boom",
}


@pytest.fixture
def named(tmp_path, monkeypatch, jsonl, chat):
    """A module of a user's in the working directory, with a session and a store; gives the module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "users_own", raising=False)
    (tmp_path / "users_own.py").write_text(OWN)
    (tmp_path / "users_exit.py").write_text("import sys\nsys.exit(3)\n")
    jsonl(chat(2, words=20))
    return importlib.import_module("users_own")


def commands(name):
    """Every way to name something on the command line, with what is said before the error."""
    size = ("--window", "8k")
    yield "--pipeline", ("report", "session.jsonl", "--pipeline", name, *size)
    yield "--pipeline", ("replay", "session.jsonl", "--pipeline", name, *size)
    yield name, ("compare", "session.jsonl", "-p", name, *size, "--jobs", "1")
    yield "--executor", ("compare", "session.jsonl", "--executor", name, *size)
    yield "--cipher", ("recall", "handle", "--store", "context.db", "--cipher", name)


@pytest.mark.parametrize("maker", MAKERS)
def test_a_maker_that_fails_is_one_line(run, named, maker):
    """Whatever it raises: what asked for it, its name and what it raised, and no command ends by sys.exit's code."""
    name = f"users_own:{maker}"
    for where, command in commands(name):
        told = run(*command)
        assert f"{where}: calling {name} failed: {MAKERS[maker]}" in " ".join(told.stderr.split()), command
        assert told.exit_code in {1, 2}
        assert "Traceback" not in told.output


def test_a_maker_that_is_interrupted_interrupts(run, named):
    """An interrupt is no failure of a maker's: every command ends as interrupted."""
    for _, command in commands("users_own:interrupts"):
        assert run(*command).exit_code == 130, command


def test_a_module_that_exits_is_one_line(run, named):
    """What a module does when it is imported is told the same way."""
    for where, command in commands("users_exit:pipeline"):
        told = run(*command)
        place = "--pipeline" if where.startswith("users") else where
        assert f"{place}: users_exit:pipeline: cannot be imported: it called sys.exit(3)" in told.stderr, command
        assert told.exit_code == 2


def test_a_cipher_that_exits_is_an_error_of_the_store(run, named, tmp_path):
    """Also where the cipher was made and fails when it is used."""

    async def fill():
        async with SQLiteStore(tmp_path / "context.db", cipher=named.Plain()) as store:
            return await store.put(b"something to keep")

    handle = anyio.run(fill)
    told = run("recall", handle, "--store", "context.db", "--cipher", "users_own:Leaves")
    assert told.exit_code == 2
    assert "cannot be decrypted: Leaves raised it called sys.exit(7)" in " ".join(told.stderr.split())


def test_a_stage_that_exits_is_an_error_of_its_pipeline(run, named):
    """``replay`` and ``report`` name the pipeline; no call is told of as sent."""
    for command in ("replay", "report"):
        told = run(command, "session.jsonl", "--pipeline", "users_own:late", "--window", "8k")
        assert (told.exit_code, told.stdout) == (2, "")
        assert "--pipeline users_own:late: it called sys.exit(7)" in told.stderr


def test_a_stage_that_closes_costs_its_own_row(run, named):
    """``compare`` goes on with the next pipeline whatever a stage raises."""
    for stage in ("exits", "closes", "panics"):
        named.late = named.Pipeline(getattr(named, stage), named.FitContextWindow())
        asked = ("compare", "session.jsonl", "-p", "users_own:late", "-p", "oldest_out", "--window", "8k", "--json")
        told = run(*asked, "--jobs", "1")
        assert [json.loads(line)["pipeline"] for line in told.stdout.splitlines()] == ["oldest_out"], stage
        assert told.exit_code == 1
        assert f"users_own:late: {MAKERS[stage]}" in told.stderr
