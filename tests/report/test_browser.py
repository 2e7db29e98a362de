"""The page in a real browser: the system's Chromium. Where there is none these tests say that they did not run."""

import json
from pathlib import Path

import axe_core_python
import pytest
import pytest_socket
from browser import CHROMIUM, DRIVER, chromium
from long_session import long_session
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from agentctx import Budget, Pipeline, presets
from agentctx.comparison import Measured
from agentctx.replay import Recording
from agentctx.report import comparison_page, html_page

pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="did not run: no chromium and chromedriver on this machine"
)

AXE = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8")


@pytest.fixture(autouse=True)
def driver_reached():
    """Let the test talk to the browser's driver on this machine."""
    pytest_socket.enable_socket()
    pytest_socket.socket_allow_hosts(["127.0.0.1", "localhost", "::1"], allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


@pytest.fixture(scope="module")
def window():
    """A browser for all tests of this file."""
    pytest_socket.enable_socket()
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def followed(follow, example):
    """The example through the preset for coding agents, with each step."""
    return follow(example("gpt-5.4"), presets.coding_agent(Budget(12_000), "gpt-5.4"))


@pytest.fixture(scope="module")
def page(followed, tmp_path_factory):
    """Its page."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html_page(followed[0]), "utf-8")
    return path


@pytest.fixture
def shown(window, page):
    """The browser with the page."""
    return window.show(page)


ROWS = """
const session = report.session, calls = [];
for (let call = 1; call <= session.count; call++) {
  const rows = [];
  for (let place = session.heads; place < session.rows(call); place++) {
    const row = session.row(call, place);
    if (session.find(call, row.key) !== place) throw Error(`row ${place} of call ${call} is not found again`);
    if (session.sent(row)) rows.push([row.index ?? null, row.item]);
  }
  calls.push(rows);
}
return calls;
"""


def test_the_rows_at_each_call_are_the_request(window, followed, follow, reverse_the_middle, page, tmp_path):
    """At every call the page's rows are the messages that are sent, in their order, also where some have moved."""
    dialogue = [{"role": role, "content": f"{role} {name}"} for name in "abcde" for role in ("user", "assistant")]
    moved = follow(Recording(dialogue, format="openai-chat"), reverse_the_middle)
    (tmp_path / "moved.html").write_text(html_page(moved[0]), "utf-8")
    for (data, steps), path in ((followed, page), (moved, tmp_path / "moved.html")):
        rows = window.show(path).run(ROWS)
        for step, found in zip(steps, rows, strict=True):
            assert [origin for origin, _ in found] == list(step.view.origins)
            assert [data.items[item] for _, item in found] == list(step.view.context.messages)


def test_a_single_call_and_an_empty_list_are_shown(window, follow, tmp_path):
    """One call fills the charts; where the filters let nothing through, the list says so."""
    hello = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello!"}]
    (tmp_path / "one.html").write_text(
        html_page(follow(Recording(hello, format="openai-chat"), Pipeline())[0]), "utf-8"
    )
    window.show(tmp_path / "one.html")
    middle = "const { plot } = report.window; return [plot.valToPos(1, 'x'), plot.over.clientWidth / 2]"
    at, half = window.run(middle)
    assert at == pytest.approx(half, abs=1)
    assert window.texts("#found") == ["1 row"]
    window.sets("show", "gone")
    window.run("report.redraw()")
    window.settles()
    said = "return getComputedStyle(document.getElementById('list'), '::before').content"
    assert "change the filters" in window.run(said)
    assert window.complaints() == []


def test_nothing_is_loaded_and_nothing_is_refused(shown):
    """The page asks for no address, and its own policy, which forbids all of them, refuses none of its parts."""
    shown.run("report.go(3)")
    shown.settles()
    assert shown.complaints() == []
    assert shown.run("return performance.getEntriesByType('resource').length") == 0


TABLE = """
return [...document.querySelector('tbody').rows].map((row) => [...row.cells].map((cell) => cell.textContent))
"""


def test_every_number_of_a_call_is_the_reports(shown, followed):
    """The line of a call, the legend and the table have the numbers of its step."""
    data, steps = followed
    number = next(step.number for step in steps if step.compacted)
    step = steps[number - 1]
    shown.goes(number)
    line = shown.texts("#call-line")[0]
    assert f"{step.tokens_sent:,} tokens in {step.messages_sent} messages sent" in line
    assert f"of {step.tokens_given:,} in {step.messages_given}" in line
    assert line.endswith("compaction")
    sizes = [f"{size:,}" for size in data.calls[number - 1].kinds if size]
    assert [text for text in shown.texts("#window-legend .value") if text != "0"] == sizes
    shown.run("document.getElementById('numbers').open = true")
    shown.waits("return document.querySelector('tbody').rows.length")
    table = shown.run(TABLE)
    assert [row[3] for row in table] == [f"{step.tokens_sent:,}" for step in steps]
    assert [row[0] for row in table if row[5]] == [str(step.number) for step in steps if step.compacted]
    names = shown.texts("#numbers thead th")
    kinds = [kind for kind in range(len(data.calls[0].kinds)) if any(each.kinds[kind] for each in data.calls)]
    assert [row[6 : 6 + len(kinds)] for row in table] == [[f"{call.kinds[k]:,}" for k in kinds] for call in data.calls]
    assert names[6 + len(kinds) :] == [f"cost {name}" for name in shown.texts("#cost-legend .name")]
    assert {len(row) for row in table} == {len(names)}
    shown.run("document.getElementById('history').click()")
    assert f"full history\n{step.tokens_given:,}" in shown.texts("#window-legend li")


def test_it_is_used_by_the_keyboard(shown, followed):
    """Arrow keys go from call to call on the slider and from message to message in the list, and Tab reaches both."""
    steps = followed[1]
    slider = shown.driver.find_element(By.ID, "call")
    slider.send_keys(Keys.HOME)
    shown.settles()
    slider.send_keys(Keys.ARROW_RIGHT)
    shown.settles()
    assert shown.texts("#call-number") == [f"2 of {len(steps)}"]
    assert "call 2 of" in slider.get_attribute("aria-valuetext")
    shown.run("document.activeElement.blur()")
    shown.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.ARROW_RIGHT)
    shown.settles()
    assert shown.texts("#call-number") == [f"3 of {len(steps)}"]
    rows = shown.driver.find_element(By.ID, "list")
    rows.send_keys(Keys.END)
    rows.send_keys(Keys.ARROW_UP)
    chosen = shown.driver.find_element(By.ID, rows.get_attribute("aria-activedescendant"))
    assert chosen.get_attribute("textContent").startswith(f"{steps[2].index - 2}tool")
    assert shown.texts("#message h3")[0].startswith(f"Message {steps[2].index - 2}")
    reached = []
    shown.run("document.activeElement.blur()")
    for _ in range(24):
        shown.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(shown.run("return document.activeElement.id"))
    assert {"theme", "history", "call", "search", "show", "kind", "compare", "base", "list", "message"} <= set(reached)


