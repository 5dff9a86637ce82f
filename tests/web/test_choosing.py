"""Can a plan be changed where it is shown: other minutes, what its script does? Is what is made up said?"""

from __future__ import annotations

import re

import httpx2
import pytest

from memory_service.app import create_app
from memory_service.settings import load_settings
from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, follow

ASKED = {"task": "image", "size": "medium", "gpu": "a100", "minutes": "30"}
PAGE = "/?task=image&size=medium&gpu=a100&minutes=30"


def test_each_step_of_the_budget_is_what_would_be_planned(seeded: Site):
    steps = httpx2.get(f"{seeded.url}/index.json", params=ASKED, timeout=90).json()["points"]["steps"]
    assert [step["minutes"] for step in steps] == [7.5, 15.0, 30.0, 60.0, 120.0]
    for step in steps[:2]:
        asked = ASKED | {"minutes": str(step["minutes"]), "detail": "full"}
        plan = httpx2.get(f"{seeded.url}/recommend", params=asked, timeout=90).json()
        assert plan["model"]["name"] == step["model"]
        assert (plan["folds"], plan["epochs"], len(plan["portfolio"])) == (
            step["folds"], step["epochs"], step["runs"],
        )  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [True, False])
def test_a_step_leads_to_its_plan(visit: Visitor, seeded: Site, scripts: bool):
    page = visit(seeded, PAGE, java_script_enabled=scripts)
    other = page.get_by_role("list", name="Other time limits").locator("li").nth(1)
    model = other.locator(".one").get_attribute("title")
    follow(other.get_by_role("link"))
    assert "minutes=15" in page.url
    assert page.locator(".said a").first.inner_text() == model


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [True, False])
def test_ticked_techniques_are_in_the_script_and_in_the_question(visit: Visitor, seeded: Site, scripts: bool):
    page = visit(seeded, PAGE + "#tab-won", java_script_enabled=scripts)
    ticks = page.get_by_role("form", name="What the script does")
    assert ticks.get_by_label("tta").is_checked()
    ticks.get_by_label("tta").uncheck()
    ticks.get_by_label("mixup").check()
    follow(ticks.get_by_role("button", name="Write it so"))
    assert "techniques=mixup" in page.url
    assert page.get_by_label("mixup").is_checked()
    assert not page.get_by_label("tta").is_checked()
    address = page.locator("#script a").first.get_attribute("href")
    script = httpx2.get(seeded.url + str(address), timeout=90).text
    assert "MIXUP = 0.2" in script
    assert "TTA = True" not in script
    follow(page.get_by_role("link", name="As winners did"))
    assert "techniques" not in page.url


def test_a_technique_that_no_such_script_does_is_said_and_a_mistyped_one_refused(seeded: Site):
    def asked(names: str) -> httpx2.Response:
        fields = ASKED | {"techniques": names, "detail": "full"}
        return httpx2.get(f"{seeded.url}/recommend", params=fields, timeout=90)

    plan = asked("pseudo-labels,mixup").json()
    assert plan["techniques"] == "mixup,pseudo-labels"
    assert any("pseudo-labels" in each["text"] for each in plan["warnings"])
    assert asked("none").json()["plan_id"] != plan["plan_id"]
    wrong = asked("mixupp")
    assert wrong.status_code == 422
    assert "mixup" in wrong.json()["errors"][0]["nearest"]


def test_a_notice_stands_on_every_page_and_refusal(servers: Servers):
    from fastapi.testclient import TestClient

    url = servers.new("sqlite", "seeded")
    settings = load_settings(database_url=url, seed_on_start=False, calibrate=False, notice="All made up <&")
    app = create_app(settings)
    with TestClient(app) as client:
        assert app.state.service.preparation.wait(600).knowledge
        for path in ("/", "/browse/runs", "/browse/models/nope", "/docs"):
            assert re.search("All made up &lt;&amp;", client.get(path).text), path


@pytest.mark.parametrize(("path", "said"), [
    ("/browse/competitions/dog-breed-identification", "as published"), ("/browse/devices/a100", "data sheet"),
])  # fmt: skip
def test_names_and_data_sheets_are_not_called_claims(seeded: Site, path: str, said: str):
    facts = httpx2.get(seeded.url + path, timeout=90).text.split("<dt>Grade</dt>")[1].split("</div>")[0]
    assert said in facts
    assert "claimed" not in facts


