"""Does a person sign in with a key, edit, and sign out, in a real browser?"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from memory_service.app import create_app
from memory_service.services.access.keys import create_key
from memory_service.settings import load_settings
from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, settled

ROW = "/browse/strategies/R03-a100-image-224"


@pytest.fixture(scope="module")
def locked(servers: Servers) -> Iterator[tuple[Site, dict[str, str]]]:
    """A seeded site that asks for keys, and two of them."""
    url = servers.new("sqlite", "seeded")
    app = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False, require_keys=True))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        thread.join(0.01)
    assert app.state.service.preparation.wait(600).ready
    database = app.state.service.database
    keys = {
        name: create_key(database, name, scopes)["key"]
        for name, scopes in (("reader", ["read"]), ("editor", ["read", "edit"]))
    }
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Site("locked", f"http://127.0.0.1:{port}", url), keys
    server.should_exit = True
    thread.join(30)


def test_a_person_signs_in_edits_and_signs_out(
    visit: Visitor, axe: Callable[..., None], locked: tuple[Site, dict[str, str]]
):
    site, keys = locked

    def sign_in(page: Any, key: str) -> None:
        page.fill("#key", key)
        page.click("button:has-text('Sign in')")
        page.wait_for_url(f"{site.url}{ROW}")
        settled(page)

    page = visit(site, ROW)
    assert page.url.startswith(f"{site.url}/browse/login?next=")
    axe(page)
    sign_in(page, keys["reader"])
    assert page.locator("a:has-text('Edit')").count() == 0
    assert page.evaluate("document.cookie") == "", "no script sees the session"
    axe(page)
    page.click("button:has-text('Sign out')")
    page.wait_for_url(f"{site.url}/browse/login")
    page.goto(site.url + ROW)
    sign_in(page, keys["editor"])
    page.click("a:has-text('Edit')")
    page.fill("[name=statement]", "A statement that a person signed in has changed.")
    page.fill("[name=why]", "a test")
    page.click("button:has-text('Review changes')")
    page.click("button:has-text('Save')")
    page.wait_for_url(f"{site.url}{ROW}?saved=1")
    assert (
        page.locator("text=changed by editor").or_(page.locator(".history li:has-text('editor')")).count() > 0
    )


def test_a_form_that_lost_its_token_is_refused_in_the_browser_too(
    visit: Visitor, locked: tuple[Site, dict[str, str]]
):
    site, keys = locked
    page = visit(site, "/browse/edit/strategies/R03-a100-image-224")
    page.fill("#key", keys["editor"])
    with page.expect_navigation():
        page.click("button:has-text('Sign in')")
    page.evaluate("document.querySelector('main [name=csrf]').value = 'f'.repeat(64)")
    page.fill("[name=why]", "a test")
    with page.expect_navigation() as came:
        page.click("button:has-text('Review changes')")
    assert came.value.status == 403
    assert "session" in page.inner_text("main")
    visit.wrong[:] = [said for said in visit.wrong if "403" not in said]