def test_a_message_says_what_became_of_it(shown, followed):
    """What was left out is there with stage, reason and words; what was edited as sent, as it was, and as a diff."""
    data, steps = followed
    last = steps[-1]
    gone = next(change for change in last.view.report.in_force if change.is_gone and change.role == "tool")
    shown.run("report.rows.chooseKey('g' + arguments[0])", gone.index)
    said = shown.texts("#message")[0]
    assert "left out" in said
    assert gone.stage in said
    assert gone.reason in said
    assert data.items[data.given[gone.index]].parts[0].text.strip().splitlines()[0] in said
    edited = next(change for change in last.view.report.in_force if change.outcome.value == "edited")
    shown.run("report.rows.chooseKey('g' + arguments[0])", edited.index)
    assert shown.texts("#message .tabs button") == ["As sent", "Original", "Difference"]
    shown.driver.find_elements(By.CSS_SELECTOR, "#message .tabs button")[2].click()
    assert shown.texts("#message .difference del")
    recap = shown.run("report.rows.chooseKey('a0'); return document.getElementById('message').innerText")
    assert "[Recap of " in recap


def said_by(message):
    """All that a message says."""
    results = (result.text for result in message.results)
    return "\n".join([message.text, *results, *(call.name + call.arguments for call in message.calls)])


