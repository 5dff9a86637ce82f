"""Does one search lead to everything, and can runs be laid side by side?"""

from __future__ import annotations

import datetime as dt
import re
import urllib.parse
from typing import Any

import httpx2
import pytest

from tests.web.conftest import Site, Visitor, follow, settled


def data_of(site: Site, path: str) -> Any:
    return httpx2.get(site.url + path).raise_for_status().json()


def found(site: Site, text: str) -> dict[str, list[dict[str, str]]]:
    data = data_of(site, f"/browse/find.json?{urllib.parse.urlencode({'q': text})}")
    return {group["kind"]: group["entries"] for group in data["groups"]}


@pytest.mark.parametrize(
    ("text", "kind", "href"),
    [
        ("b4 a10 a100", "Go to", "/browse/sizing?q=b4&gpu=a10%2Ca100"),
        ("resnet50", "Models", "/browse/models/resnet50.a1_in1k"),
        ("A100", "GPUs", "/browse/devices/a100"),
        ("cassava leaf", "Competitions", "/browse/competitions/cassava-leaf-disease-classification"),
        ("R03 a10 b4", "Strategy tables", "/browse/strategies/R03-a10-b4"),
        ("efficentnet_b4", "Models", "/browse/models/efficientnet_b4.ra2_in1k"),
        ("casava", "Competitions", "/browse/competitions/cassava-leaf-disease-classification"),
        ("b4 a10 a100 380", "Go to", "/browse/sizing?q=efficientnet+b4&gpu=a10%2Ca100&image_size=380"),
        ("B4 at 380, A100 against A10", "Go to",
         "/browse/sizing?q=efficientnet+b4&gpu=a100%2Ca10&image_size=380"),
        ("effnet b4 380 a100 vs a10", "Go to",
         "/browse/sizing?q=efficientnet+b4&gpu=a100%2Ca10&image_size=380"),
        ("efficientnet b4 on 2xt4", "Go to", "/browse/sizing?q=efficientnet+b4&gpu=t4"),
        ("what batch for b4 on a100", "Go to", "/browse/sizing?q=b4&gpu=a100"),
        ("modernbert 1024 tokens a10g", "Go to", "/browse/sizing?q=modernbert&gpu=a10g&seq_len=1024"),
        ("deberta-v3-large at 384 tokens on L4", "Go to",
         "/browse/sizing?q=deberta+v3+large&gpu=l4&seq_len=384"),
        ("llama 8b lora l40s", "Go to", "/browse/sizing?q=llama+8b&gpu=l40s&method=lora"),
        ("mixup", "Techniques", "/browse/solutions?technique=mixup"),
        ("backup", "Pages", "/browse/operate#backups"),
        ("revoke a key", "Pages", "/browse/operate#keys"),
        ("plan 40000 photos", "Go to", "/?description=40000+photos"),
        ("max_body", "Settings", "/browse/settings?name=max_body_bytes"),
        ("how many minutes does resnet50 need on a t4 for 50000 images", "Go to",
         "/browse/sizing?q=resnet50&gpu=t4&n_train=50000&show=epoch"),
        ("speed of deberta large, RTX 3090 or 2 rtx 4090", "Go to",
         "/browse/sizing?q=deberta+large&gpu=rtx3090%2Crtx4090&show=speed"),
        ("compare cassava with plant pathology 2021", "Go to",
         "/browse/competitions/compare?slug=cassava-leaf-disease-classification%2Cplant-pathology-2021-fgvc8"),
        ("how was cassava leaf won", "Competitions",
         "/browse/competitions/cassava-leaf-disease-classification"),
        ("What did the winners of aptos2019 do?", "Winning solutions",
         "/browse/solutions/aptos2019-blindness-detection%231"),
        ("winning solutions", "Pages", "/browse/solutions"),
        ("compare competitions", "Pages", "/browse/competitions"),
        ("how do I compare runs", "Pages", "/browse/runs"),
        ("out of memory runs", "Pages", "/browse/runs"),
        ("wasted time", "Pages", "/browse/runs"),
        ("contradicted claims", "Pages", "/browse/conflicts"),
        ("where is my api key", "Pages", "/browse/operate#keys"),
        ("minutes per epoch", "Pages", "/browse/sizing"),
        ("resnet50 on a10g at 288", "Go to", "/browse/sizing?q=resnet50&gpu=a10g&image_size=288"),
        ("3090 vs 4090", "Go to", "/browse/sizing?gpu=rtx3090%2Crtx4090"),
        ("largest batch on a t4", "Go to", "/browse/sizing?gpu=t4"),
        ("rtx 4090", "GPUs", "/browse/devices/rtx4090"),
        ("pseudo labling", "Techniques", "/browse/solutions?technique=pseudo-labels"),
        ("test time augmentation", "Techniques", "/browse/solutions?technique=tta"),
        ("gradient acumulation", "Strategy tables", "/browse/strategies/R02-oom"),
        ("aptos2019 1", "Winning solutions", "/browse/solutions/aptos2019-blindness-detection%231"),
    ],
)  # fmt: skip
def test_what_is_named_is_found_first(seeded: Site, text: str, kind: str, href: str):
    assert found(seeded, text)[kind][0]["href"] == href
    assert httpx2.get(seeded.url + href, timeout=None).status_code == 200


