"""Can a newcomer find out from the pages what fits, how we know, and why a claim is not followed?"""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.tables.table_rows import create_row
from tests.web.conftest import Site, Visitor, follow, settled

pytestmark = [pytest.mark.browser]


def _text(page: Any, selector: str = "main") -> str:
    """What a reader sees, on one line."""
    return re.sub(r"\s+", " ", page.locator(selector).first.inner_text())


def test_which_batch_fits_convnext_base_at_384_px_on_a_t4_and_how_do_we_know(visit: Visitor, seeded: Site):
    page = visit(seeded, "/")
    page.get_by_role("button", name="Knowledge").click()
    page.get_by_role("link", name="Batch & speed by GPU", exact=True).first.click()
    page.get_by_label("Model", exact=True).fill("ConvNeXt-Base")
    page.get_by_label("Image size, px").fill("384")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**image_size=384**")
    row = page.locator("tr", has=page.get_by_role("link", name="convnext_base.fb_in1k", exact=True))
    t4 = row.locator("td a").nth(0)
    assert t4.inner_text() == "32 (24–32)"
    follow(t4)
    assert page.locator("h1").inner_text() == "convnext_base.fb_in1k on NVIDIA T4"
    said = _text(page, "#answer")
    assert "Batch 24 fits (384 px, fp16, training with adamw)" in said
    assert "the largest that is expected to fit: 32" in said
    assert "An epoch of 10,000 images takes" in said
    assert page.get_by_role("heading", name="How do we know").is_visible()
    known = _text(page, "#know + ul")
    assert "traced without a GPU" in known
    assert "nobody calibrated one here" in known
    assert "none was seen here" in known
    page.locator("#answer button.number").first.click()
    origin = _text(page, "#answer .origin:popover-open")
    assert "estimated" in origin
    assert "trace against usable memory" in origin


def test_what_was_claimed_for_efficientnet_b4_on_an_a100_and_why_is_it_not_followed(
    visit: Visitor, seeded: Site
):
    page = visit(seeded, "/")
    page.get_by_role("button", name="Trust").click()
    page.get_by_role("link", name="Disagreements", exact=True).first.click()
    page.get_by_label("Model, GPU or claim").fill("EfficientNet-B4 A100")
    page.get_by_label("Model, GPU or claim").press("Enter")
    page.wait_for_url("**q=EfficientNet-B4**")
    page.wait_for_load_state("networkidle")  # the rows come once for typing and once for Enter
    first = page.locator("#rows tbody tr", has_text="C29")
    assert "2,000 samples/s" in first.inner_text()
    first.get_by_role("link").first.press("Enter")
    page.wait_for_url("**/browse/conflicts/C29")
    settled(page)
    said = _text(page)
    assert "Followed: what is computed." in said
    assert "an estimate outranks a claim" in said
    assert "that batch does not fit the GPU at all" in said
    assert "4 s per epoch" in said
    page.get_by_role("link", name="memory and speed by batch").click()
    page.wait_for_url("**/browse/sizing/a100/**")
    settled(page)
    claims = _text(page, "#claimed")
    assert "C30" in claims
    assert "not followed" in claims
    assert "250 samples/s" in claims
    assert not {"percent", "minute"} & set(claims.split()), "units of sources, not of pages"
    epochs = page.locator("#cards tbody tr td:nth-child(5)").all_inner_texts()
    assert all(" min" in text or " s" in text for text in epochs)
    assert "It says 0.076 times what is computed" in claims or "times what is computed" in claims
    assert "Batch 512, as asked: does not fit" in _text(page, "#answer")
    assert "are not followed: what is computed for the very same thing" in _text(page)


