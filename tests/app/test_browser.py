"""One walk through the app in a real browser: what no test without one can see."""

import contextlib
import os
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

from planner.commands.app import DATABASE, streamlit_words

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is in the extra dev")
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="no chromium: apt-get install chromium chromium-driver"
    ),
]

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1400,1900",
)  # fmt: skip
PATIENCE_S = 90.0
"""The first paint took 47 s on a loaded machine."""


@pytest.fixture
def address(stored):
    """The app in a process of its own, as `planner app` starts it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*streamlit_words(port, has_window=False), "--server.fileWatcherType", "none"]
    environment = {**os.environ, DATABASE: str(stored.db)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    try:
        answers = f"http://127.0.0.1:{port}/_stcore/health"
        until(lambda: urllib.request.urlopen(answers, timeout=1).status == 200, OSError)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture
def browser(tmp_path):
    """A headless Chromium with a profile of its own."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def drawn_anew():
    """What a reading raises while the page is drawn: an element that went, or is not there yet."""
    from selenium.common.exceptions import StaleElementReferenceException

    return (StaleElementReferenceException, IndexError, ValueError, StopIteration)


def until(is_so, *ignored):
    """Wait until something is so; a page that is drawn meanwhile is read again."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with contextlib.suppress(*drawn_anew(), *ignored):
            if is_so():
                return
        assert time.monotonic() < deadline, "the page did not get there in time"
        time.sleep(0.1)


def found(browser, css):
    return browser.find_elements("css selector", css)


def settled(browser):
    """Wait until the script has run and everything it drew is there."""

    def is_calm():
        (app,) = found(browser, '[data-testid="stApp"]')
        return app.get_attribute("data-test-script-state") == "notRunning" and found(browser, "h1")

    until(is_calm)
    time.sleep(0.3)  # the state falls to notRunning for a moment between two reruns
    until(is_calm)


def says(browser, words):
    """Wait until the page, without its side bar, has these words."""
    until(lambda: words in found(browser, '[data-testid="stMain"]')[0].text)


def done(act):
    """Do something to the page, again if it is drawn anew under the hand."""

    def is_done():
        act()
        return True

    until(is_done)


def turn(browser, address, title):
    """Open a page by the menu."""
    css = f'a[data-testid="stSidebarNavLink"][href$="/{address}"]'
    done(lambda: found(browser, css)[0].click())
    until(lambda: title in [h.text for h in found(browser, "h1")])
    settled(browser)
    assert not found(browser, '[data-testid="stException"]')


def press(browser, words):
    """Press the button that says this."""
    done(lambda: next(b for b in found(browser, "button") if b.text == words).click())


def marks(browser):
    """The points of the chart by the plan that each stands for."""
    css = '[data-testid="stVegaLiteChart"] path[aria-roledescription="point"]'
    named = {mark.get_attribute("aria-label"): mark for mark in found(browser, css)}
    return {name: mark for name, mark in named.items() if " @ " in name}


def chosen(browser):
    """The plan that the side bar shows."""
    css = '[data-testid="stSidebar"] [data-testid="stSelectbox"] input'
    return found(browser, css)[1].get_attribute("value")


def test_a_walk_through_every_page(browser, address, stored, tmp_path):
    """A click would open another plan, a slider do nothing, or a page end in an error."""
    browser.get(address)
    settled(browser)
    until(lambda: len(marks(browser)) == len(stored.front["plan"]))
    before, clicked = chosen(browser), []

    def click_another():
        plan, mark = next((p, m) for p, m in marks(browser).items() if p != before)
        webdriver.ActionChains(browser).move_to_element(mark).click().perform()
        clicked[:] = [plan]

    done(click_another)
    (plan,) = clicked
    until(lambda: chosen(browser) == plan)
    settled(browser)
    browser.save_screenshot(str(tmp_path / "front.png"))
    turn(browser, "why", "Why is this plan what it is?")
    says(browser, plan)
    turn(browser, "what-if", "What if prices change?")
    slider = 'input[type="range"][aria-label^="Carbon price"]'
    done(lambda: found(browser, slider)[0].send_keys(webdriver.Keys.END))
    says(browser, "costing.carbon_usd_per_t=")
    settled(browser)
    turn(browser, "decide", "Which plan to take?")
    until(lambda: found(browser, "canvas"))
    browser.save_screenshot(str(tmp_path / "decide.png"))
    turn(browser, "removed", "What did the limits remove?")
    turn(browser, "assumptions", "What do the figures rest on?")
    browser.save_screenshot(str(tmp_path / "assumptions.png"))
    turn(browser, "report", "What do I show those who decide?")
    press(browser, "Make the report")
    until(lambda: any("Download" in b.text for b in found(browser, "button")))
    settled(browser)
    browser.save_screenshot(str(tmp_path / "report.png"))
    turn(browser, "start", "What do I want to know?")
    says(browser, "combinations")
    browser.save_screenshot(str(tmp_path / "start.png"))
    severe = [line["message"] for line in browser.get_log("browser") if line["level"] == "SEVERE"]
    assert not severe
