"""The fixtures for pytest, in tests as a user writes them."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import pytest_socket

from agentctx.testing import pytest_plugin

pytest_plugins = ["pytester"]
ROOT = Path(__file__).parents[2]


class Loaded:
    """Keeps the modules that the tests within a test loaded first: loaded again they would be others."""

    def pytest_unconfigure(self):
        self.modules = {name: module for name, module in sys.modules.items() if not name.startswith("test_")}


@pytest.fixture
def loaded():
    """Put back what pytester forgets, when it has ended."""
    kept = Loaded()
    yield kept
    for name, module in kept.modules.items():
        sys.modules.setdefault(name, module)


@pytest.fixture
def passes(loaded, pytester):
    """Run tests as a user writes them, with the plugin, and say how they end."""
    pytest_socket.enable_socket()
    plugins = ["agentctx", "asyncio", "cacheprovider", "cov", "randomly", "xdist"]
    blocked = [argument for plugin in plugins for argument in ("-p", f"no:{plugin}")]

    def run(source):
        pytester.makepyfile(source)
        done = pytester.runpytest_inprocess("-q", *blocked, "-p", pytest_plugin.__name__, plugins=[loaded])
        return {outcome: count for outcome, count in done.parseoutcomes().items() if "warning" not in outcome}, done

    yield run
    pytest_socket.disable_socket(allow_unix_socket=True)


def test_an_agent_is_tested_on_both_event_loops(passes):
    """A server, a scripted model and a recorder serve plain tests and async ones, on asyncio and trio."""
    ended, _ = passes(
        """
        import json, urllib.request
        import anyio.to_thread, pytest
        from agentctx import FitContextWindow, Pipeline
        from agentctx.testing import ServerFault, assert_fits, assert_task_survives, assistant, call

        SAID = [{"role": "user", "content": "What is in a.py?"}]

        def ask(server):
            body = json.dumps({"model": "gpt-5.4", "messages": SAID}).encode()
            with urllib.request.urlopen(f"{server.base_url}/chat/completions", body) as response:
                return json.load(response)["choices"][0]["message"]

        def test_plain(agentctx_server):
            server = agentctx_server("openai-chat", [assistant(call("c1", "read", {"path": "a.py"})), "It is empty."])
            assert ask(server)["tool_calls"][0]["function"]["name"] == "read"
            assert ask(server)["content"] == "It is empty."
            server.assert_complete()
            assert_task_survives(server.requests, "What is in a.py?")

        def test_fault(agentctx_server):
            server = agentctx_server(answers=[ServerFault.server_error()])
            with pytest.raises(urllib.error.HTTPError, match="500"):
                ask(server)

        @pytest.mark.anyio
        async def test_on_a_loop(agentctx_server, agentctx_model, agentctx_recorder):
            server = agentctx_server()
            assert (await anyio.to_thread.run_sync(ask, server))["content"] == "Done."
            model = agentctx_model(["It is empty."])
            pipeline = Pipeline(FitContextWindow(), budget=60, on_compact=agentctx_recorder)
            messages = [*SAID, {"role": "assistant", "content": "so " * 99}, {"role": "user", "content": "And?"}]
            view = await pipeline.prepare(messages)
            assert_fits(view, 60)
            assert await model(view.messages) == [{"role": "assistant", "content": "It is empty."}]
            assert len(agentctx_recorder.events) == 1
            model.assert_complete()
        """
    )
    assert ended == {"passed": 4}


def test_a_script_is_asked_to_its_end(passes):
    """What was not asked for of a server's script, or a model's, fails the test at its end, unless it is to be so."""
    ended, done = passes(
        """
        import pytest
        from agentctx import ConfigError

        def test_left_of_a_server(agentctx_server):
            agentctx_server("openai-chat", ["One.", "Two."])

        def test_left_of_a_model(agentctx_model):
            agentctx_model(["Three."])

        def test_may_be_left(agentctx_server, agentctx_model):
            agentctx_server("openai-chat", ["One."], complete=False)
            agentctx_model(["Two."], complete=False)

        def test_mistyped(agentctx_server):
            with pytest.raises(ConfigError, match="windw: there is no such option; there is window"):
                agentctx_server(windw=5)
        """
    )
    assert ended == {"passed": 4, "errors": 2}
    done.stdout.fnmatch_lines_random(
        [
            "*2 of 2 answers were not asked for, from this one on: 'One.'*",
            "*1 of 1 answers were not asked for, from this one on: 'Three.'*",
        ]
    )


def test_a_stage_is_held_to_the_laws_in_one_line(passes, pytester):
    """One's own recorded sessions, by a pattern; a stage that breaks a law fails the test, which says which, where."""
    session = (
        '{"id": "own", "messages": [{"role": "user", "content": "Go."}, {"role": "assistant", "content": "Gone."}]}'
    )
    pytester.makefile(".jsonl", sessions=f"{session}\n{session}")
    ended, done = passes(
        """
        import pytest
        from agentctx import TrimRounds

        def test_sound(agentctx_laws):
            assert agentctx_laws(TrimRounds(1), "*.jsonl", budget=8_000) == 2

        @pytest.mark.anyio
        async def test_sound_in_a_loop(agentctx_laws):
            agentctx_laws(TrimRounds(1), ".")

        def loses_the_task(context, call):
            return context.with_messages(context.messages[1:])

        def test_broken(agentctx_laws):
            agentctx_laws(loses_the_task, "sessions.jsonl")

        def test_nothing(agentctx_laws):
            agentctx_laws(TrimRounds(1), "none/*.jsonl")
        """
    )
    assert ended == {"passed": 3, "failed": 2}
    done.stdout.fnmatch_lines_random(
        [
            "*AssertionError: sessions.jsonl, line 1: law 6*",
            "*ConfigError: check_laws_on: there is no recorded session*",
        ]
    )