def test_the_back_button_and_a_shared_link_restore_what_was_asked(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/sizing")
    page.get_by_role("button", name="More: Task").click()
    chip = page.get_by_role("listitem").filter(has_text="text-classification")
    counted = chip.inner_text().split()[-1]
    follow(chip.get_by_role("link"))
    assert "task=text-classification" in page.url
    assert f"{counted} of " in page.locator("#results p").first.inner_text()
    page.get_by_role("link", name="Minutes per epoch").click()
    page.wait_for_url("**show=epoch**")
    rows = page.locator("#rows tbody th").all_inner_texts()
    shared = page.url
    page.locator("#rows tbody td:has(a)").first.click(position={"x": 4, "y": 4})  # beside the number
    page.wait_for_url("**/browse/sizing/t4/**")
    page.go_back()
    page.wait_for_url(shared)
    assert page.locator("#rows tbody th").all_inner_texts() == rows
    assert page.locator(".chip[aria-current]").inner_text().startswith("text-classification")
    again = visit(seeded, shared.removeprefix(seeded.url))
    assert again.locator("#rows tbody th").all_inner_texts() == rows
    assert again.locator("[aria-current=page]", has_text="Minutes per epoch").count() == 1


def test_cards_are_added_and_left_out_without_a_script(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/sizing?q=resnet50&gpu=t4,a100", java_script_enabled=False)
    page.get_by_label("Add a GPU").select_option("l4")
    follow(page.get_by_role("button", name="Add"))
    heads = [head.split("\n")[0] for head in page.locator("#rows thead th").all_inner_texts()]
    assert heads[3:] == ["t4", "a100", "l4"]
    follow(page.get_by_label("Leave out a100"))
    heads = [head.split("\n")[0] for head in page.locator("#rows thead th").all_inner_texts()]
    assert heads[3:] == ["t4", "l4"]
    assert "q=resnet50" in page.url


def test_runs_stand_in_the_charts_and_lead_to_their_pages(visit: Visitor, lived: Site):
    found = httpx2.get(f"{lived.url}/browse/accuracy.json").json()
    point = next(p for p in found["points"] if p["device"] and p["model"])
    page = visit(lived, f"/browse/sizing/{point['device']}/{point['model']}")
    link = page.locator(f"#runs a[href='/browse/runs/{point['run_id']}']")
    assert link.count() == 1
    assert "on " + point["device"] in page.locator("h1").inner_text()


def test_accuracy_shows_runs_scores_and_the_worst_misses(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/accuracy")
    data = httpx2.get(f"{lived.url}/browse/accuracy.json").json()
    assert page.locator("[data-drawn]").count() == 2
    assert page.locator("#misses tbody tr").count() == min(20, len(data["misses"]))
    assert page.locator("#baselines").inner_text().count("\n") >= 3
    page.get_by_role("link", name="Peak memory (driver)").first.click()
    page.wait_for_url("**quantity=peak_memory_gib**")
    settled(page)
    assert "Measured, GiB" in page.locator("#misses").inner_text()
    page.get_by_label("GPU", exact=True).select_option("h100")
    page.wait_for_url("**gpu=h100**")
    settled(page)
    assert set(page.locator("#misses tbody td:nth-child(4)").all_inner_texts()) == {"h100"}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/browse/sizing", "memory-service seed"),
        ("/browse/accuracy", "memory-service watch"),
        ("/browse/conflicts", "memory-service seed"),
    ],
)
def test_an_empty_database_says_what_would_fill_the_page(visit: Visitor, empty: Site, path: str, says: str):
    assert says in _text(visit(empty, path))


@pytest.mark.parametrize(
    ("path", "status", "nearest"),
    [
        ("/browse/sizing/a10O/resnet50", 404, "a10"),
        ("/browse/sizing/a100/resnet5O", 404, 'href="/browse/sizing/a100/resnet50"'),
        ("/browse/sizing/a100/bert-base-uncased?image_size=224", 422, "seq_len"),
        ("/browse/sizing?task=imge", 422, "image"),
        ("/browse/accuracy?family=resnet&quantity=sample_per_second", 422, "samples_per_second"),
        ("/browse/conflicts/C290", 404, 'href="/browse/conflicts/C29"'),
    ],
)
def test_what_is_not_there_is_refused_with_what_is_near(seeded: Site, path: str, status: int, nearest: str):
    page = httpx2.get(seeded.url + path, timeout=60)  # a model nobody listed is looked for in libraries
    assert page.status_code == status
    assert page.headers["content-type"].startswith("text/html")
    assert nearest in page.text
    head, _, query = path.partition("?")
    data = httpx2.get(f"{seeded.url}{head}.json?{query}", timeout=60)
    assert data.status_code == status
    assert data.headers["content-type"] == "application/problem+json"


def test_every_table_leaves_whole_as_a_file(lived: Site):
    for path in ("/browse/sizing.csv?family=resnet", "/browse/accuracy.csv", "/browse/conflicts.csv"):
        lines = httpx2.get(lived.url + path).text.splitlines()
        assert len(lines) > 20, path
        assert "gpu" in lines[0]
    table = httpx2.get(f"{lived.url}/browse/conflicts.parquet?kind=claim").content
    assert table[:4] == table[-4:] == b"PAR1"


def test_a_claim_from_outside_is_shown_as_text(visit: Visitor, own_site: Site):
    said = '<script>document.title="x"</script> \u202eevil\x1b[31mred 🚀 שלום'
    database = Database(own_site.database_url)
    with database.write() as unit:
        create_row(
            unit, "claims",
            {
                "id": "X1", "source": "<b>a.txt</b>", "gpu": "t4", "model": "ResNet-50", "image_size": 224,
                "batch_min": 64, "batch_max": 64, "precision": "amp", "quantity": "samples_per_second",
                "value_min": 9e9, "value_max": 9e9, "unit": "<i>/s", "statement": said.replace("\x1b", ""),
                "grade": "claimed",
            },
            who="test", why="to see",
        )  # fmt: skip
    database.close()
    for path in (
        "/browse/sizing/t4/resnet50?image_size=224",
        "/browse/conflicts/X1",
        "/browse/conflicts?q=X1",
    ):
        page = visit(own_site, path)
        assert page.title() != "x"
        assert page.locator("main i, main b", has_text="a.txt").count() == 0
        assert "9,000,000,000" in _text(page)
    assert "<script>document.title" in _text(visit(own_site, "/browse/conflicts/X1"))


@pytest.mark.parametrize("show", ["speed", "epoch"])
def test_the_batch_of_a_speed_stands_beside_it(seeded: Site, show: str):
    where = f"{seeded.url}/browse/sizing"
    asked = {"q": "resnet50", "gpu": "t4,a100", "show": show}
    cells = [c for item in httpx2.get(f"{where}.json", params=asked).json()["items"] for c in item["cells"]]
    text = httpx2.get(where, params=asked).text
    batches = [f"{c['batch_size']:,}" for c in cells if "batch_size" in c]
    assert re.findall(r'<small class="quiet">batch ([\d,]+)</small>', text) == batches != []


def test_why_a_competition_was_found_is_whole_and_a_phone_shows_fifteen_rows(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/competitions?q=leaf+disease+photos", width=1440)
    why = page.locator("#rows td:nth-child(2)").evaluate_all(
        "cells => cells.filter(cell => cell.scrollWidth > cell.clientWidth).length"
    )
    assert why == 0
    assert page.locator("#rows-box").evaluate("box => box.scrollWidth - box.clientWidth") == 0
    phone = visit(seeded, "/browse/models", width=390)
    shown = phone.locator("#rows tbody tr:visible")
    assert shown.count() == 15
    phone.get_by_label("Show all 50 rows").check()
    assert shown.count() == 50
