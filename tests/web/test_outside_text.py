"""Is text from outside text on every page that shows it, and is no page broken or huge by it?"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, follow, running

pytestmark = [pytest.mark.browser]

TITLE = "<script>alert(1)</script> \u202eevil \U0001f415"
HOSTILE = f"<img src=x onerror=alert(1)> {TITLE} \u05e9\u05dc\u05d5\u05dd"
LINE = f"\x1b[31m{HOSTILE}\x1b[0m"
SLUG = "zz-hostile"
DEVICE = "d" * 64
MOST_BYTES = 400_000
"""Of a page that shows a beginning of what somebody wrote."""


def said(site: Site, path: str, body: Any, raw: bool = False) -> Any:
    data = body.encode() if raw else json.dumps(body).encode()
    kind = "text/plain" if raw else "application/json"
    request = urllib.request.Request(site.url + path, data, {"content-type": kind})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def loaded(site: Site, path: str) -> str:
    with urllib.request.urlopen(site.url + path) as response:
        text: str = response.read().decode()
    return text


@pytest.fixture(scope="module")
def hostile(servers: Servers) -> Iterator[tuple[Site, str]]:
    """A site where somebody wrote all this, and the run's id."""
    with running("hostile", servers.new("sqlite", "seeded")) as site:
        said(
            site,
            "/competitions",
            {
                "slug": SLUG,
                "title": TITLE,
                "description": (HOSTILE + " photos of dogs, multi-class log loss. ") * 4_000,
                "summary": HOSTILE,
                "pitfalls": HOSTILE,
                "metric": TITLE,
                "domain": TITLE,
                "task": "image-classification",
                "n_train": 40_000,
                "source": HOSTILE,
                "who": "<b>eve</b>",
                "why": TITLE,
            },
        )
        said(
            site,
            "/patterns",
            {
                "id": SLUG,
                "scope": "competition",
                "competition": SLUG,
                "kind": "pitfall",
                "statement": HOSTILE * 100,
                "advice": {"<b>k</b>": TITLE},
                "source": TITLE,
            },
        )
        said(site, "/gpus", {"name": DEVICE, "device": "cuda:7", "calibrate": False})
        run_id = said(
            site,
            "/runs",
            {
                "competition": SLUG,
                "task": "image",
                "gpu": "a100",
                "model": "resnet50",
                "batch_size": 64,
                "n_train": 40_000,
                "minutes": 30,
                "host": {"<script>x</script>": TITLE},
            },
        )["run_id"]
        said(
            site,
            f"/runs/{run_id}/events",
            {"events": [{"seq": 0, "kind": "note", "at": "2026-03-01T10:00:00Z", "text": HOSTILE}]},
        )
        said(site, f"/runs/{run_id}/log", f"{LINE}\n\x1b[2J</pre><script>alert(2)</script>\n", raw=True)
        yield site, run_id


def test_text_from_outside_is_text_on_every_page(visit: Visitor, hostile: tuple[Site, str]):
    site, run_id = hostile
    shown = {
        "/browse/competitions?q=evil": "<script>alert(1)</script>",
        "/browse/competitions/map": "<script>alert(1)</script>",
        f"/browse/competitions/{SLUG}": "<script>alert(1)</script>",
        f"/browse/edit/competitions/{SLUG}": SLUG,
        f"/browse/patterns/{SLUG}": "<script>alert(1)</script>",
        "/browse/patterns?competition=" + SLUG: "<script>alert(1)</script>",
        f"/browse/runs?competition={SLUG}": "resnet50",
        f"/browse/runs/{run_id}": "<script>alert(2)</script>",
        f"/browse/devices/{DEVICE}": DEVICE,
        "/browse/devices": DEVICE,
        f"/?gpu=a100&competition={SLUG}": SLUG,
        "/?gpu=a100&description=" + urllib.parse.quote(HOSTILE + " photos of dogs"): "evil",
    }
    wrong = []
    for path, text in shown.items():
        if not path.startswith("/browse/edit") and len(loaded(site, path).encode()) > MOST_BYTES:
            wrong.append(f"{path}: {len(loaded(site, path).encode()):,} bytes")
        page = visit(site, path)
        page.on("dialog", lambda dialog, path=path: wrong.append(f"{path}: {dialog.message}"))
        read = page.locator("main").evaluate("main => main.textContent")
        if text not in read:
            wrong.append(f"{path}: {text} is not to be read")
        if "\x1b" in read or "\u202e" in read:
            wrong.append(f"{path}: control characters")
        if page.locator("main img, main script:not([type='application/json'])").count():
            wrong.append(f"{path}: text became an element")
        page.set_viewport_size({"width": 360, "height": 800})
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            wrong.append(f"{path}: wider than a phone")
        page.close()
    assert wrong == []


def test_an_edit_changes_nothing_that_the_form_had_to_make_visible(visit: Visitor, hostile: tuple[Site, str]):
    site, _ = hostile
    page = visit(site, f"/browse/edit/patterns/{SLUG}")
    page.get_by_label("Rule").fill("R03")
    page.get_by_label("Why (kept").fill(HOSTILE)
    follow(page.get_by_role("button", name="Review changes"))
    assert page.get_by_role("region", name="Difference").locator("tbody tr").count() == 1
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/browse/patterns/{SLUG}?saved=1")
    kept = json.loads(loaded(site, f"/patterns/{SLUG}"))
    assert (kept["rule"], kept["source"]) == ("R03", TITLE)
    assert "onerror" in page.locator(".history").inner_text()
    assert page.locator("main img").count() == 0