def test_search_and_the_difference_between_two_calls(shown, followed):
    """A search leaves the rows that say it; the comparison leaves those that became something else."""
    data, steps = followed
    shown.sets("search", "budget")
    shown.waits("return report.matches")
    shown.settles()
    matching = {item for item, message in enumerate(data.items) if "budget" in said_by(message).lower()}
    rows = shown.rows()
    assert 0 < len(rows) < steps[-1].index
    assert all(item in matching or (index is not None and data.given[index] in matching) for item, index in rows)
    assert shown.texts("#found") == [f"{len(rows)} rows"]
    hidden = next(row for row in rows if row[1] is not None and row[0] >= 0 and row[0] not in matching)
    shown.run("report.rows.chooseKey('g' + arguments[0])", hidden[1])
    assert "stands in the original" in shown.texts("#message .note")[0]
    assert shown.texts("#message mark") == []
    shown.driver.find_elements(By.CSS_SELECTOR, "#message .tabs button")[1].click()
    assert {text.lower() for text in shown.texts("#message mark")} == {"budget"}
    shown.sets("search", "§")  # one letter is a search, too
    shown.waits("return report.matches?.size === 0")
    shown.settles()
    assert shown.texts("#found") == ["nothing found"]
    shown.sets("search", "")
    shown.waits("return !report.matches")
    cut = next(step.number for step in steps if step.compacted)
    shown.goes(cut)
    shown.sets("base", cut - 1)
    changed = {change.index for change in data.changes if change.call == cut}
    new = set(range(steps[cut - 2].index, steps[cut - 1].index))
    assert {index for _, index in shown.rows()} == changed | new | {None}
    assert "differ from call" in shown.texts("#found")[0]
    shown.run("report.rows.chooseKey('a0')")
    assert shown.texts("#message .tabs button") == []  # the recap is new: there is nothing to compare it with
    edited = next(row for row in steps[-1].view.report.in_force if row.outcome.value == "edited")
    seen = next(step.number for step in steps if step.index > edited.index)
    shown.goes(len(steps))
    shown.sets("base", seen)
    shown.run("report.rows.chooseKey('g' + arguments[0])", edited.index)
    assert shown.texts("#message .tabs [aria-pressed=true]") == ["Difference"]
    for wrong in ("", "0", "-5", "9999999"):
        shown.sets("base", wrong)
        assert shown.texts("#found") == [f"compare with a call from 1 to {len(steps)}"]
        assert shown.run("return report.rows.places") is None  # all rows


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_fault(window, page, scheme):
    """The rules of axe-core for access hold, in both colour schemes, with a message open and two calls compared."""
    window.show(page, scheme=scheme)
    window.goes(window.run("return report.session.compactions()[0]"))
    window.run("for (const name of ['compare', 'history']) document.getElementById(name).click()")
    window.run("document.getElementById('numbers').open = true")
    window.settles()
    window.run("report.rows.choose(2)")
    window.run(AXE)
    found = window.driver.execute_async_script("axe.run().then(arguments[0])")
    assert [(fault["id"], [node["html"] for node in fault["nodes"]][:3]) for fault in found["violations"]] == []
    assert len(found["passes"]) > 20


MARKED = """
const made = marked(arguments[0], arguments[1]), said = [...made.childNodes];
return [said.filter((each) => each.nodeName === 'MARK').map((each) => each.textContent), made.textContent];
"""