def test_texts_of_rows_are_searched_and_a_mistyped_address_names_the_near_one(seeded: Site):
    rows = found(seeded, "out of memory")["Strategy tables"]
    assert any("memory" in row["about"].lower() for row in rows)
    data = data_of(seeded, "/browse/find.json?q=casava")
    assert data["read_as"] == "cassava"
    assert data_of(seeded, "/browse/find.json?q=cassav")["read_as"] is None, "a beginning is no mistake"
    assert "cassava-leaf" in httpx2.get(f"{seeded.url}/browse/competitions/casava").text


def test_a_search_says_that_it_found_nothing(seeded: Site):
    assert "Go to" not in found(seeded, "cassava t4"), "no model is called cassava"
    models = next(group for group in data_of(seeded, "/browse/find.json?q=efficientnet")["groups"])
    everything = data_of(seeded, "/browse/sizing.json?q=efficientnet")["matching"]
    assert 0 < models["more"] < everything
    for text, said in (("zzzzqq", "Nothing has a name like this"), ("%", "no word in this")):
        assert said in httpx2.get(f"{seeded.url}/browse/find", params={"q": text}).text


def test_where_nothing_has_all_words_the_rarest_are_searched_for(seeded: Site):
    page = httpx2.get(f"{seeded.url}/browse/find?q=gpu+utilization").text
    assert "Nothing has all of these words" in page
    assert "/browse/strategies/F03-utilization" in page
    assert "/browse/strategies/R05-under-60" in page  # "Utilisation"
    assert (
        "Nothing has all of these words" not in httpx2.get(f"{seeded.url}/browse/find?q=label+smoothing").text
    )
    memory = httpx2.get(f"{seeded.url}/browse/find?q=how+much+memory+does+vit+large+need").text
    assert "Batch &amp; speed of vit large" in memory


def test_words_that_name_no_model_lead_to_no_speed(seeded: Site):
    for text in ("small images on a t4 in 60 minutes", "random forest of all series on a100"):
        assert [entry["name"] for entry in found(seeded, text)["Go to"]] == ["A plan for this text"]


def test_a_share_of_winners_leads_to_these_winners(seeded: Site):
    page = httpx2.get(f"{seeded.url}/browse/patterns").text
    href = re.search(r'href="(/browse/solutions\?modality=image&amp;technique=[a-z-]{1,40})"', page)
    assert href
    path, _, query = href[1].replace("&amp;", "&").partition("?")
    narrowed = data_of(seeded, f"{path}.json?{query}")
    assert 0 < narrowed["matching"] < data_of(seeded, f"{path}.json?{query.rpartition('&')[2]}")["matching"]
    assert {row["modality"] for row in narrowed["items"]} == {"image"}
    assert 'name="solution" value="' in httpx2.get(seeded.url + path).text, "they can be compared"


def test_solutions_of_one_competition_stand_side_by_side(seeded: Site):
    rows = data_of(seeded, "/browse/solutions.json?family=convnext")["items"]
    one = next(
        row
        for row in rows
        for other in rows
        if row["competition"] == other["competition"] and row is not other
    )
    both = [row for row in rows if row["competition"] == one["competition"]][:2]
    query = urllib.parse.urlencode([("solution", row["id"]) for row in both])
    data = data_of(seeded, f"/browse/competitions/compare.json?{query}")
    told = {line["name"]: line["values"] for line in data["lines"]}
    for name in ("competition", "rank", "families", "techniques"):
        assert told[name] == [row[name] or None for row in both]
    page = httpx2.get(f"{seeded.url}/browse/competitions/compare?{query}").raise_for_status().text
    assert all(f'/browse/solutions/{urllib.parse.quote(row["id"])}"' in page for row in both)
    table = httpx2.get(f"{seeded.url}/browse/competitions/compare.csv?{query}").raise_for_status().text
    assert len(table.splitlines()) == len(data["lines"]) + 1
    alone = httpx2.get(f"{seeded.url}/browse/competitions/compare?{query.partition('&')[0]}")
    assert alone.status_code == 422
    assert "solutions to compare; 1 were given" in alone.text


