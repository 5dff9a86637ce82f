"""Does every page work: from an empty, a seeded and a big database, for every reader, on every screen?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.web.conftest import Site, Visitor, follow
from tests.web.paths import PAGES, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.mark.parametrize("site", ["empty", "seeded", "big"], indirect=True)
def test_every_page_loads_without_a_complaint(visit: Visitor, site: Site):
    wrong = []
    for page in PAGES:
        opened = _opened(visit, site, page)
        if opened is not None:
            if opened.locator("h1").count() != 1 or not opened.locator("main").inner_text().strip():
                wrong.append(f"{page}: no heading, or nothing on it")
            opened.close()
        wrong += [f"{page}: {each}" for each in visit.wrong]
        visit.wrong.clear()
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_page_can_be_read_by_everybody(
    visit: Visitor, lived: Site, axe: Callable[..., None], page: Page
):
    opened = _opened(visit, lived, page)
    assert opened is not None
    axe(opened)
    opened.evaluate("document.documentElement.dataset.theme = 'dark'")
    axe(opened, ("color-contrast",))
    opened.set_viewport_size({"width": 360, "height": 800})
    wide = opened.evaluate(_WIDER_THAN_THE_WINDOW)
    assert wide == [], f"wider than a phone: {wide}"


_WIDER_THAN_THE_WINDOW = """() => {
  const all = document.documentElement.scrollWidth;
  if (all <= 360) return [];
  const found = [...document.querySelectorAll('main *, header *, footer *')]
    .filter(e => e.getBoundingClientRect().right > 361 && !e.closest('.scroll, [popover], .visually-hidden'))
    .slice(0, 5).map(e => e.outerHTML.slice(0, 150));
  return [`${all} pixels`, ...found];
}"""


def _opened(visit: Visitor, site: Site, page: Page) -> Any | None:
    """The page, None where this database has none of its kind."""
    if site.name == "empty" and page.needs_seeds:
        visit(site, page.path, expect=page.refused).close()
        return None
    opened = visit(site, page.path)
    if not page.via:
        return opened
    link = opened.locator(f"main a[href^='{page.via}']").first
    if site.name in ("empty", "seeded") and link.count() == 0:
        return None
    follow(link)
    return opened