def test_a_mark_is_on_what_was_searched_for(shown):
    """Whatever stands before it and whatever a pattern would make of it, and the text stays what it is."""
    for text, words, marks in (
        ("İİ the Budget", "budget", ["Budget"]),
        ("a.b axb (a.B)", "a.b", ["a.b", "a.B"]),
        ("[x] \\d+ {2} ^$", "\\d+ {2} ^$", ["\\d+ {2} ^$"]),
        ("文字と文", "文", ["文", "文"]),
    ):
        assert shown.run(MARKED, text, words) == [marks, text]


def test_what_was_called_is_shown_as_it_was_written(shown):
    """Numbers that a browser would round, a name that is there twice and the order stay; a line a value."""
    said = r'{"id": 12345678901234567890, "a": 1.10, "a": [], "b": {"c": [1, {}], "d": "x: {y}, \u00e9 \"q\""}}'

    def read(text):
        return json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)

    assert read(shown.run("return indented(arguments[0])", said)) == read(said)
    assert shown.run("return indented(arguments[0])", '{"a":[1,{"b":"é"}],"c":{}}') == (
        '{\n  "a": [\n    1,\n    {\n      "b": "é"\n    }\n  ],\n  "c": {}\n}'
    )


def test_no_text_turns_the_order_of_its_letters_around(shown):
    """Marks of direction and control characters are seen as signs, in the list, in a message and in a difference."""
    said = "\u202eabc\u2066 \x1b[31m \x00 עברית\u200f\ttab\n"
    seen = "\ufffdabc\ufffd ␛[31m ␀ עברית\u200f\ttab\n"
    assert shown.run("return visible(arguments[0])", said) == seen
    assert shown.run(MARKED, said, "abc") == [["abc"], seen]


PAPER = """
const style = getComputedStyle(document.documentElement), list = document.getElementById('list');
return [style.getPropertyValue('--page').trim(), document.querySelectorAll('.row:not([hidden])').length,
  Math.max(...[...document.querySelectorAll('.u-wrap')].map((each) => each.clientWidth)), list.clientHeight];
"""


def test_on_paper_it_is_light_and_whole(window, page):
    """A page that is dark and wide on the screen is printed light, with all its rows, no wider than paper."""
    window.show(page, width=1900, scheme="dark")
    before = window.run(PAPER)
    window.run("dispatchEvent(new Event('beforeprint'))")
    window.settles()
    colour, rows, wide, _ = window.run(PAPER)
    assert colour == "#f5f6f8"
    assert rows == window.run("return report.rows.length")
    assert wide <= 650
    window.run("dispatchEvent(new Event('afterprint'))")
    window.waits("return true")
    after = window.run(PAPER)
    assert [before[0], before[2:]] == [after[0], after[2:]]


def test_a_narrow_window_has_no_sideways_scrolling(window, page):
    """On 360 and on 300 pixels everything stands below each other."""
    ends = "return [...document.querySelectorAll('.u-wrap')].map((each) => each.getBoundingClientRect().right)"
    for width in (360, 300):
        window.show(page, width=width, height=800)
        assert window.run("return document.documentElement.scrollWidth") <= width
        assert max(window.run(ends)) <= width


def test_a_page_without_content_and_one_without_a_call(window, followed, follow, tmp_path):
    """A page without content says so in the place of the texts; a recording without a model call says that."""
    (tmp_path / "bare.html").write_text(html_page(followed[0], content=False), "utf-8")
    window.show(tmp_path / "bare.html").run("report.rows.chooseKey('g0')")
    assert "--no-content" in window.texts("#message")[0]
    hello = Recording([{"role": "assistant", "content": "Hello"}], format="openai-chat", pending=False)
    (tmp_path / "none.html").write_text(html_page(follow(hello, Pipeline())[0]), "utf-8")
    said = window.show(tmp_path / "none.html").texts("#trouble")
    assert said == ["This recording has no model call: there is no prompt to show."]


CELLS = """
const rows = [...document.getElementById(arguments[0]).tBodies[0].rows];
return rows.map((row) => [...row.cells].map((each) => each.innerText));
"""


