"""Does every page work: from an empty, a lived and a big database, for every reader, on every screen?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import httpx2
import pytest

from tests.web.conftest import Site, Visitor, follow
from tests.web.paths import PAGES, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]


SHIPPED = [page for page in PAGES if page.needs_seeds]
OTHERS = [page for page in PAGES if not page.needs_seeds]
GROWING = [
    page
    for page in PAGES
    if not page.needs_seeds or page.path.startswith(("/?", "/browse/competitions/dog", "/browse/devices"))
]
"""Those that show more where there is more: not a row of the seeds and its form."""


@pytest.mark.parametrize(
    ("site", "pages"),
    [("empty", OTHERS), ("big", GROWING)],
    indirect=["site"],
    ids=["empty", "big"],
)
def test_every_page_loads_without_a_complaint(visit: Visitor, site: Site, pages: Sequence[Page]):
    """Those of the lived one are read below."""
    wrong = []
    for page in pages:
        opened = _opened(visit, site, page)
        if opened is not None:
            if opened.locator("h1").count() != 1 or not opened.locator("main").inner_text().strip():
                wrong.append(f"{page}: no heading, or nothing on it")
            opened.close()
        wrong += [f"{page}: {each}" for each in visit.wrong]
        visit.wrong.clear()
    assert wrong == []


def test_an_empty_database_refuses_what_is_about_seeds(empty: Site):
    answers = {page.path: httpx2.get(empty.url + page.path, timeout=60) for page in SHIPPED}
    assert {path: answer.status_code for path, answer in answers.items()} == {
        page.path: page.refused for page in SHIPPED
    }
    assert all("<h1" in answer.text for answer in answers.values())


def test_a_refusal_can_be_read(visit: Visitor, empty: Site):
    page = SHIPPED[0]
    visit(empty, page.path, expect=page.refused).get_by_role("heading", level=1).wait_for()


@pytest.mark.parametrize("page", [page for page in PAGES if not page.again], ids=str)
def test_every_page_can_be_read_by_everybody(
    visit: Visitor, lived: Site, axe: Callable[..., None], page: Page
):
    opened = _opened(visit, lived, page)
    assert opened is not None
    axe(opened)
    if PAGES.index(page) % 3 == 0:  # tests/web/test_components.py sees each part of a page in the dark
        opened.evaluate("document.documentElement.dataset.theme = 'dark'")
        axe(opened, ("color-contrast",))
    opened.set_viewport_size({"width": 360, "height": 800})
    wide = opened.evaluate(_WIDER_THAN_THE_WINDOW)
    assert wide == [], f"wider than a phone: {wide}"


_WIDER_THAN_THE_WINDOW = """() => {
  const all = document.documentElement.scrollWidth;
  if (all <= 360) return [...document.querySelectorAll('.scroll')]
    .filter(e => !e.closest('details') && e.scrollWidth > e.clientWidth + 1).map(e => e.ariaLabel ?? e.id);
  const found = [...document.querySelectorAll('main *, header *, footer *')]
    .filter(e => e.getBoundingClientRect().right > 361 && !e.closest('.scroll, [popover], .visually-hidden'))
    .slice(0, 5).map(e => e.outerHTML.slice(0, 150));
  return [`${all} pixels`, ...found];
}"""


def _opened(visit: Visitor, site: Site, page: Page) -> Any | None:
    """The page, None where this database has none of its kind."""
    opened = visit(site, page.path)
    if not page.via:
        return opened
    link = opened.locator(f"main a[href^='{page.via}']").first
    if site.name == "empty" and link.count() == 0:
        return None
    follow(link)
    return opened
