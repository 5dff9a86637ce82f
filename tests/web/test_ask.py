"""Can a person ask, correct what was understood, and follow the plan to what it rests on?"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

import pytest

from tests.web.conftest import Site, Visitor, settled

pytestmark = [pytest.mark.browser]

ASKED = "/?task=image&size=medium&gpu=a100&minutes=30"


def answered(site: Site, path: str) -> Any:
    with urllib.request.urlopen(site.url + path) as response:
        return json.load(response)


def test_a_question_typed_into_the_form_gets_the_plan_of_recommend(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    page.get_by_label("Task", exact=True).select_option("tabular-classification")
    page.get_by_label("Training samples").fill("200000")
    page.get_by_label("Card", exact=True).fill("cpu")
    page.get_by_role("button", name="Plan it").click()
    settled(page)
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))
    assert asked == {"task": "tabular-classification", "n_train": "200000", "gpu": "cpu"}
    plan = answered(seeded, "/recommend?" + urllib.parse.urlencode(asked))
    assert plan["model"]["name"] in page.locator("p.said").inner_text()
    assert f"plan_id = '{plan['plan_id']}'" in page.locator("#settings + .copy").inner_text()
    page.go_back()
    assert page.get_by_role("button", name="Plan it").is_visible()


def test_facts_read_from_a_description_are_shown_and_can_be_corrected(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    page.get_by_label("Description").fill(
        "Tell the breed of a dog from a photo. There are 10222 training images of 120 breeds; "
        "multi-class log loss."
    )
    page.get_by_label("Card", exact=True).fill("t4")
    page.get_by_role("button", name="Plan it").click()
    settled(page)
    facts = page.get_by_role("region", name="Facts")
    row = facts.get_by_role("row", name="Training samples")
    assert "10,222" in row.inner_text()
    assert "from the description" in row.inner_text()
    row.get_by_role("link").click()
    page.get_by_label("Training samples").fill("9000")
    page.get_by_role("button", name="Plan it").click()
    settled(page)
    assert "9,000\tas asked" in page.get_by_role("region", name="Facts").inner_text()


def test_a_refused_question_says_at_the_field_what_is_wrong(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=imge&gpu=a100&n_train=-5", expect=422)
    wrong = page.get_by_label("Training samples")
    assert wrong.get_attribute("aria-invalid") == "true"
    assert "1" in page.locator("#e-n_train").inner_text()
    assert "image" in page.locator("#e-task").inner_text()
    assert page.get_by_label("Task", exact=True).input_value() == "imge"


def test_what_does_not_fit_offers_what_would(visit: Visitor, seeded: Site):
    page = visit(
        seeded, "/?task=image&n_train=900000&gpu=t4&minutes=3&image_size=512&model=resnet50&epochs=30"
    )
    assert page.get_by_role("heading", name="No plan fits").is_visible()
    page.locator("h2:has-text('What would fit') + ul a").first.click()
    settled(page)
    assert page.get_by_role("heading", name="The plan", exact=True).is_visible()


def test_the_plan_leads_to_its_evidence(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    page.locator("#expect").locator("xpath=..").get_by_role("button").first.click()
    origin = page.locator("[popover]:popover-open")
    assert "Basis" in origin.inner_text()
    assert origin.get_by_role("link").first.get_attribute("href").startswith("/browse/sizing/a100/")
    data = answered(seeded, "/index.json" + ASKED[1:])
    assert data["plan"]["plan_id"] == answered(seeded, "/recommend" + ASKED[1:])["plan_id"]
    assert all(row["href"] for row in data["plan"]["evidence"] if row["id"].startswith("R"))
    front = data["points"]["front"]
    assert [p["quality_index"] for p in front] == sorted(p["quality_index"] for p in front)
    assert [p["minutes"] for p in front] == sorted(p["minutes"] for p in front)


def test_text_from_outside_is_text(visit: Visitor, seeded: Site):
    told = "<script>alert(1)</script> \u202egnp\u202c photos 🐕 " + "x" * 300
    page = visit(seeded, "/?gpu=t4&task=image&description=" + urllib.parse.quote(told))
    assert page.get_by_label("Description").input_value().startswith("<script>")
    assert page.locator("main script:not([type])").count() == 0
