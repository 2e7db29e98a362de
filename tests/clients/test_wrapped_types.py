"""What a type checker makes of a wrapped client."""

import subprocess
import sys

SNIPPET = """
from typing import assert_type

from agentctx import Pipeline, TrimRounds
from agentctx.clients import wrap


class Client:
    def ask(self) -> str:
        return ""


assert_type(wrap(Client(), Pipeline(TrimRounds(3))), Client)
assert_type(wrap(Client(), Pipeline(TrimRounds(3)), key=lambda body: body["user"]).ask(), str)
"""


def test_a_wrapped_client_type_checks_as_the_client(tmp_path):
    """The type of what ``wrap`` returns is that of the client, under ``mypy --strict``."""
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", str(snippet)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Success"), done.stdout + done.stderr
