"""Can a person ask, correct what was understood, and follow the plan to what it rests on?"""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from memory_service.domain.common.units import minutes as minutes_shown
from memory_service.domain.planning import candidates
from memory_service.domain.planning.plan_search import price_grid
from memory_service.services.planning import request_text
from memory_service.services.planning.questions import MOST_PLANS
from tests.web.conftest import Site, Visitor, follow

pytestmark = [pytest.mark.browser]

ASKED = "/?task=image&size=medium&gpu=a100&minutes=30"


def answered(site: Site, path: str) -> Any:
    with urllib.request.urlopen(site.url + path) as response:
        return json.load(response)


def test_a_question_typed_into_the_form_gets_the_plan_of_recommend(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    page.get_by_label("Task", exact=True).select_option("tabular-classification")
    page.get_by_role("textbox", name="Training samples").fill("200000")
    page.get_by_label("GPU", exact=True).fill("cpu")
    follow(page.get_by_role("button", name="Make the plan"))
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page.url).query))
    assert asked == {"task": "tabular-classification", "n_train": "200000", "gpu": "cpu"}
    plan = answered(seeded, "/recommend?" + urllib.parse.urlencode(asked))
    assert plan["model"]["name"] in page.locator("p.said").inner_text()
    assert f"plan_id = '{plan['plan_id']}'" in page.locator("#settings + .copy").inner_text()
    page.go_back()
    assert page.get_by_role("button", name="Make the plan").is_visible()


