"""Real servers and a real browser for the tests of pages.

    def test_x(visit, lived):
        page = visit(lived, "/browse/models")     # a Playwright page; anything wrong on it fails the test

Sites are session-wide: "empty" (tables only), "seeded" (what is shipped), "lived" (and 40 runs on two
devices) and "big" (400 runs, 400 competitions; made once for all workers). They are only to read;
`own_site` is a seeded one for a test that writes. The browser ends with this folder's tests: Playwright's
loop would be in the way of other folders' loops. So do its profiles of the session's sites, without what a
test left in them: a page costs a quarter where the process and the scripts of the last one are still there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from benchmarks import fill as filling
from benchmarks.fill import fill_big, fill_small
from memory_service.app import create_app
from memory_service.services.database.transactions import Database
from memory_service.settings import load_settings
from tests.conftest import Servers

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--process-per-site",
)
SLOWEST_MS = 90_000
"""A loaded machine is no failure of a page."""

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@dataclass(frozen=True)
class Site:
    """A running server."""

    name: str
    url: str
    database_url: str
    lasting: bool = False
    """For the whole session."""


@contextmanager
def running(name: str, database_url: str, calibrate: bool = False, lasting: bool = False) -> Iterator[Site]:
    """A server in a thread over a database at head, ready."""
    settings = load_settings(
        database_url=database_url, seed_on_start=False, calibrate=calibrate, keep_raw_days=0.0
    )  # thinning "big" would take half of a worker's minute
    app = create_app(settings)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            thread.join(0.01)
        state = app.state.service.preparation.wait(600)
        assert state.ready, state
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Site(name, f"http://127.0.0.1:{port}", database_url, lasting)
    finally:
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="session")
def empty(servers: Servers) -> Iterator[Site]:
    with running("empty", servers.new("sqlite", "head"), lasting=True) as site:
        yield site


@pytest.fixture(scope="session")
def seeded(servers: Servers) -> Iterator[Site]:
    with running("seeded", servers.new("sqlite", "seeded"), lasting=True) as site:
        yield site


@pytest.fixture(scope="session")
def lived(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    url = _made_once(tmp_path_factory, servers, "lived", fill_small)
    with running("lived", url, lasting=True) as site:
        yield site


@pytest.fixture(scope="session")
def big(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    many = partial(fill_big, runs=400, competitions=400)  # several pages; benchmarks.pages measures more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filling, "ORIGINALS", 8)
        url = _made_once(tmp_path_factory, servers, "big", many)
    with running("big", url, lasting=True) as site:
        yield site


@pytest.fixture
def own_site(servers: Servers) -> Iterator[Site]:
    """A seeded site of the test's own, to write to."""
    with running("own", servers.new("sqlite", "seeded")) as site:
        yield site


@pytest.fixture
def site(request: pytest.FixtureRequest) -> Site:
    """The site that a test is parametrized with, by its name."""
    found: Site = request.getfixturevalue(request.param)
    return found


def _made_once(
    factory: pytest.TempPathFactory, servers: Servers, name: str, fill: Callable[[Database], None]
) -> str:
    """The URL of a filled database, the same file for every worker of this run."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    target = folder / f"site-{name}.sqlite3"
    with (folder / f"site-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            url = servers.new("sqlite", "seeded")
            database = Database(url)
            fill(database)
            database.close()
            shutil.move(url.removeprefix("sqlite:///"), target)
    return f"sqlite:///{target}"


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """A browser for this folder's tests, as long as they follow each other."""
    if CHROMIUM is None:
        # .ci/run installs it where it can, and tells in its last line where it cannot.
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def profiles(chromium: Any) -> dict[tuple[Any, ...], Any]:
    """Of the session's sites, as far as tests asked for them."""
    return {}


