import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=Dev", "-c", "user.email=dev@example.org", "-c", "commit.gpgsign=false")
NO_NETWORK = """\
import socket


def refuse(*args, **kwargs):
    raise OSError(f"the network is closed: {args}")


socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs the example as a user would, from anywhere, with no network."""
    folder = tmp_path_factory.mktemp("offline")
    (folder / "sitecustomize.py").write_text(NO_NETWORK, encoding="utf-8")
    path = os.pathsep.join((str(folder), str(REPOSITORY)))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}

    def start(*options):
        command = [sys.executable, str(REPOSITORY / "examples" / "assemble_coding_context.py"), *map(str, options)]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return start


@pytest.fixture
def project(tmp_path):
    """A small project in git, with secrets where projects have them, and a file that is far too long."""
    texts = {
        "README.md": "# Shop\nSells things.\n" + "Words about it.\n" * 3_000,
        "Makefile": "test:\n\tpytest\n",
        "package.json": '{"name": "shop", "dependencies": {"left-pad": "1"}}',
        "requirements.txt": "--index-url https://joe:hunter2@index.example.org/\nattrs\n",
        ".env": "ANYTHING=hunter2\n",
        "src/checkout.py": "API_KEY = 'hunter2'\n\n\ndef checkout():\n    return 1\n" + "# more\n" * 9_000,
        "logs/build.log": "login with password=hunter2\nerror: checkout returned 1\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    for arguments in (("init", "--initial-branch=trunk"), ("add", "."), ("commit", "-m", "Open the shop")):
        subprocess.run([*GIT, *arguments], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def size_of(printed):
    """Tokens of the request, and how many it may have."""
    return [
        int(number.replace(",", "")) for number in re.search(r"request +([\d,]+) tokens of ([\d,]+)", printed).groups()
    ]


def test_this_repository_fits(run):
    """The context of this repository has files, sources and the task, and stays under 16,000 tokens."""
    printed = run("--show")
    tokens, limit = size_of(printed)
    assert 2_000 < tokens <= limit < 16_000
    assert "## Read-only files (do not modify these)" in printed
    assert "### README.md" in printed
    assert "# Where you are" in printed
    assert "[code] " in printed


def test_a_project_in_git_is_told_without_its_secrets(run, project):
    """Branch, commits, manifests, the log and the code of the task are there; no secret is, however it is written."""
    printed = run("--show", "--repository", project, "--task", "Mend the checkout.")
    tokens, limit = size_of(printed)
    assert tokens <= limit
    assert "hunter2" not in printed
    for said in (
        "trunk",
        "Open the shop",
        "left-pad",
        "error: checkout returned 1",
        "def checkout",
        "Mend the checkout.",
    ):
        assert said in printed


def test_what_there_is_no_room_for_is_named(run, project):
    """A file that is too long for its room is not shown, and the example says so."""
    assert "not shown: README.md" in run("--repository", project)


def test_without_git_the_rest_is_there(run, tmp_path):
    """In a folder that is no repository the git source says why it has nothing, and the request is built."""
    (tmp_path / "README.md").write_text("# Shop\n", encoding="utf-8")
    printed = run("--show", "--repository", tmp_path)
    assert "problem: git: SourceError: git: not a git repository" in printed
    assert "### README.md\n```\n# Shop\n```" in printed
    assert size_of(printed)[0] < 1_000


def test_two_runs_say_the_same(run, project):
    """Nothing in the request depends on when it was assembled."""
    assert run("--show", "--repository", project) == run("--show", "--repository", project)
