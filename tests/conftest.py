"""What every test can ask for: both event loops, the profiles of Hypothesis, no network, the shared recordings."""

import gc
import json
import os
import signal
import sys
import threading
import tomllib
from copy import deepcopy
from functools import partial
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

import anyio
import pytest
import pytest_socket
from hypothesis import HealthCheck, Phase, settings

from agentctx import ContextOverflow, Session

# Each client of an SDK reads all authorities of the machine, in 20 ms; here all is sent to this machine, without TLS.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).with_name("authority.pem"))

# A generated history is a large example: how long one takes says nothing about the code under test.
SLOW_EXAMPLES = (HealthCheck.too_slow, HealthCheck.data_too_large)

# Making a failing history smaller takes up to five minutes: with HYPOTHESIS_PROFILE=dev, when somebody looks at it.
settings.register_profile("dev", max_examples=20, deadline=None, derandomize=True, suppress_health_check=SLOW_EXAMPLES)
settings.register_profile("ci", settings.get_profile("dev"), phases=(Phase.explicit, Phase.generate))
settings.register_profile(
    "nightly", max_examples=10_000, deadline=None, print_blob=True, suppress_health_check=SLOW_EXAMPLES
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)


@pytest.hookimpl(trylast=True)  # when Hypothesis has marked its own
def pytest_collection_modifyitems(items):
    """Begin with what takes longest. Trace no property for coverage, which walks lines of plain tests, and no twin."""
    items.sort(key=lambda item: "recorded" not in getattr(item, "fixturenames", ()))
    for item in items:
        if item.get_closest_marker("hypothesis") or _is_twin(item):
            item.add_marker(pytest.mark.no_cover)


def _is_twin(item):
    return hasattr(item, "callspec") and item.callspec.params.get("anyio_backend") == "trio"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for no garbage while the tests are collected: what is made then stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish():
    """Look for garbage less often, and not among the modules of all SDKs, which stay: it took a fifth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter, config):
    """Say which tests are not here: those that run in environments of their own."""
    here = Path(__file__).parent
    asked = [Path(argument.partition("::")[0]).resolve() for argument in config.args]
    table = tomllib.loads((here / "frameworks" / "environments.toml").read_text(encoding="utf-8"))
    modules = {name: module for each in table.values() for name, module in each["tests"].items()}
    elsewhere = {
        "frameworks": [name for name, module in modules.items() if not is_there(module)],
        "sdks": [path.name for path in sorted(here.glob("sdks/test_*.py"))],
    }
    for folder, names in elsewhere.items():
        if names and {here / folder, here, *here.parents} & {*asked}:
            line = f"tests/{folder}: `sh scripts/{folder}` runs {', '.join(names)}; not collected here"
            terminalreporter.write_line(line)


def is_there(module):
    """Whether a module can be imported, without importing more than the packages around it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def pytest_runtest_setup():
    """Refuse the network to every test; event loops wake themselves up through a unix socket pair."""
    pytest_socket.disable_socket(allow_unix_socket=True)


def pytest_generate_tests(metafunc):
    """Run an async test that is marked ``both_loops`` on each event loop, unless it names its loops itself."""
    test = metafunc.definition
    names_loops = any("anyio_backend" in mark.args[0] for mark in test.iter_markers("parametrize"))
    if test.get_closest_marker("both_loops") and "anyio_backend" in metafunc.fixturenames and not names_loops:
        metafunc.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def anyio_backend():
    """The event loop of an async test: asyncio's, and trio's as well where the test is marked ``both_loops``."""
    return "asyncio"


@pytest.fixture(scope="session")
def shared():
    """The folder of shared recordings and vectors beside the repository, or None where there is none."""
    folder = Path(__file__).parents[1] / "../shared"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def both_loops():
    """Run an async function to its end on each event loop; for properties, whose examples take turns in CI."""
    turns = cycle((("asyncio",), ("trio",))) if PROFILE == "ci" else cycle((("asyncio", "trio"),))

    def run(main, *args):
        for backend in next(turns):
            anyio.run(main, *args, backend=backend)

    return run


@pytest.fixture(scope="session")
def walk():
    """Go through a conversation with a session, in one of the ways that callers go on: an iterator of steps.

    In the mode ``"full"`` the caller keeps the history, ``"rebuilt"`` makes it anew for each step, ``"rolling"`` writes
    each view back, ``"load"`` loads the session's state after each step. Steps that overflow are left out, but not all.
    """

    async def steps(pipeline, messages, mode, stride=1, **of_session):
        session, given, taken = pipeline.session(**of_session), [], 0
        for start in range(0, len(messages), stride):
            given = [*given, *messages[start : start + stride]]
            try:
                view = await session.prepare(deepcopy(given) if mode == "rebuilt" else given)
            except ContextOverflow:
                continue
            taken += 1
            yield given, view
            if mode == "rolling":
                given = list(view.messages)
            elif mode == "load":
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        assert taken, "no step of the walk was looked at"

    return steps


@pytest.fixture(scope="session")
def work():
    """How much a plain function does: the calls made while it runs, also in the threads that it begins.

    They are as many on every machine, unlike the time that they take.
    """

    def calls_of(run):
        calls = []

        def see(_frame, event, _argument):
            if event in {"call", "c_call"}:
                calls.append(1)

        before = sys.getprofile()
        threading.setprofile(see)
        sys.setprofile(see)
        try:
            run()
        finally:
            sys.setprofile(before)
            threading.setprofile(None)
        return len(calls)

    return calls_of


@pytest.fixture(scope="session")
def ends():
    """Run a plain function, and fail where it does not come to an end.

    What is stopped has used a minute of processor time. No test comes near that on any machine: the texts that are
    passed are so long that work which grows with the square of their length takes far longer.
    """

    def stop(_signal, _frame):
        pytest.fail("does not come to an end")

    def run(function, *args):
        before = signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, 60)
        try:
            return function(*args)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)

    return run


@pytest.fixture(params=["stateless", "session"])
def preparing(request):
    """Give the ``prepare`` of a pipeline: its own, remembering nothing, or that of a new session."""

    def prepare_of(pipeline, format_name=None, model=None):
        if request.param == "session":
            return pipeline.session(model=model, format=format_name).prepare
        return partial(pipeline.prepare, format=format_name, model=model)

    return prepare_of
