"""Do /docs work without internet, and do pages and answers forbid a browser what they need not?"""

from __future__ import annotations

import re
from urllib.request import urlopen

import pytest

from tests.web.conftest import Site, Visitor


def test_docs_name_no_other_host_and_carry_a_strict_policy(seeded: Site):
    with urlopen(f"{seeded.url}/docs") as answer:
        text, policy = answer.read().decode(), answer.headers["content-security-policy"]
    assert "//" not in text.replace("<!doctype html>", "")
    assert "default-src 'none'" in policy
    assert "http" not in policy
    assert "unsafe-eval" not in policy
    for path in re.findall(r'(?:src|href)="(/[^"]+)"', text):
        with urlopen(seeded.url + path) as answer:
            assert answer.status == 200, path


@pytest.mark.browser
def test_a_browser_draws_the_description_without_another_host(visit: Visitor, seeded: Site):
    page = visit(seeded, "/docs")
    page.wait_for_selector(".opblock-summary-path")
    page.get_by_text("One explicit training plan for this task").first.wait_for()
    page.locator("#operations-ask-recommend_by_query_recommend_get .opblock-summary-control").click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    page.locator(".live-responses-table .response-col_status", has_text="200").wait_for(timeout=30_000)
