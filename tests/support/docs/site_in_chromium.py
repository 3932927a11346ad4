"""Opens pages of the built site in Chromium, from file:// or a server, and reports what is wrong.

A visit returns one sentence per fault: script errors, requests to other hosts, pictures that are
not drawn, text wider than the window, and serious or critical findings of axe-core. A visit waits
for the `load` event, which waits for pictures.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, Route, sync_playwright

PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1280, "height": 800}

# Load lazy pictures, and those in folded sections, now.
_BROKEN_PICTURES = """async () => {
    const broken = []
    for (const image of document.images) {
        image.loading = "eager"
        await image.decode().catch(() => broken.push(image.getAttribute("src")))
    }
    return broken
}"""
_DRAWN = "() => new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
_OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
# `preload` would fetch the style sheets again, which a browser refuses under file://.
_AXE = """() => axe.run({resultTypes: ["violations"], preload: false}).then(\
found => found.violations
    .filter(one => ["serious", "critical"].includes(one.impact))
    .flatMap(one => one.nodes.map(node => `axe ${one.id}: ${node.target}`)))"""


def find_chromium() -> str | None:
    """The browser of MINIVLLM_CHROMIUM, or else the first one on PATH."""
    names = [os.environ.get("MINIVLLM_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no browser: neither Chromium nor Chrome"),
]


@contextmanager
def chromium() -> Iterator[Browser]:
    # Chromium refuses to run as root inside its sandbox, and containers often run as root.
    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=options)
        yield browser
        browser.close()


@pytest.fixture(name="browser", scope="module")
def one_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of the site on loopback."""
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *said: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Reader:
    """A browser tab in one colour scheme. It collects faults between two visits."""

    def __init__(self, browser: Browser, site: Path, scheme: str, root: str | None = None) -> None:
        """root: where the site is served, such as `http://127.0.0.1:8008`; None means from disk"""
        self.root = root or site.as_uri()
        self._faults: list[str] = []
        self._context = context = browser.new_context(
            color_scheme=scheme, viewport=PHONE, reduced_motion="reduce"
        )
        # Playwright reports requests of the page, its frames and its workers here.
        context.route("**/*", self._let_through)
        self.page: Page = context.new_page()
        self.page.on("console", lambda m: m.type == "error" and self._faults.append(m.text))
        self.page.on("pageerror", lambda error: self._faults.append(f"script error: {error}"))

    def close(self) -> None:
        self._context.close()

    def open(self, address: str) -> None:
        self.page.goto(f"{self.root}/{address}", wait_until="load")

    def visit(self, address: str, *, with_axe: bool = True) -> list[str]:
        """Return every fault of one page, as wide as on a phone and on a desktop."""
        self._faults.clear()
        self.page.set_viewport_size(PHONE)
        self.open(address)
        faults = [f"not drawn: {source}" for source in self.page.evaluate(_BROKEN_PICTURES)]
        if with_axe:
            self.page.evaluate(AXE_SCRIPT)
        for size in (PHONE, DESKTOP):
            self.page.set_viewport_size(size)
            self.page.evaluate(_DRAWN)
            if (over := self.page.evaluate(_OVERFLOW)) > 0:
                faults.append(f"{size['width']} wide: scrolls sideways by {over} pixels")
            faults += self.page.evaluate(_AXE) if with_axe else []
        return faults + self._faults

    def _let_through(self, route: Route) -> None:
        url = route.request.url
        if url.startswith((self.root, "data:", "blob:", "about:")):
            route.continue_()
        else:
            self._faults.append(f"asks another host: {url}")
            route.abort()
