"""The report in a real browser: headless Chromium, driven over the WebDriver protocol."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hencler import Graph, HeNCler
from hencler._run import write_run

pytest.importorskip("jinja2", reason="needs the package jinja2")
from hencler.report import write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver on the PATH"
)

HOSTILE = ["</script><script>alert(1)</script>", "=1+1", "-5", "<img src=x onerror=alert(1)>"]


class Browser:
    """The few calls of WebDriver a report needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.server = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [str(DRIVER), f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._await()
        flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        flags += "--disable-background-networking --disable-component-update --disable-sync "
        flags += "--force-prefers-reduced-motion "  # a click must not aim at what still scrolls
        flags += f"--user-data-dir={folder / 'profile'} --window-size=1280,1000"
        options = {
            "binary": CHROMIUM,
            "args": flags.split(),
            "prefs": {"download.default_directory": str(folder)},
            "perfLoggingPrefs": {"enableNetwork": True},
        }
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": logs}
        body = {"capabilities": {"alwaysMatch": wanted}}
        self.session = f"/session/{self._post('/session', body)['sessionId']}"

    def _await(self) -> None:
        for _ in range(200):
            try:
                with urllib.request.urlopen(f"{self.server}/status", timeout=5):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError("chromedriver does not answer")

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self.server + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, path: Path) -> None:
        self._post(f"{self.session}/url", {"url": path.as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        body = {"script": f"return ({script})", "args": list(args)}
        return self._post(f"{self.session}/execute/sync", body)

    def click(self, css: str) -> None:
        body = {"using": "css selector", "value": css}
        [element] = self._post(f"{self.session}/element", body).values()
        self._post(f"{self.session}/element/{element}/click", {})

    def type(self, css: str, text: str) -> None:
        body = {"using": "css selector", "value": css}
        [element] = self._post(f"{self.session}/element", body).values()
        self._post(f"{self.session}/element/{element}/value", {"text": text})

    def until(self, script: str, wanted: Any) -> None:
        """Wait until a value is the wanted one; fail with what it is instead."""
        for _ in range(100):
            value = self.run(script)
            if value == wanted:
                return
            time.sleep(0.05)
        assert value == wanted

    def log(self, kind: str) -> list[dict[str, Any]]:
        return self._post(f"{self.session}/se/log", {"type": kind})

    def screenshot(self) -> bytes:
        with urllib.request.urlopen(f"{self.server}{self.session}/screenshot", timeout=60) as png:
            return base64.b64decode(json.load(png)["value"])

    def close(self) -> None:
        request = urllib.request.Request(self.server + self.session, method="DELETE")
        try:
            with urllib.request.urlopen(request, timeout=30):
                pass
        finally:
            self.process.terminate()
            self.process.wait(timeout=30)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directed graph of 120 nodes with hostile ids, attribute names and warnings."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    groups = np.arange(120) % 3
    probability = np.where((groups[:, None] + 1) % 3 == groups, 0.2, 0.02)
    edges = (rng.random((120, 120)) < probability).astype(float)
    np.fill_diagonal(edges, 0)
    x = rng.normal(size=(120, 4)) + groups[:, None]
    ids = HOSTILE + [f"node {i}" for i in range(4, 120)]
    names = ["<b>bold</b>", "</style>", "plain", "& amp"]
    graph = Graph(edges, x, ids=ids, attribute_names=names)
    model = HeNCler(3, epochs=3, n_init=2, device="cpu", random_state=0).fit(graph)
    write_run(
        folder,
        graph,
        model,
        seconds=1.0,
        source="<script>alert(2)<script>",
        truth=np.array(["a", "b", "<i>c</i>"])[groups],
        warnings=["<script>alert(3)</script>"],
    )
    return write_report(folder)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Any:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def page(browser: Browser, report: Path) -> Any:
    """The report freshly opened; at the end nothing may stand in the console."""
    browser.log("browser")
    browser.open(report)
    yield browser
    assert [entry["message"] for entry in browser.log("browser")] == []


def test_it_loads_without_errors_and_asks_nobody_for_anything(page: Browser) -> None:
    assert page.run("document.title") == "Clusters of <script>alert(2)<script>"
    page.until("document.querySelectorAll('#table tbody tr').length", 50)
    events = [json.loads(entry["message"])["message"] for entry in page.log("performance")]
    sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    # The browser's own empty tab is a page of the browser's.
    urls = [s["request"]["url"] for s in sent if not s["documentURL"].startswith("chrome")]
    assert urls
    assert all(url.startswith(("file:", "data:", "blob:")) for url in urls), urls
    assert page.run("document.querySelectorAll('script').length") == 2
    assert page.run("document.querySelectorAll('img, iframe, b b').length") == 0


def test_a_script_that_is_not_ours_does_not_run(browser: Browser, report: Path) -> None:
    altered = report.with_name("altered.html")
    text = report.read_text(encoding="utf-8")
    altered.write_text(text.replace("<footer>", "<script>document.title = 'x'</script><footer>"))
    browser.open(altered)
    assert browser.run("document.title") != "x"
    assert any("Content Security Policy" in entry["message"] for entry in browser.log("browser"))


def test_search_filter_and_sort(page: Browser) -> None:
    first = "document.querySelector('#table tbody td').textContent"
    count = "document.querySelectorAll('#table tbody tr').length"
    page.type("#search", "ALERT(1)")
    page.until(count, 2)
    assert page.run(first) == HOSTILE[0]
    assert page.run("document.getElementById('found').textContent") == "2 of 120 nodes"
    page.run("(document.getElementById('search').value = '', "
             "document.getElementById('search').dispatchEvent(new Event('input')))")  # fmt: skip
    page.until(count, 50)
    page.click("th[data-key=sure] button")
    assert page.run("document.querySelector('th[data-key=sure]').ariaSort") == "ascending"
    sure = page.run(
        "[...document.querySelectorAll('#table tbody tr')].map(r => +r.cells[3].textContent)"
    )
    assert sure == sorted(sure)
    page.click("#more")
    assert page.run(count) == 120
    assert page.run("document.getElementById('more').hidden")
    page.click("#only option[value='1']")
    clusters = page.run("[...new Set([...document.querySelectorAll('#table tbody tr')]"
                        ".map(r => r.cells[1].textContent))]")  # fmt: skip
    assert clusters == ["1"]


def test_light_and_dark(page: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.run(background)
    plain = page.screenshot()
    page.click("#theme")
    assert page.run("document.getElementById('theme').ariaPressed") == "true"
    dark = page.run(background)
    assert _lightness(dark) < 0.2 < 0.8 < _lightness(light)
    assert page.screenshot() != plain
    page.click("#theme")
    assert page.run(background) == light


def _lightness(rgb: str) -> float:
    return sum(int(v) for v in rgb.strip("rgb()").split(",")) / (3 * 255)


def test_the_system_may_ask_for_dark(browser: Browser, report: Path) -> None:
    emulate = {
        "cmd": "Emulation.setEmulatedMedia",
        "params": {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    }
    browser.run("localStorage.clear()")
    browser._post(f"{browser.session}/goog/cdp/execute", emulate)
    browser.open(report)
    background = browser.run("getComputedStyle(document.body).backgroundColor")
    emulate["params"] = {"features": []}
    browser._post(f"{browser.session}/goog/cdp/execute", emulate)
    assert _lightness(background) < 0.2


INKED = """(() => { const c = document.querySelectorAll('canvas')[arguments[0]];
  const g = new OffscreenCanvas(c.width, c.height).getContext('2d', {willReadFrequently: true});
  g.drawImage(c, 0, 0);
  const d = g.getImageData(0, 0, c.width, c.height).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) seen.add(d[i] * 65536 + d[i + 1] * 256 + d[i + 2]);
  return seen.size; })()"""


def test_map_and_heat_map_are_drawn_and_clusters_can_be_hidden(page: Browser) -> None:
    assert page.run("document.querySelectorAll('canvas').length") == 3
    for panel in range(3):
        assert page.run(INKED, panel) > 20
    page.click("#legend button")
    assert page.run("document.querySelector('#legend button').ariaPressed") == "false"
    for _ in range(2):
        page.click("#legend button[aria-pressed=true]")
    assert page.run(INKED, 0) == 1
    page.click("#colour option[value=sure]")
    assert page.run(INKED, 0) > 20


def test_the_map_by_neighbourhoods_and_by_components(page: Browser) -> None:
    assert page.run("document.getElementById('layout').value") == "near"
    shown = (
        "[...document.querySelectorAll('[data-layout]')]"
        ".filter(e => e.checkVisibility()).map(e => e.dataset.layout)"
    )
    assert set(page.run(shown)) == {"near"}
    before = page.screenshot()
    page.click("#layout option[value=plane]")
    assert set(page.run(shown)) == {"plane"}
    assert page.run(INKED, 0) > 20
    assert page.screenshot() != before
    page.click("#colour option[value=stable]")
    assert page.run(INKED, 1) > 5


def test_the_layers_of_the_similarity(page: Browser) -> None:
    layers = page.run("[...document.querySelectorAll('#layer option')].map(o => o.textContent)")
    assert layers[0].startswith("S")
    assert any(name.startswith("cosine") for name in layers)
    low = page.run("document.getElementById('heat-low').textContent")
    page.click("#layer option[value='1']")
    assert page.run("document.getElementById('heat-low').textContent") == "-1" != low
    assert page.run(INKED, 2) > 20


def test_the_drawing_speaks_to_the_keyboard(page: Browser) -> None:
    page.run("document.querySelector('svg.drawing').focus()")
    page.type("svg.drawing", "\ue014")
    said = page.run("document.getElementById('said').textContent")
    assert "cluster 0" in said
    assert page.run("document.querySelectorAll('#hot path').length") == 1
    page.type("svg.drawing", "\ue014")
    assert page.run("document.getElementById('said').textContent") != said


def test_a_narrow_screen_needs_no_sideways_scrolling(browser: Browser, report: Path) -> None:
    def resize(width: int) -> None:
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        body = {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}
        browser._post(f"{browser.session}/goog/cdp/execute", body)

    try:
        for width in (360, 768, 1600):
            resize(width)
            browser.open(report)
            assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        body = {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}}
        browser._post(f"{browser.session}/goog/cdp/execute", body)


def test_the_map_speaks_to_the_keyboard(page: Browser) -> None:
    page.run("document.querySelector('canvas').focus()")
    page.type("canvas", "\ue014")
    said = page.run("document.getElementById('said').textContent")
    assert "cluster 0" in said
    assert "certainty" in said
    page.type("canvas", "\ue014")
    assert page.run("document.getElementById('said').textContent") != said


def test_a_typical_node_is_shown_on_the_map(page: Browser) -> None:
    page.click("#clusters button[data-row]")
    name = page.run("document.querySelector('#clusters button[data-row]').textContent")
    assert page.run("document.getElementById('said').textContent").startswith(name)


def test_the_download_has_all_labels_and_no_formula(page: Browser, report: Path) -> None:
    target = page.folder / "labels.csv"
    target.unlink(missing_ok=True)
    behaviour = {"behavior": "allow", "downloadPath": str(page.folder)}
    body = {"cmd": "Page.setDownloadBehavior", "params": behaviour}
    page._post(f"{page.session}/goog/cdp/execute", body)
    page.click("#download")
    for _ in range(100):
        if target.is_file():
            break
        time.sleep(0.05)
    got = target.read_text(encoding="utf-8").splitlines()
    expected = report.with_name("labels.csv").read_text(encoding="utf-8").splitlines()
    assert got[2] == "'" + expected[2]
    del got[2], expected[2]
    assert got == expected


def test_every_control_and_picture_has_a_name(page: Browser) -> None:
    nameless = page.run(
        "[...document.querySelectorAll('button, a, input, select, canvas, svg[role=img]')]"
        ".filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).length"
    )
    assert nameless == 0
    tables = page.run(
        "[...document.querySelectorAll('table')]"
        ".every(t => t.caption && t.querySelector('th[scope]'))"
    )
    assert tables
    levels = page.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