def test_a_comparison_has_its_sums_and_sorts(window, tmp_path):
    """Sums are those of the sessions that all pipelines have been through; a heading sorts; axe finds no fault."""
    costs = {("one", "a"): 1.0, ("one", "b"): 2.0, ("two", "a"): 8.0, ("two", "b"): 0.5, ("three", "b"): 9.0}
    rows = [
        Measured(session, session, pipeline, "gpt-5.4", 8_000, 5, 900, 600, 300, usd, values=4, visible=3)
        for (session, pipeline), usd in costs.items()
    ]
    (tmp_path / "compared.html").write_text(comparison_page(rows), "utf-8")
    window.show(tmp_path / "compared.html")
    assert [row[:3] for row in window.run(CELLS, "sums")] == [["a", "$9.00", "75.0%"], ["b", "$2.50", "75.0%"]]
    window.driver.find_elements(By.CSS_SELECTOR, "#each .heading")[2].click()
    assert window.run(CELLS, "each") == [
        ["two", "$8.00", "$0.5000"],
        ["one", "$1.00", "$2.00"],
        ["three", "-", "$9.00"],
    ]
    window.sets("search", "tw")
    assert [row[0] for row in window.run(CELLS, "each")] == ["two"]
    ends = "const side = document.getElementById('sums').parentElement; return side.scrollWidth - side.clientWidth"
    for width in (1280, 1440, 1500, 1920):  # no number of the sums is out of sight
        window.size(width, 1000)
        assert window.run(ends) <= 0
    window.run(AXE)
    assert [
        fault["id"] for fault in window.driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    ] == []
    assert window.complaints() == []


def test_what_is_too_large_is_no_best_and_models_are_told_apart(window, tmp_path):
    """What could not be sent wins no column, and its dot is a ring; sums are those of one model where one is chosen."""

    def row(pipeline, model, usd, overflowed=0):
        numbers = {"usd": usd, "values": 4, "visible": 2 + (overflowed > 0), "overflowed": overflowed}
        return Measured("one", "one", pipeline, model, 8_000, 5, 900, 600, 300, **numbers)

    costs = [("all", "m1", 0.1, 3), ("a", "m1", 0.225), ("b", "m1", 0.25), ("all", "m2", 9.0), ("a", "m2", 4.0)]
    (tmp_path / "models.html").write_text(comparison_page([row(*each) for each in costs] + [row("b", "m2", 5.0)]))
    window.show(tmp_path / "models.html")
    best = "return [...document.querySelectorAll('#sums .best')].map((each) => each.innerText)"
    assert window.run(best) == ["$4.23"]
    assert window.texts("#each tbody th") == ["one · m1", "one · m2"]
    window.run(
        "const model = document.getElementById('model'); model.value = 0; model.dispatchEvent(new Event('change'))"
    )
    assert [row[1] for row in window.run(CELLS, "sums")] == ["$0.1000", "$0.2250", "$0.2500"]
    assert window.run(best) == ["$0.2250"]
    assert window.run("return document.querySelectorAll('.ring').length") == 1
    assert "all $0.1000, 75.0%, with requests that are too large" in window.run(
        "return document.getElementById('scatter').getAttribute('aria-label')"
    )
    assert window.texts("#each tbody th") == ["one · m1"]
    inks = "return [...document.querySelectorAll('.dot')].map((each) => each.style.borderColor)"
    assert len(set(window.run(inks))) == 3
    assert window.complaints() == []


def test_two_thousand_calls_stay_small(window, tmp_path):
    """A session of 2,000 calls and 5 MB is a page under 5 MB with fewer than 1,500 elements."""
    data, size = long_session()
    assert size > 5_000_000
    assert len(data.calls) >= 2_000
    page = tmp_path / "long.html"
    page.write_text(html_page(data), "utf-8")
    assert page.stat().st_size < 5_000_000
    window.show(page)
    assert window.run("return document.querySelectorAll('*').length") < 1_500
