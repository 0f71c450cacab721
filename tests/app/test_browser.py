"""Walks through the app in a real browser: what no test without one can see."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from datetime import UTC, datetime

import numpy as np
import pytest

from planner.archive.store import Archive
from planner.commands.app import DATABASE, streamlit_words
from simkernel.errors import PlanError

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
PAGES = ("", "start", "why", "compare", "what-if", "decide", "fleet", "removed", "assumptions",
         "catalogue", "report")  # fmt: skip
PATIENCE_S = 90.0
"""The first paint took 47 s on a loaded machine."""


@contextlib.contextmanager
def visited(browser, db):
    """The app over a database of the test's own; the browser leaves before it ends."""
    with served(db) as address:
        yield address
        browser.get("about:blank")


@contextlib.contextmanager
def served(db):
    """The app in a process of its own, as `planner app` starts it; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*streamlit_words(port, has_window=False), "--server.fileWatcherType", "none"]
    environment = {**os.environ, DATABASE: str(db)}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL)
    try:
        answers = f"http://127.0.0.1:{port}/_stcore/health"
        until(lambda: urllib.request.urlopen(answers, timeout=1).status == 200, OSError)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait(timeout=20)


@pytest.fixture(scope="module")
def address(stored):
    """The app over the stored run."""
    with served(stored.db) as found:
        yield found


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A headless Chromium with a profile and a folder for downloads of its own."""
    room = tmp_path_factory.mktemp("chromium")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={room / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    found.downloads = room / "downloads"
    wanted = {"behavior": "allow", "downloadPath": str(found.downloads)}
    found.execute_cdp_cmd("Browser.setDownloadBehavior", wanted)
    yield found
    found.quit()


@pytest.fixture
def browser(driver):
    """The browser, which must not have met an error when the test is over."""
    driver.get_log("browser")
    yield driver
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    lines = [one["message"] for one in driver.get_log("browser") if one["level"] == "SEVERE"]
    # Streamlit looks for its own health below the address of a page that is opened directly.
    assert not [line for line in lines if "/_stcore/" not in line]


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
    css = '.st-key-chart [data-testid="stVegaLiteChart"] path[aria-roledescription="point"]'
    named = {mark.get_attribute("aria-label"): mark for mark in found(browser, css)}
    return {name: mark for name, mark in named.items() if " @ " in name}


def chosen(browser):
    """The plan that the side bar shows."""
    css = '[data-testid="stSidebar"] [data-testid="stSelectbox"] input'
    return found(browser, css)[2].get_attribute("value")


def opened(browser, address):
    """The first page."""
    browser.get(address)
    settled(browser)


def pick(browser, label, words):
    """Choose an option of a select box."""
    css = f'[data-testid="stSelectbox"] input[aria-label*="{label}"]'

    def typed():
        box = found(browser, css)[0]
        box.click()
        box.send_keys(words, webdriver.Keys.ENTER)

    done(typed)
    settled(browser)


def test_a_walk_through_every_page(browser, address, stored, tmp_path):
    """A click would open another plan, a slider do nothing, or a page end in an error."""
    opened(browser, address)
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
    turn(browser, "compare", "How do they differ?")
    says(browser, "Plans side by side")
    turn(browser, "what-if", "What if prices change?")
    slider = 'input[type="range"][aria-label^="Carbon price"]'

    def moved_to_its_end():
        # its handle is drawn over an input of one pixel, which only the keyboard reaches
        browser.execute_script("arguments[0].focus()", found(browser, slider)[0])
        webdriver.ActionChains(browser).send_keys(webdriver.Keys.END).perform()

    done(moved_to_its_end)
    says(browser, "costing.carbon_usd_per_t=")
    settled(browser)
    turn(browser, "decide", "Which plan to take?")
    until(lambda: found(browser, "canvas"))
    browser.save_screenshot(str(tmp_path / "decide.png"))
    turn(browser, "fleet", "What to buy, when and where?")
    says(browser, "purchase plans")
    turn(browser, "removed", "What did the limits remove?")
    turn(browser, "assumptions", "What do the figures rest on?")
    browser.save_screenshot(str(tmp_path / "assumptions.png"))
    turn(browser, "catalogue", "What does the catalogue know?")
    turn(browser, "start", "What do I want to know?")
    says(browser, "combinations")
    browser.save_screenshot(str(tmp_path / "start.png"))


def test_a_purchase_plan_is_drawn(browser, gated, tmp_path):
    """Charts of cash, capacity, power and carbon would stay empty."""
    with visited(browser, gated) as address:
        opened(browser, address)
        turn(browser, "fleet", "What to buy, when and where?")
        charts = '[data-testid="stVegaLiteChart"] canvas, [data-testid="stVegaLiteChart"] svg'
        until(lambda: len(found(browser, charts)) == 4)
        until(lambda: len(found(browser, '[data-testid="stDataFrame"]')) >= 4)
        settled(browser)
        browser.save_screenshot(str(tmp_path / "fleet.png"))
        turn(browser, "why", "Why is this plan what it is?")


def test_the_report_is_downloaded(browser, address, stored):
    """A person would press the button and get no file, or half of one."""
    opened(browser, address)
    turn(browser, "report", "What do I show those who decide?")
    press(browser, "Make the report")
    until(lambda: any("Download" in b.text for b in found(browser, "button")))
    settled(browser)
    press(browser, f"Download {stored.run}.pdf")
    file = browser.downloads / f"{stored.run}.pdf"
    until(lambda: file.exists() and file.read_bytes().rstrip().endswith(b"%%EOF"))


def test_a_box_over_an_axis_filters_every_chart(browser, address, stored):
    """The parallel coordinates would be a picture, and the charts beside them show other plans."""
    opened(browser, address)
    few = int(np.min(stored.front["devices"]))
    wanted = int(np.sum(np.asarray(stored.front["devices"]) == few))
    assert 0 < wanted < len(stored.front["plan"])
    until(lambda: len(marks(browser)) == len(stored.front["plan"]))

    def drawn():
        texts = found(browser, ".st-key-parallel svg text")
        foot = next(text for text in texts if text.text == "devices")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", foot)
        mouse = webdriver.ActionChains(browser, duration=60)
        mouse.move_to_element_with_offset(foot, -14, -30).click_and_hold()
        mouse.move_by_offset(10, -60).move_by_offset(18, -50).release().perform()

    done(drawn)
    until(lambda: len(marks(browser)) == wanted)
    says(browser, f"{wanted} of {len(stored.front['plan'])} plans of the front pass")


@pytest.mark.parametrize("width", [1366, 390])
def test_no_page_scrolls_sideways(browser, address, width):
    """Half of a chart would lie off the screen of a laptop or a telephone."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    measure = """const page = document.querySelector('[data-testid="stMain"]');
        return Math.max(document.documentElement.scrollWidth, page.scrollWidth)"""
    wide = {}
    for page in PAGES:
        browser.get(f"{address}{page}")
        settled(browser)
        if browser.execute_script(measure) > width:
            wide[page or "front"] = browser.execute_script(measure)
    assert not wide


def test_a_dark_screen_gets_a_dark_page(browser, address):
    """Somebody at night would be blinded, or read black on black."""
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    try:
        opened(browser, address)
        css = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        ground = browser.execute_script(css, '[data-testid="stApp"]', "backgroundColor")
        ink = browser.execute_script(css, "h1", "color")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert max(shades(ground)) < 80
    assert min(shades(ink)) > 170


def shades(colour):
    """Red, green and blue of a colour as the browser tells it."""
    return [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]


def test_a_gigabyte_is_not_taken(browser, address, tmp_path):
    """One file would fill the memory of the machine that serves the page."""
    large = tmp_path / "study.toml"
    with large.open("wb") as file:
        file.truncate(1 << 30)
    opened(browser, address)
    turn(browser, "start", "What do I want to know?")
    done(lambda: choice(browser, "a file of mine").click())
    settled(browser)
    done(lambda: found(browser, 'input[type="file"]')[0].send_keys(str(large)))
    says(browser, "2.0MB or smaller")
    says(browser, "Pick a study, bring one, or write one.")


def test_two_who_look_at_once_see_their_own_plans(browser, address):
    """One person's click would change what another is reading."""
    opened(browser, address)
    first, plan = browser.current_window_handle, chosen(browser)
    browser.switch_to.new_window("tab")
    try:
        opened(browser, address)
        before = chosen(browser)

        def click_another():
            mark = next(m for p, m in marks(browser).items() if p != before)
            webdriver.ActionChains(browser).move_to_element(mark).click().perform()

        done(click_another)
        until(lambda: chosen(browser) != before)
        browser.close()
    finally:
        browser.switch_to.window(first)
    assert chosen(browser) == plan


def test_studies_are_composed_run_found_again_and_stopped(browser, tmp_path):
    """A run would be lost with the page that began it, or could not be ended from there."""
    archive = Archive(tmp_path / "planner.duckdb", 5)
    with visited(browser, archive.path) as address:
        browser.get(f"{address}start")
        settled(browser)
        done(lambda: choice(browser, "a form").click())
        settled(browser)
        says(browser, "can be run")
        press(browser, "Run this study")
        until(lambda: archive.runs()[0].summary is not None, PlanError)
        done(lambda: choice(browser, "one that comes with the planner").click())
        settled(browser)
        pick(browser, "Study", "deepseek_v3_training.toml")
        says(browser, "deepseek")
        press(browser, "Run this study")
        until(lambda: len(archive.runs()) == 2, PlanError)
        run = archive.runs()[1].run
        browser.get(f"{address}start")
        settled(browser)
        press(browser, f"Stop {run}")
        until(lambda: archive.run(run).summary is not None, PlanError)
    assert archive.run(run).state(datetime.now(UTC).replace(tzinfo=None)) == "stopped"


def choice(browser, words):
    """One of those to begin with."""
    return next(
        one for one in found(browser, '[data-testid="stRadio"] label') if one.text == words
    )