RUN = """
import json, sys
import pytest

status = pytest.main(["-q", "-W", "error", *sys.argv[1:]])
with open("loaded.json", "w") as file:
    json.dump([status, sorted(sys.modules)], file)
"""
FAILS = 'raise ModuleNotFoundError("No module named {0}", name="{0}")'
HEAVY = ("hypothesis", "regex", "rich", "starlette", "tiktoken", "typer", "uvicorn")


@pytest.mark.parametrize("options", [(), ("-p", "no:agentctx")], ids=["on", "off"])
def test_a_run_without_our_fixtures_loads_the_plugin_and_no_more(tmp_path, options):
    """Where no fixture of ours is used, no extra is needed, nothing is warned of, and no other part is loaded."""
    for name in HEAVY:
        (tmp_path / f"{name}.py").write_text(FAILS.format(name), encoding="utf-8")
    (tmp_path / "run.py").write_text(RUN, encoding="utf-8")
    (tmp_path / "test_sum.py").write_text("def test_sum():\n    assert 1 + 1 == 2\n", encoding="utf-8")
    command = [sys.executable, "run.py", "-p", "no:hypothesispytest", "-p", "no:asyncio", *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    status, modules = json.loads((tmp_path / "loaded.json").read_text(encoding="utf-8"))
    assert (status, done.stderr) == (0, "")
    assert "warning" not in done.stdout
    assert "1 passed" in done.stdout
    ours = {name for name in modules if name.partition(".")[0] == "agentctx"}
    plugin = {"agentctx", "agentctx.lazy", "agentctx.testing", pytest_plugin.__name__}
    assert ours == (set() if options else plugin)
    assert {name.partition(".")[0] for name in modules}.isdisjoint(HEAVY)


def test_the_plugin_is_named_as_pytest_looks_for_plugins():
    """The project file has the entry point by which pytest loads it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"agentctx": pytest_plugin.__name__}
