"""The system's Chromium, driven by Selenium; no browser is downloaded."""

from contextlib import contextmanager
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from selenium import webdriver

CHROMIUM, DRIVER = which("chromium"), which("chromedriver")

_QUIET = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


@contextmanager
def chromium():
    """A browser with a profile of its own, which is gone when the block ends."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in (*_QUIET, f"--user-data-dir={profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            yield Browser(driver)
        finally:
            driver.quit()


class Browser:
    """One window that shows a page.

    Args:
        driver: Selenium's driver.
    """

    def __init__(self, driver):
        self.driver = driver

    def show(self, path: Path, width=1440, height=1000, scheme="light"):
        """Load a page from a file, in a window of this size, and wait until it has drawn itself."""
        self.size(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get_log("browser")
        self.driver.get(path.as_uri())
        self.waits("return document.body.dataset.ready || !document.getElementById('trouble').hidden")
        return self

    def size(self, width, height, scale=1):
        """Give the window a size, in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script, *arguments):
        """The value of a script."""
        return self.driver.execute_script(script, *arguments)

    def waits(self, script):
        """Wait until a script says yes, looked at before each frame, and the frame after is drawn."""
        self.driver.set_script_timeout(120)
        asks = f"const yes = () => {{ {script} }}, done = arguments[0];"
        look = "const look = () => yes() ? requestAnimationFrame(() => setTimeout(done)) : setTimeout(look, 10); look()"
        self.driver.execute_async_script(asks + look)

    def settles(self):
        """Wait until what was asked for is drawn."""
        self.waits("return !window.report || !report.waiting")

    def sets(self, name, value):
        """Give a field a value, as one who types it."""
        self.run(
            "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input'))",
            name,
            value,
        )
        self.settles()

    def goes(self, call):
        """Go to a model call."""
        self.run("report.go(arguments[0])", call)
        self.settles()

    def rows(self):
        """The rows that the filters let through, as item and index in the history; what stands before it left out."""
        return self.run(
            "const { session, call, rows } = report;"
            "return (rows.places ?? []).map((place) => session.row(call, place))"
            ".filter((row) => row.head === undefined).map((row) => [row.item, row.index ?? null])"
        )

    def texts(self, selector):
        """The texts of the elements that a selector finds and that are seen."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].filter((each) => each.checkVisibility())"
            ".map((each) => each.innerText)",
            selector,
        )

    def complaints(self):
        """What the browser has written on its console: errors of scripts, what the page's policy refused."""
        return [line["message"] for line in self.driver.get_log("browser")]

    def screenshot(self, path: Path):
        """Write what is seen as a picture."""
        self.driver.save_screenshot(str(path))
