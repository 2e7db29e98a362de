# ruff: noqa: INP001 - a script, not a package
"""Make docs/report.png: the page of the session that comes with the project, as the system's Chromium shows it.

Run as ``.venv/bin/python scripts/report_picture.py``.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests/report"))

from browser import chromium  # noqa: E402 - it stands with the tests of the page

from agentctx import Budget, presets  # noqa: E402
from agentctx.report import html_page, session_data  # noqa: E402
from agentctx.transcripts import read_transcripts  # noqa: E402

MODEL = "claude-sonnet-4-5"
CALL, MESSAGE, TOP = 20, "g28", "g17"
"""The call that is shown, the message that is open, whose middle was cut, and the first of the list in sight."""


def main() -> None:
    """Write the picture."""
    recording = next(read_transcripts(str(ROOT / "examples/sessions/coding_agent.jsonl"))).recording
    pipeline = presets.coding_agent(Budget(16_000, 4_000), MODEL)
    data = anyio.run(lambda: session_data(recording, pipeline, model=MODEL))
    with TemporaryDirectory() as folder, chromium() as browser:
        page = Path(folder) / "report.html"
        page.write_text(html_page(data), "utf-8")
        browser.show(page, width=1280, height=1080)
        browser.goes(CALL)
        browser.run("report.rows.chooseKey(arguments[0]); report.pane.view = 'changes'", MESSAGE)
        browser.goes(CALL)
        browser.run("report.rows.list.scrollTop = ROW * report.session.find(report.call, arguments[0])", TOP)
        browser.settles()
        picture = ROOT / "docs/report.png"
        picture.parent.mkdir(exist_ok=True)
        browser.screenshot(picture)


if __name__ == "__main__":
    main()