@dataclass
class Visitor:
    """Opens pages, and notes whatever a reader's browser would complain of."""

    browser: Any
    _kept: dict[tuple[Any, ...], Any]
    wrong: list[str] = field(default_factory=list)
    _own: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def __call__(
        self,
        site: Site,
        path: str,
        *,
        scheme: str = "light",
        width: int = 1200,
        expect: int = 200,
        **options: Any,
    ) -> Any:
        """The page once it is loaded and its charts are drawn.

        scheme   "light" or "dark"; width in pixels; expect: the status (other answers are wrong)
        """
        page = self.context(site, scheme, width, **options).new_page()
        watch(page, site.url, self.wrong, expect)
        response = page.goto(site.url + path)
        assert response.status == expect, f"{path}: {response.status}"
        settled(page)
        return page

    def context(self, site: Site, scheme: str = "light", width: int = 1200, **options: Any) -> Any:
        """The browser's profile for a site: files are fetched once and then come from its cache."""
        key = (site.url, scheme, width, *sorted(options.items()))
        contexts = self._kept if site.lasting and not options else self._own
        if key not in contexts:
            contexts[key] = self.browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 900}, **options
            )
            contexts[key].set_default_timeout(SLOWEST_MS)
            contexts[key].new_page().goto(f"{site.url}/healthz")  # stays, and with it the process
        return contexts[key]

    def leave(self) -> None:
        """Closes all pages; nothing of this test is left to the next."""
        for context in self._own.values():
            context.close()
        for context in self._kept.values():
            first, *others = context.pages
            for page in others:
                page.close()
            context.clear_cookies()
            first.evaluate("localStorage.clear()")

    def check(self) -> None:
        """Fails when anything was wrong so far."""
        wrong, self.wrong[:] = list(self.wrong), []
        assert wrong == []


def watch(page: Any, url: str, wrong: list[str], expect: int = 200) -> None:
    """Note console errors, script errors, requests that failed, were refused, or left for another host."""

    def answered(response: Any) -> None:
        if response.status >= 400 and response.status != expect:
            wrong.append(f"{response.status} {response.url}")

    def said(message: Any) -> None:
        refused = expect >= 400 and "Failed to load resource" in message.text
        if message.type in ("error", "warning") and not refused:
            wrong.append(f"console: {message.text}")

    def asked(request: Any) -> None:
        if not request.url.startswith((url, "data:", "blob:")):
            wrong.append(f"another host: {request.url}")

    def failed(request: Any) -> None:
        if "ERR_ABORTED" not in (request.failure or ""):  # the reader went on, or began a download
            wrong.append(f"failed: {request.url} {request.failure}")

    page.on("response", answered)
    page.on("console", said)
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("request", asked)
    page.on("requestfailed", failed)


def settled(page: Any) -> None:
    """Waits until scripts ran and every chart is drawn."""
    page.wait_for_load_state("load")
    page.wait_for_selector("[data-chart]:not([data-drawn]):visible", state="detached")


def follow(target: Any) -> None:
    """Clicks what leads to another page, or to another state of this one in the address, and waits until that
    is there: a click by itself does not wait."""
    with target.page.expect_navigation(timeout=SLOWEST_MS):
        target.click()
    settled(target.page)


@pytest.fixture
def visit(chromium: Any, profiles: dict[tuple[Any, ...], Any]) -> Iterator[Visitor]:
    """Opens pages; after the test nothing may have been wrong on any of them."""
    visitor = Visitor(chromium, profiles)
    yield visitor
    visitor.leave()
    visitor.check()


@pytest.fixture
def axe() -> Callable[..., None]:
    """Fails on serious and critical violations of a page: `axe(page)`; `rules=("color-contrast",)` only
    those."""

    def check(page: Any, rules: tuple[str, ...] = ()) -> None:
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE.read_text(encoding="utf-8"))
        only = {"runOnly": {"type": "rule", "values": list(rules)}} if rules else {}
        found = page.evaluate("options => axe.run(document, options)", only | {"resultTypes": ["violations"]})
        bad = [
            f"{v['id']}: {v['help']}: {[node['html'][:200] for node in v['nodes'][:3]]}"
            for v in found["violations"]
            if v["impact"] in ("serious", "critical")
        ]
        assert bad == [], f"{page.url}: {bad}"

    return check
