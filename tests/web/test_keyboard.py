"""Can everything be done by keyboard alone: asking, following a number to its evidence, editing, undoing?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, running, settled

pytestmark = [pytest.mark.browser]

MOST_STEPS = 400
_FOCUSED = """() => {
  const e = document.activeElement, style = getComputedStyle(e);
  return {
    name: (e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText || '').trim(),
    tag: e.tagName, id: e.id, name_of_field: e.name || '', step: e.value || '',
    href: e.getAttribute('href') || '',
    kind: e.className || '', seen: style.outlineStyle !== 'none' || style.boxShadow !== 'none',
  };
}"""


@pytest.fixture(scope="module")
def keys(servers: Servers) -> Iterator[Site]:
    with running("keys", servers.new("sqlite", "seeded")) as site:
        yield site


def tab_to(page: Any, **wanted: str) -> dict[str, Any]:
    """Press Tab until what has the focus is like this; every stop on the way shows that it has it."""
    for _ in range(MOST_STEPS):
        page.keyboard.press("Tab")
        at: dict[str, Any] = page.evaluate(_FOCUSED)
        if at["tag"] == "BODY":
            continue
        assert at["seen"], f"the focus is not to be seen on {at}"
        if all(text in at[name] for name, text in wanted.items()):
            return at
    raise AssertionError(f"Tab never came to {wanted}")


def test_asking_and_following_a_number_to_its_evidence(visit: Visitor, keys: Site):
    page = visit(keys, "/")
    page.keyboard.press("Tab")
    assert "Skip" in page.evaluate(_FOCUSED)["name"]
    page.keyboard.press("Enter")
    tab_to(page, id="f-task")
    page.keyboard.type("image-cl")
    tab_to(page, id="f-n_train")
    page.keyboard.type("40000")
    tab_to(page, id="f-gpu")
    page.keyboard.type("a100")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?*gpu=a100*")
    settled(page)
    tab_to(page, kind="number")
    page.keyboard.press("Enter")
    assert "Basis" in page.locator("[popover]:popover-open").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("[popover]:popover-open").count() == 0
    page.keyboard.press("Enter")
    tab_to(page, href="/browse/sizing/a100/")
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse/sizing/a100/**")
    settled(page)
    tab_to(page, tag="SUMMARY", name="The numbers")
    page.keyboard.press("Enter")
    assert page.locator("figure details[open] table tbody tr").count() > 0


def test_editing_and_undoing(visit: Visitor, keys: Site):
    page = visit(keys, "/browse/strategies/R03-a100-image-224")
    before = page.locator("main").inner_text()
    tab_to(page, name="Edit")
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse/edit/**")
    tab_to(page, name_of_field="why")
    page.keyboard.type("by keyboard")
    tab_to(page, name_of_field="statement")
    page.keyboard.press("Control+A")
    page.keyboard.type("Batch 256.")
    tab_to(page, step="look")
    page.keyboard.press("Enter")
    page.get_by_role("region", name="Difference").wait_for()
    tab_to(page, step="save")
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse/strategies/R03-a100-image-224?saved=1")
    assert "Batch 256." in page.locator("main").inner_text()
    tab_to(page, name="Undo this change")
    page.keyboard.press("Enter")
    page.get_by_text("undoes version").wait_for()
    settled(page)
    assert before.partition("History")[0] == page.locator("main").inner_text().partition("History")[0]


def test_the_search_is_walked_with_arrow_keys(visit: Visitor, keys: Site):
    page = visit(keys, "/browse/models")
    page.keyboard.press("/")
    page.keyboard.type("b4 a10 a100")
    page.locator("#find-results a").nth(1).wait_for()
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.href")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.href") != first
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.href") == first
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse/sizing?q=b4**")


def test_the_palette_leads_to_actions_from_any_page(visit: Visitor, keys: Site):
    page = visit(keys, "/browse/models")
    page.keyboard.press("Control+k")
    page.locator("#palette-results a").first.wait_for()
    first = page.locator("#palette-results section:first-child li:first-child a")
    page.keyboard.type("back up")
    first.filter(has_text="Back up").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/browse/operate#backups")
    settled(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("plan 9000 photos on a t4")
    first.filter(has_text="Plan: 9000").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**/?description=9000**")
    settled(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    assert not page.locator("#palette").is_visible()


def test_keys_are_shown_on_a_question_mark_and_without_scripts(visit: Visitor, keys: Site):
    page = visit(keys, "/browse/models")
    page.keyboard.press("?")
    assert page.locator("#keys-help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#keys-help").is_visible()
    page.keyboard.press("/")
    page.keyboard.type("?")
    assert page.locator("#find").input_value() == "?"
    plain = visit(keys, "/browse/models", java_script_enabled=False)
    plain.get_by_role("button", name="Keyboard").click()
    assert plain.locator("#keys-help").is_visible()