def test_settings_say_what_is_set_here_and_not_to_what(seeded: Site):
    rows = {row["name"]: row for row in data_of(seeded, "/browse/settings.json")["items"]}
    assert rows["MEMORY_DATABASE_URL"] == rows["MEMORY_DATABASE_URL"] | {"default": None, "here": "set"}
    assert rows["MEMORY_NOTICE"]["here"] is None


def test_a_run_is_found_by_the_beginning_of_its_id(lived: Site):
    run = data_of(lived, "/runs?limit=1")["items"][0]
    assert found(lived, run["id"][:8])["Runs"][0]["href"] == f"/browse/runs/{run['id']}"
    assert not {"Runs"} & found(lived, "ffffffff").keys()


@pytest.mark.browser
def test_results_come_while_one_types_from_any_page(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/runs?still=1")
    page.keyboard.press("/")
    page.keyboard.type("convnext_tiny")
    first = page.locator("#find-results a").filter(has_text="convnext_tiny").first
    first.wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.locator("#find").bounding_box()["width"] > 200, "what one types is seen on a phone"
    follow(first)
    assert "/browse/models/convnext_tiny" in page.url


@pytest.mark.browser
def test_ticked_runs_are_compared(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/runs?still=1&competition=cassava-leaf-disease-classification")
    boxes = page.get_by_role("checkbox")
    assert boxes.count() >= 2
    boxes.nth(0).check()
    boxes.nth(1).check()
    page.get_by_role("button", name="Compare those ticked").click()
    settled(page)
    address = urllib.parse.urlsplit(page.url)
    ids = urllib.parse.parse_qs(address.query)["run"]
    data = data_of(lived, f"/browse/compare.json?{address.query}")
    assert [run["id"] for run in data["runs"]] == ids
    assert data["comparable"]
    models = next(line for line in data["settings"] if line["name"] == "model")
    row = page.locator("#settings tr").filter(has=page.get_by_role("rowheader", name="Model", exact=True))
    assert all(str(value) in row.inner_text() for value in models["values"])
    assert ("differs" in (row.get_attribute("class") or "")) == models["differs"]


def test_runs_of_two_competitions_are_shown_and_not_ranked(lived: Site):
    runs = data_of(lived, "/runs?limit=20")["items"]
    one = runs[0]
    other = next(run for run in runs if run["competition"] != one["competition"])
    assert not data_of(lived, f"/browse/compare.json?run={one['id']}&run={other['id']}")["comparable"]
    assert httpx2.get(f"{lived.url}/browse/compare.json").status_code == 422


def test_the_weeks_minutes_are_the_same_by_cause_day_gpu_and_competition(lived: Site):
    weeks = [data_of(lived, f"/browse/runs.json?by={by}")["week"] for by in ("day", "gpu", "competition")]
    by_cause = data_of(lived, "/browse/runs.json?by=cause")["week"]
    wasted = by_cause["minutes"] - by_cause["useful"]
    assert sum(group["minutes"] for group in by_cause["groups"]) == pytest.approx(wasted, abs=0.1)
    for week in weeks:
        if len(week["groups"]) < 8:
            assert sum(group["minutes"] for group in week["groups"]) == pytest.approx(
                week["minutes"], abs=0.1
            )
    by_gpu = weeks[1]["groups"]
    assert len(by_gpu) > 1
    narrowed = data_of(lived, f"/browse/runs.json?gpu={by_gpu[0]['name']}")["week"]
    assert narrowed["minutes"] == pytest.approx(by_gpu[0]["minutes"], abs=0.1)
    refused = httpx2.get(f"{lived.url}/browse/runs?status=complete", timeout=None)
    assert refused.status_code == 422
    assert "completed" in refused.text


def test_a_whole_competition_page_may_be_pasted(seeded: Site):
    text = (
        "Classify photos of leaves into 12 diseases; macro F1. 18 632 photos. " + "More of the rules. " * 900
    )
    asked = {"description": text, "gpu": "a100", "minutes": "60"}
    answer = httpx2.post(seeded.url + "/", data=asked, follow_redirects=True)
    assert answer.status_code == 200
    assert "18,632" in answer.text
    assert "The plan" in answer.text
    script = httpx2.get(f"{seeded.url}/browse/script.py?{answer.url.query.decode()}")
    assert script.headers["content-type"].startswith("text/x-python")
    assert "BATCH_SIZE" in script.text
    short = httpx2.post(seeded.url + "/", data={**asked, "description": text[:200]})
    assert short.status_code == 303
    assert short.headers["location"].startswith("/?description=Classify")


def test_what_is_understood_needs_no_gpu(seeded: Site):
    text = "Classify photos of leaves into 12 diseases; macro F1. 18 632 photos."
    page = httpx2.post(seeded.url + "/browse/understand", data={"description": text}).text
    assert "18,632" in page
    assert "batch" not in page


def test_a_run_without_an_epoch_is_compared_without_a_chart_of_nothing(lived: Site):
    facts = {"task": "image-classification", "gpu": "t4", "model": "resnet50", "minutes": 60}
    began = httpx2.post(f"{lived.url}/runs", json=facts).json()["run_id"]
    other = data_of(lived, "/runs?limit=5&status=completed")["items"][0]["id"]
    page = httpx2.get(f"{lived.url}/browse/compare?run={other}&run={began}")
    assert page.status_code == 200
    assert "data-chart" in page.text
    assert not re.search(r"<script[^>]{0,200}application/json[^>]{0,200}>\s{0,9}null", page.text)


def test_a_run_that_ended_at_its_deadline_shows_its_best_score_and_no_failure(own_site: Site):
    begun = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=3)
    facts = {"task": "tabular-classification", "gpu": "cpu", "model": "lightgbm", "minutes": 2}
    facts |= {"metric": "roc_auc", "started_at": begun.isoformat()}
    run = httpx2.post(f"{own_site.url}/runs", json=facts).json()["run_id"]
    events = [
        {"seq": n, "kind": "note", "at": (begun + dt.timedelta(seconds=30 * n)).isoformat(),
         "text": f"network, fold {n} {metric}", "metric": metric}
        for n, metric in enumerate((0.97, 0.99132, 0.97917))
    ]  # fmt: skip
    httpx2.post(f"{own_site.url}/runs/{run}/events", json={"events": events}).raise_for_status()
    own = data_of(own_site, f"/browse/runs/{run}.json")
    assert (own["best_so_far"], own["latest_metric"]) == (0.99132, 0.97917)
    end = {"status": "timed_out", "submission": True}
    httpx2.post(f"{own_site.url}/runs/{run}/finish", json=end).raise_for_status()
    for path in (f"/browse/runs/{run}", "/browse/runs"):
        page = httpx2.get(own_site.url + path).text
        assert "ended at the deadline, submission written" in page
        assert "badge timed_out" not in page
    assert re.search(
        r"Best score of one fold</dt><dd[^>]{0,20}>0\.99132<",
        (page := httpx2.get(f"{own_site.url}/browse/runs/{run}").text),
    )
    assert "The run has ended: at the deadline, with a submission written." in page
    late = httpx2.post(f"{own_site.url}/runs", json=facts).json()["run_id"]
    httpx2.post(f"{own_site.url}/runs/{late}/finish", json={"status": "timed_out"})
    page = httpx2.get(f"{own_site.url}/browse/runs/{late}").text
    assert "out of time</span>" in page
    assert "The run has ended: out of time." in page


def test_each_planned_runs_script_is_beside_the_buttons(seeded: Site):
    asked = urllib.parse.urlencode({"task": "image", "n_train": 9000, "gpu": "a10", "minutes": 600})
    page = httpx2.get(f"{seeded.url}/?{asked}", timeout=None).text
    links = re.findall(r'href="(/browse/script\.py[^"]{0,200}run=\d)" download', page)
    assert len(links) + 1 == len(data_of(seeded, f"/index.json?{asked}")["plan"]["portfolio"])
    scripts = {httpx2.get(seeded.url + link.replace("&amp;", "&"), timeout=None).text for link in links}
    assert len(scripts) == len(links) > 0


def test_a_run_of_a_table_shows_its_batch_unless_it_is_of_trees(seeded: Site):
    asked: dict[str, str | int] = {
        "task": "tabular-regression",
        "n_train": 500_000,
        "n_features": 60,
        "gpu": "a100",
        "minutes": 120,
    }
    runs = httpx2.get(f"{seeded.url}/index.json", params=asked, timeout=None).json()["plan"]["portfolio"]
    page = httpx2.get(seeded.url, params=asked, timeout=None).text.partition('id="portfolio"')[2]
    shown = re.findall(r'"/browse/models/[^"]+">[^<]+</a>[^<]*</td><td class="right">([^<]+)</td>', page)
    batches = [str(run["batch_size"]) if run["optimizer"] == "adamw" else "–" for run in runs]
    assert "–" in batches != ["–"] * len(batches)
    assert [cell.partition(" ×")[0].replace(",", "") for cell in shown] == batches