TABLE = "3000 rows with 8 numeric columns in train.csv, 1000 in test.csv; which customers churn; ROC AUC"


def test_a_plan_whose_script_goes_on_says_the_scripts_own(seeded: Site):
    asked = {"description": TABLE, "gpu": "cpu", "minutes": "3"}
    plan = httpx2.get(f"{seeded.url}/index.json", params=asked, timeout=90).json()["plan"]
    assert len(plan["portfolio"]) > 1
    assert max(run["seeds"] for run in plan["portfolio"]) > 1
    page = httpx2.get(seeded.url, params=asked, timeout=90).text
    shown = (
        page.partition("The question:")[0] + page.partition('id="tab-answer"')[2].partition("<details>")[0]
    )
    assert "Search through other models" in shown
    assert not re.search(r"seeds|batch_size|channels_last|warmup", shown)
    script = httpx2.get(f"{seeded.url}/browse/script.py", params=asked | {"single": "true"}, timeout=90).text
    assert "SEEDS = 1\n" in script
    assert not re.search(r"^from memory_service\.train", script, re.MULTILINE), "nothing is to be installed"
    assert "single=true" in page


def test_the_index_of_one_run_is_not_called_the_blends(seeded: Site):
    whole = httpx2.get(seeded.url, params=ASKED | {"minutes": "60"}, timeout=90).text
    other = httpx2.get(seeded.url, params=ASKED | {"minutes": "60", "run": "2"}, timeout=90).text
    assert "Quality index, runs averaged" in whole
    assert "Quality index" in other
    assert "runs averaged" not in other


def test_a_loss_that_is_ticked_is_in_the_script(seeded: Site):
    slug = "cassava-leaf-disease-classification"
    asked = {"task": "image", "competition": slug, "gpu": "a100", "minutes": "60"}
    data = httpx2.get(f"{seeded.url}/index.json", params=asked, timeout=90).json()
    losses = {each["name"] for each in data["plan"]["recipe"]["loss"]}
    name = next(each["name"] for each in data["techniques"] if each["name"] in losses)
    for ticked in (name, "none"):
        page = httpx2.get(seeded.url, params=asked | {"techniques": ticked}, timeout=90).text
        row = page.partition(f'<th scope="row">{name}</th><td>loss</td>')[2].partition("</tr>")[0]
        assert "in the script" in row
        assert ("not in the script" in row) is (ticked == "none")


def test_an_unknown_gpu_is_said_while_one_types(seeded: Site):
    asked = {"description": TABLE, "gpu": "rtx9090"}
    page = httpx2.post(f"{seeded.url}/browse/understand", data=asked, timeout=90).text
    assert "3,000" in page
    assert "unknown gpu" in page


def test_offers_lead_to_their_plans_and_an_empty_form_says_what_is_missing(seeded: Site):
    empty = httpx2.get(f"{seeded.url}/browse/choose?task=&objective=balanced", timeout=90).text
    assert "Name the task" in empty
    assert "Name the task" not in httpx2.get(f"{seeded.url}/browse/choose", timeout=90).text
    asked = {"task": "image", "n_train": "2000", "model": "resnet18", "deadline_minutes": "60"}
    page = httpx2.get(f"{seeded.url}/browse/choose", params=asked, timeout=90).text
    href = re.search(r'<a href="(/\?[^"]{1,300})">resnet18', page)
    assert href
    plan = httpx2.get(seeded.url + href[1].replace("&amp;", "&"), timeout=90)
    assert plan.status_code == 200
    assert "The plan" in plan.text


def test_prices_of_hardware_have_a_currency_and_offers_of_ones_own_none(seeded: Site):
    asked = {"task": "image", "n_train": "2000", "model": "resnet18", "minutes": "60"}
    own = '[{"name": "mine", "gpu": "t4", "price_per_hour": 2.5}]'
    usual, mine = (
        httpx2.get(f"{seeded.url}/browse/choose", params=asked | offers, timeout=90).text
        for offers in ({}, {"offers": own})
    )
    for head in ("Budget", "An hour", "Cost", "Cost at most"):
        assert f">{head}, USD<" in usual
    assert "free of charge" in usual
    assert "2.5" in mine
    assert "USD" not in mine
    assert "Budget, in your currency" in mine