def test_facts_read_from_a_description_are_shown_and_can_be_corrected(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    page.get_by_label("Description").fill(
        "Tell the kind of a cheese from a photo. There are 10222 training images of 120 kinds; "
        "multi-class log loss."
    )
    page.get_by_label("GPU", exact=True).fill("t4")
    follow(page.get_by_role("button", name="Make the plan"))
    facts = page.get_by_role("region", name="What this plan assumes")
    row = facts.get_by_role("listitem").filter(has_text="Training samples")
    assert "10,222 from the text" in row.inner_text()
    assert "log loss from the text" in facts.get_by_role("listitem").filter(has_text="Metric").inner_text()
    follow(row.get_by_role("link"))
    page.keyboard.type("9000")  # in place of what was read
    follow(page.get_by_role("button", name="Make the plan"))
    assert "Training samples: 9,000 ✎" in facts.inner_text()


def test_a_corrected_number_of_samples_contradicts_no_size(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    page.get_by_role("link", name="Correct Training samples").click()
    page.get_by_role("textbox", name="Training samples").fill("9000")
    follow(page.get_by_role("button", name="Make the plan"))
    assert "size=" not in page.url
    assert "contradicts" not in page.locator("main").inner_text()


def test_a_plan_of_a_long_text_has_an_address_like_any_other(visit: Visitor, seeded: Site):
    text = "Tell the breed of a dog from a photo: 10222 images, 120 breeds. Größe 中. " + " ".join(
        f"Rule {n}: be fair." for n in range(800)
    )
    page = visit(seeded, "/")
    page.get_by_label("Description").fill(text)
    page.get_by_label("GPU", exact=True).fill("t4")
    follow(page.get_by_role("button", name="Make the plan"))
    assert len(text) > 2 * len(page.url)
    said = page.locator("p.said").inner_text()
    page.goto(seeded.url + "/browse/models")
    page.go_back()
    assert page.locator("p.said").inner_text() == said
    assert visit(seeded, page.url.removeprefix(seeded.url)).get_by_label("Description").input_value() == text
    data = answered(seeded, page.get_by_role("link", name="This page as JSON").get_attribute("href"))
    assert data["asked"]["description"] == text
    follow(page.locator("#portfolio ~ .scroll th a").first)
    assert page.get_by_label("Description").input_value() == text
    broken = visit(seeded, "/?gpu=t4&packed=" + page.url.partition("packed=")[2][:60], expect=422)
    assert "part of the address is missing" in broken.locator("main").inner_text()


def test_gpu_and_hours_are_read_from_the_text_and_can_be_corrected(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    text = "Classify 40,000 photos of leaves into 5 diseases. GPU Notebook <= 9 hours run-time, on a P100."
    page.get_by_label("Description").fill(text)
    chips = page.locator("#understood li")
    chips.filter(has_text="Minutes: 540").wait_for()
    assert "P100" in chips.filter(has_text="GPU").inner_text()
    chips.filter(has_text="Minutes: 540").get_by_role("link").click()
    field = page.get_by_role("textbox", name="Minutes")
    assert field.input_value() == "540"
    field.fill("120")
    follow(page.get_by_role("button", name="Make the plan"))
    facts = page.get_by_role("region", name="What this plan assumes")
    assert "Minutes: 120" in facts.inner_text()
    assert "from the text" in facts.get_by_role("listitem").filter(has_text="GPU").inner_text()
    assert "minutes=120" in page.get_by_role("link", name="Download train.py").get_attribute("href")
    assert page.get_by_label("GPU", exact=True).get_attribute("placeholder") == "p100 (from the text)"


def test_an_offline_notebook_of_two_cards_is_told_where_its_weights_must_lie(visit: Visitor, seeded: Site):
    text = (
        "Classify 9,000 photos of leaves into 5 diseases. At most 1 hour on a GPU (2 x T4), without internet."
    )
    page = visit(seeded, "/?" + urllib.parse.urlencode({"description": text}))
    assert "2 × NVIDIA T4" in page.locator("#facts li").filter(has_text="GPU").inner_text()
    assert page.get_by_label("GPU", exact=True).get_attribute("placeholder") == "2xt4 (from the text)"
    assert page.locator("p.note", has_text="must lie in the folder").is_visible()


def test_a_script_that_goes_on_through_other_models_ends_within_the_limit(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=tabular&n_train=200000&n_features=80&gpu=cpu&minutes=20")
    drawn = page.locator(".timetable rect.stage").evaluate_all(
        "all => all.map(one => [+one.getAttribute('x'), +one.getAttribute('width')])"
    )
    assert drawn[0][0] == 0
    assert sum(drawn[-1]) <= 1000
    assert "of 20 min" in page.locator("#expect + dl").inner_text()
    models = page.locator(".steps .one").all_inner_texts()
    assert models
    assert all(page.locator(f".steps .one[title^='{name}']").count() for name in models)


def test_a_plan_of_a_table_says_what_its_script_does_wherever_it_is_shown(visit: Visitor, seeded: Site):
    asked = {"task": "tabular", "n_train": 16000, "n_features": 24, "gpu": "cpu", "minutes": 4}
    page = visit(seeded, "/?" + urllib.parse.urlencode(asked))
    plan = answered(seeded, "/recommend?" + urllib.parse.urlencode(asked) + "&detail=full")
    shown, stages = page.locator("main").text_content(), page.locator(".stages li").all_inner_texts()
    assert "training not done" not in page.locator("#trouble ~ .scroll").first.text_content().lower()
    tried = {"lightgbm", "xgboost", "catboost", "linear", "random-forest", "tabm"}
    named = [each["name"] for each in plan["recipe"]["families"] if each["name"] in tried]
    rows = {row.split("family")[0].strip(): row for row in page.locator(".used tbody tr").all_text_contents()}
    assert named
    assert not any("not chosen" in rows[name] or "no model" in rows[name] for name in named)
    blends = [each for each in plan["recipe"]["techniques"] if each["name"] == "weighted-blend"]
    assert all(each["in_script"] for each in blends)
    assert "blend.py" not in shown
    own = visit(seeded, f"/browse/plans/{plan['plan_id']}").locator(".stages li").all_inner_texts()
    assert own == stages
    assert own[-2] == "Search through other models ends at 3.9 min"
    page = visit(seeded, "/")
    page.locator("#f-description").fill("A table of 16000 rows, 24 columns, 3 classes. No GPU, 4 minutes.")
    page.locator("#understood", has_text="goes on through other models until 3.9 min of 4 min").wait_for()


def test_the_runs_of_a_plan_are_joined_by_a_script_that_is_beside_them(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=image&n_train=9000&gpu=a10&minutes=600")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="blend.py").click()
    assert downloading.value.suggested_filename == "blend.py"
    text = downloading.value.path().read_text()
    compile(text, "blend.py", "exec")
    assert "def blend_runs" in text


def test_a_loss_that_can_be_ticked_is_said_to_be_in_the_script_or_not(visit: Visitor, seeded: Site):
    asked = "/?competition=cassava-leaf-disease-classification&gpu=t4&minutes=60&techniques="
    losses = answered(seeded, "/index.json" + asked[1:] + "focal")["plan"]["recipe"]["loss"]
    assert "focal" in {each["name"] for each in losses}, "the case shows nothing"
    for ticked, said in (("focal", "in the script"), ("none", "not in the script")):
        page = visit(seeded, f"{asked}{ticked}#tab-won")
        row = page.locator(".used tbody tr").filter(has=page.locator("th", has_text=re.compile("^focal$")))
        assert row.locator("b").inner_text() == said


def test_each_fact_says_where_the_plan_has_it_from(visit: Visitor, seeded: Site):
    with urllib.request.urlopen(seeded.url + "/competitions/cassava-leaf-disease-classification") as row:
        n_test = json.load(row)["n_test"]
    text = (
        "Cassava Leaf Disease Classification. Identify the type of disease present on a cassava leaf image: "
        "21,367 labeled images, categorization accuracy. GPU Notebook <= 9 hours run-time."
    )
    for asked in (
        {"description": text, "gpu": "t4"},
        {"competition": "cassava-leaf-disease-classification", "gpu": "t4"},
    ):
        query = "?" + urllib.parse.urlencode(asked)
        page = visit(seeded, "/" + query)
        facts = {fact["name"]: fact for fact in answered(seeded, "/recommend" + query)["facts"]}
        assert (facts["n_test"]["from"], facts["n_test"]["value"]) == ("record", n_test)
        shown = {fact["field"]: fact for fact in answered(seeded, "/index.json" + query)["facts"]}
        assert {name: fact["from"] for name, fact in shown.items()} == {
            name: facts[name]["from"] for name in shown
        }
        chips = page.get_by_role("region", name="What this plan assumes").get_by_role("listitem")
        assert f"{n_test:,} from the record" in chips.filter(has_text="Samples to predict").inner_text()
        assert "characters)" not in " ".join(chips.all_inner_texts())
        assert "of cassava-leaf" in chips.filter(has_text="Samples to predict").get_attribute("title")
    told = "Tell the kind of a cheese from a photo: 21,367 labeled images, accuracy."
    words = visit(seeded, "/?" + urllib.parse.urlencode({"description": told, "gpu": "t4"}))
    chip = words.locator("#facts li").filter(has_text="Training samples")
    assert chip.get_attribute("title") == "from the text: “21,367 labeled images”"


def test_the_seeds_stand_wherever_the_folds_do(visit: Visitor, seeded: Site):
    asked = "/?task=image&n_train=21367&gpu=t4&minutes=540&model=resnet18"
    plan = answered(seeded, "/recommend" + asked[1:])
    folds, seeds = plan["folds"], plan["seeds"]
    assert seeds > 1
    page = visit(seeded, asked)
    assert f"× {seeds} seeds = {folds * seeds} models" in page.locator("p.said").inner_text()
    assert f"seeds = {seeds}" in page.locator("#settings + .copy").inner_text()
    assert "of 14.6 usable" in page.locator("#expect + dl").inner_text()


def test_a_plan_for_a_competition_names_no_gpu_that_nobody_asked_for(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/competitions/cassava-leaf-disease-classification")
    follow(page.get_by_role("link", name="Make a plan"))
    assert "On which GPU" in page.locator("p.note").inner_text()
    page.get_by_label("GPU", exact=True).fill("t4")
    follow(page.get_by_role("button", name="Make the plan"))
    assert "competition=cassava" in page.url
    assert page.locator("p.said").is_visible()


def test_the_headline_the_timetable_and_the_runs_end_at_the_same_minute(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    plan = answered(seeded, "/recommend" + ASKED[1:])
    assert len(plan["portfolio"]) > 1
    over = minutes_shown(plan["portfolio"][-1]["deadline_minute"])
    assert f"within {over} of 30 min" in page.locator("p.said").inner_text()
    assert over in page.locator(".stages").inner_text()
    own = [plan["model"]["name"], plan["batch_size"], plan["folds"], plan["epochs"]]
    data = answered(seeded, "/index.json" + ASKED[1:])
    others = [[one["model"], one["batch_size"], one["folds"], one["epochs"]] for one in data["others"]]
    assert own not in others
    assert page.locator(".apart thead th").count() == 1 + len(others)


@pytest.mark.parametrize("minutes", [30, 240])
def test_an_alternative_shows_what_its_link_plans(visit: Visitor, seeded: Site, minutes: int):
    asked = f"/?task=image&size=medium&gpu=t4&minutes={minutes}"
    page = visit(seeded, asked)
    heads = page.locator(".apart thead th").all_inner_texts()
    ends = page.locator(".apart tr", has_text="All over within").locator("td").all_inner_texts()
    links = [link.get_attribute("href") for link in page.locator(".apart thead a").all()]
    plans = [answered(seeded, "/recommend" + link[link.index("?") :]) for link in [asked, *links] if link]
    assert len(heads) == len(plans) > 1
    for plan, end in zip(plans, ends, strict=True):
        assert end.startswith(minutes_shown((plan["portfolio"] or plan["timetable"])[-1]["deadline_minute"]))
    quality = [plan["expected"]["quality_index"]["value"] for plan in plans]
    better = [index for head, index in zip(heads, quality, strict=True) if head == "Better"]
    assert all(index > quality[0] for index in better)


def test_a_script_that_uses_all_minutes_has_no_faster_alternative(visit: Visitor, seeded: Site):
    page = visit(
        seeded, "/?task=tabular-regression&n_train=1200000&n_features=64&gpu=rtx4090&cpu_count=16&minutes=45"
    )
    assert "Faster" not in page.locator(".apart thead th").all_inner_texts()
    ends = page.locator(".apart tr", has_text="All over within").locator("td").all_inner_texts()
    assert len(ends) > 1
    assert all(end.startswith(minutes_shown(0.97 * 45)) for end in ends)


def test_what_any_of_the_runs_trains_is_in_the_plan(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=tabular-classification&n_train=200000&gpu=cpu&minutes=60")
    plan = answered(seeded, "/recommend?task=tabular-classification&n_train=200000&gpu=cpu&minutes=60")
    trained = {run["model"] for run in plan["portfolio"]}
    assert len(trained) > 1
    said = {
        row.locator("td").nth(3).inner_text()
        for row in page.locator(".used tbody tr").filter(has_text="family").all()
    }
    assert not {f"it would be {model}" for model in trained} & said
    assert trained & said


def test_what_somebody_fixes_stands_beside_what_is_planned_without(visit: Visitor, seeded: Site):
    asked = "/?task=image&n_train=20000&gpu=a100&minutes=60"
    free = answered(seeded, "/recommend" + asked[1:])
    page = visit(seeded, asked + "&model=resnet18.a1_in1k&folds=3")
    heads = page.locator(".apart thead th").all_inner_texts()
    assert heads[:2] == ["Yours", "With nothing fixed"]
    assert free["model"]["name"] in page.locator(".apart tbody tr").first.inner_text()
    page.get_by_role("link", name="Trade-offs").click()
    follow(page.get_by_role("link", name="With nothing fixed"))
    assert "model=" not in page.url
    assert "folds=" not in page.url
    assert free["model"]["name"] in page.locator("p.said").inner_text()
    assert "With nothing fixed" not in page.locator("main").inner_text()


def test_a_refused_question_says_at_the_field_what_is_wrong(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=imge&gpu=a100&n_train=-5", expect=422)
    wrong = page.get_by_role("textbox", name="Training samples")
    assert wrong.get_attribute("aria-invalid") == "true"
    assert "1" in page.locator("#e-n_train").inner_text()
    assert "image" in page.locator("#e-task").inner_text()
    assert page.get_by_label("Task", exact=True).input_value() == "imge"
    page = visit(
        seeded, "/?description=dogs+photos+120+breeds&n_train=many&gpu=qqqqq&minutes=soon", expect=422
    )
    assert "for example t4" in page.locator("#e-gpu").inner_text()
    assert page.locator("#e-n_train").is_visible()
    assert page.locator("#e-minutes").is_visible()
    assert page.get_by_role("alert").inner_text().startswith("Training samples: ")
    page.locator("#understood li").first.wait_for()
    assert "Classes: 120" in page.locator("#understood").inner_text()
    assert "Training samples: 40,000 assumed" in page.locator("#understood").inner_text()


def test_numbers_are_read_as_people_write_them(visit: Visitor, seeded: Site):
    for n_train, minutes in (
        ("21,367", "1h"),
        ("21 367", "60 min"),
        ("21367", "1 h 0 min"),
        ("21,367", "0h 60"),
    ):
        asked = {"task": "image", "n_train": n_train, "gpu": "T4 x2", "minutes": minutes}
        plan = answered(seeded, "/index.json?" + urllib.parse.urlencode(asked))["plan"]
        facts = {fact["name"]: fact["value"] for fact in plan["facts"]}
        assert (facts["n_train"], facts["minutes"], facts["gpu"]) == (21367, 60, "2xt4")
    page = visit(seeded, "/?" + urllib.parse.urlencode(asked))
    assert page.locator("#f-n_train").input_value() == "21367"


def test_no_change_gives_up_what_nobody_fixed(visit: Visitor, seeded: Site):
    page = visit(seeded, "/?task=image-classification&size=medium&gpu=a100&minutes=30&batch_size=1000000")
    offered = page.locator("#main h2:has-text('What would fit') + ul li").all_inner_texts()
    assert offered
    assert len(set(offered)) == len(offered)
    assert not any("–:" in text or "Model" in text for text in offered)
    assert "no model of it is known" not in page.locator(".used").inner_text()
    free = visit(seeded, "/?task=image-classification&size=medium&gpu=a100&minutes=30&vram_gib=0.5")
    assert free.get_by_role("link", name="No limit of memory", exact=True).is_visible()


def test_what_does_not_fit_offers_what_would(visit: Visitor, seeded: Site):
    page = visit(
        seeded, "/?task=image&n_train=900000&gpu=t4&minutes=3&image_size=512&model=resnet50&epochs=30"
    )
    assert page.get_by_role("heading", name="No plan fits").is_visible()
    follow(page.locator("h2:has-text('What would fit') + ul a").first)
    assert page.get_by_role("heading", name="The plan", exact=True).is_visible()


def test_the_answer_stands_above_the_fold_and_the_rest_in_tabs(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED, width=1440)
    for answer in (
        page.locator("p.said"),
        page.get_by_role("link", name="Download train.py"),
        page.locator("#expect"),
    ):
        box = answer.bounding_box()
        assert box["y"] + box["height"] < 900
    for name, shown in (
        ("Trade-offs", "#quality canvas"),
        ("If it goes wrong", "#trouble"),
        ("Validation", "p >> text=Validation:"),
    ):
        page.get_by_role("link", name=name, exact=True).click()
        page.locator(shown).first.wait_for()
        assert not page.locator("#expect").is_visible()
    page.goto(page.url.partition("#")[0] + "#evidence")
    assert page.locator("#evidence").is_visible(), "an address within a tab opens it"
    phone = visit(seeded, f"{ASKED}#tab-code", width=390)
    assert phone.locator('.tabs a[href="#tab-code"]').bounding_box()["x"] < 300, "the strip follows"
    phone = visit(seeded, ASKED, width=390)
    for answer in (
        phone.locator("p.said"),
        phone.locator("#timetable"),
        phone.get_by_role("link", name="Download train.py"),
    ):
        assert answer.bounding_box()["y"] < 2 * 844
    assert "echarts" not in visit(seeded, "/").content(), "no library of charts where no chart is"


def test_groups_that_belong_together_can_be_said(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    page.get_by_role("link", name="Validation", exact=True).click()
    assert "group" not in page.locator("#tab-validation b").first.inner_text()
    page.get_by_role("link", name="Say by what").click()
    page.get_by_label("Rows belong together by").fill("plant")
    page.get_by_label("Groups", exact=True).fill("900")
    follow(page.get_by_role("button", name="Make the plan"))
    assert "group_by=plant" in page.url
    chips = page.get_by_role("region", name="What this plan assumes").get_by_role("listitem")
    assert "plant" in chips.filter(has_text="Rows belong together by").inner_text()
    assert "group" in chips.filter(has_text="Split").inner_text()
    page.get_by_role("link", name="Correct Split").click()
    assert (
        page.locator("#f-split").evaluate("field => field === document.activeElement && field.value")
        == "group"
    )
    page.get_by_role("link", name="Validation", exact=True).click()
    assert "group" in page.locator("#tab-validation b").first.inner_text()


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


def test_how_similar_competitions_were_won_leads_to_the_solutions(visit: Visitor, seeded: Site):
    asked = "?competition=aptos2019-blindness-detection&gpu=t4&minutes=60"
    page = visit(seeded, "/" + asked)
    plan = answered(seeded, "/recommend" + asked + "&detail=full")
    recipe, shown = plan["recipe"], page.locator("main").text_content()
    page.get_by_role("link", name="How it was won").click()
    used = page.get_by_role("region", name="What winners used").inner_text()
    for row in (*recipe["families"], *recipe["techniques"], *recipe["loss"]):
        assert row["name"] in used
    assert f"Validation: {recipe['validation']['split']}" in shown
    for part in ("mattered", "failed", "pitfalls"):
        assert all(lesson["text"][:60] in shown for lesson in recipe[part])
    assert plan["similar"][0]["lessons"][0][:60] in shown
    rows = page.locator("#evidence + details tbody th").all_text_contents()
    assert rows == [row["id"] for row in plan["evidence"]]
    source = plan["targets"]["by_rank"][0]["from"]
    page.get_by_role("link", name="Validation", exact=True).click()
    follow(page.locator("#targets ~ ul").first.get_by_role("link", name=source))
    assert page.get_by_role("heading", name=source).is_visible()
    visit(seeded, f"/browse/solutions/{recipe['families'][0]['from'][0]}".replace("#", "%23"))


def test_text_from_outside_is_text(visit: Visitor, seeded: Site):
    told = "<script>alert(1)</script> \u202egnp\u202c photos 🐕 " + "x" * 300
    page = visit(seeded, "/?gpu=t4&task=image&description=" + urllib.parse.quote(told))
    assert page.get_by_label("Description").input_value().startswith("<script>")
    assert page.locator("main script:not([type])").count() == 0


def test_models_side_by_side_are_shown_with_which_way_is_better_and_why(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    sets = answered(seeded, "/recommend" + ASKED[1:] + "&include=parallel")["parallel"]
    shown = page.locator("section.panel[aria-labelledby^=parallel-]")
    assert shown.count() == len(sets) > 0
    page.get_by_role("link", name="Trade-offs").click()
    page.locator("#parallel + details > summary").click()
    for one, at in zip(sets, shown.all(), strict=True):
        text = at.inner_text()
        assert one["why"] in text
        assert {"together": "Better together.", "one_after_another": "Better one after another."}[
            one["better"]
        ] in text
        table = at.get_by_role("table").inner_text()
        for member in one["models"]:
            assert member["model"]["name"] in table
            assert f"batch {member['batch_size']}" in table or member["runs_on"] == "cpu"
    shown.first.get_by_role("button").first.click()
    assert "mean value analysis" in page.locator("[popover]:popover-open").inner_text()


def test_the_training_script_is_a_file_to_keep_and_a_command_to_copy(visit: Visitor, seeded: Site):
    page = visit(seeded, ASKED)
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download train.py").click()
    assert downloading.value.suggested_filename == "train.py"
    text = downloading.value.path().read_text()
    compile(text, "train.py", "exec")
    request = urllib.request.Request(
        seeded.url + "/recommend" + ASKED[1:], headers={"Accept": "text/x-python"}
    )
    with urllib.request.urlopen(request) as response:
        assert response.read().decode() == text
    page.locator("#script-show").click()
    page.locator("#script-text", has_text="import").wait_for()
    assert page.locator("#script-text").text_content() == text
    command = page.locator("#forms ~ p code").nth(1).inner_text()
    assert "Accept: text/x-python" in command
    assert seeded.url + "/recommend" + ASKED[1:] in command


def test_no_script_is_offered_where_there_is_none(visit: Visitor, seeded: Site):
    asked = "?task=image-to-image&size=small&gpu=a100&minutes=60"
    page = visit(seeded, "/" + asked)
    assert page.get_by_role("heading", name="The plan", exact=True).is_visible()
    assert page.get_by_role("link", name="Download train.py").count() == 0
    assert "train.py" not in page.locator("main").inner_text()
    refused = visit(seeded, "/browse/script.py" + asked, expect=406)
    assert "no script for image-to-image" in refused.locator("main").inner_text().lower()


def test_a_question_is_read_and_priced_once_for_its_page(seeded: Site, monkeypatch: pytest.MonkeyPatch):
    calls: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            calls[name] += 1
            return real(*given)

        return call

    monkeypatch.setattr(candidates, "price_grid", counted("priced", price_grid))
    real = request_text.read_request_text
    monkeypatch.setattr("memory_service.services.planning.recommend.read_request_text", counted("read", real))
    asked = "?task=image-classification&n_train=20000&gpu=t4&minutes=29&description=" + urllib.parse.quote(
        "Tell 37 kinds of birds from 20,000 photos."
    )
    page = answered(seeded, "/index.json" + asked)
    assert page["plan"]["feasible"]
    assert calls["read"] == 1
    assert calls["priced"] <= 1 + MOST_PLANS, "the plan, and what another answer to a question would change"
    assert page["plan"]["plan_id"] == answered(seeded, "/recommend" + asked)["plan_id"]


@pytest.mark.parametrize(
    ("text", "title", "chip"),
    [
        ("efficientnet-b4 on two gpus", "Which task is it: what goes in, and what comes out?",
         "image-classification"),
        ("Classify 9,000 photos into 12 classes, accuracy.", "Which hardware is there?", "2xt4"),
    ],
)  # fmt: skip
def test_what_is_missing_is_asked_for_and_not_called_a_misfit(seeded: Site, text: str, title: str, chip: str):
    page = httpx2.get(seeded.url, params={"description": text}).text
    assert f"<h1>{title}</h1>" in page
    assert f">{chip}</a>" in page
    assert "No plan fits" not in page
    assert "POST /" not in page.partition('id="tab-answer"')[2].partition("</section>")[0]
