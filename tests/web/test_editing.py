"""Can a person put right what is wrong, see the difference, take it back, and never overwrite another
unseen?"""

from __future__ import annotations

import csv
import io
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from memory_service.services.tables.file_formats import TableExport, in_format
from memory_service.services.tables.spreadsheet import as_csv
from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, follow, running

pytestmark = [pytest.mark.browser]

ROW = "R03-a100-image-224"
PAGE = f"/browse/strategies/{ROW}"


@pytest.fixture(scope="module")
def desk(servers: Servers) -> Iterator[Site]:
    """A seeded site that is written to; each test leaves its rows as they were."""
    with running("desk", servers.new("sqlite", "seeded")) as site:
        yield site


def row_of(site: Site, path: str) -> dict[str, Any]:
    with urllib.request.urlopen(site.url + path) as response:
        found: dict[str, Any] = json.load(response)
    return {
        name: value for name, value in found.items() if name not in ("version", "updated_at", "corrected")
    }


def write(page: Any, statement: str, why: str) -> None:
    page.get_by_label("Statement").fill(statement)
    page.get_by_label("Why (kept").fill(why)
    follow(page.get_by_role("button", name="Review changes"))


def test_an_edit_and_its_undo_leave_the_row_as_it_was_and_both_in_its_history(visit: Visitor, desk: Site):
    before = row_of(desk, f"/strategies/{ROW}")
    page = visit(desk, PAGE)
    follow(page.get_by_role("link", name="Edit", exact=True))
    write(page, "Batch <b>256</b> at 224 px.", "measured here")
    difference = page.get_by_role("region", name="Difference").inner_text()
    assert before["statement"] in difference
    assert "Batch <b>256</b> at 224 px." in difference
    assert row_of(desk, f"/strategies/{ROW}") == before, "looking keeps nothing"
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**{PAGE}?saved=1")
    assert row_of(desk, f"/strategies/{ROW}")["statement"] == "Batch <b>256</b> at 224 px."
    page.go_back()
    assert page.get_by_label("Statement").input_value() == "Batch <b>256</b> at 224 px."
    page.go_forward()
    assert "measured here" in page.locator(".history").inner_text()
    toast = page.get_by_role("status")
    assert "Saved" in toast.inner_text()
    follow(toast.get_by_role("button", name="Undo"))
    assert row_of(desk, f"/strategies/{ROW}") == before
    told = page.locator(".history").inner_text()
    assert "measured here" in told
    assert "undoes version" in told


def test_whoever_comes_second_is_shown_the_difference_and_overwrites_nothing(visit: Visitor, desk: Site):
    row = "/browse/edit/strategies/R02-start"
    first, second = visit(desk, row), visit(desk, row)
    write(first, "The first one was here.", "first")
    first.get_by_role("button", name="Save").click()
    first.wait_for_url("**/browse/strategies/R02-start?saved=1")
    second.get_by_label("Source").fill("the second one's book")
    second.get_by_label("Why (kept").fill("second")
    follow(second.get_by_role("button", name="Review changes"))
    assert "Somebody changed this row" in second.get_by_role("alert").inner_text()
    assert "The first one was here." in second.get_by_role("region", name="Difference").inner_text()
    assert row_of(desk, "/strategies/R02-start")["statement"] == "The first one was here."
    follow(second.get_by_role("button", name="Review changes"))
    shown = second.get_by_role("region", name="Difference").inner_text()
    assert "the second one's book" in shown
    assert "The first one was here." not in shown, "what the second left alone follows the row"
    second.get_by_role("button", name="Save").click()
    second.wait_for_url("**/browse/strategies/R02-start?saved=1")
    now = row_of(desk, "/strategies/R02-start")
    assert (now["statement"], now["source"]) == ("The first one was here.", "the second one's book")
    visit.wrong.clear()  # the browser notes the 409


def test_what_is_no_row_is_said_at_its_field(visit: Visitor, desk: Site):
    page = visit(desk, "/browse/edit/gpus/a100")
    page.get_by_label("Memory, GiB").fill("forty")
    page.get_by_label("Why (kept").fill("x")
    follow(page.get_by_role("button", name="Review changes"))
    assert "cannot be read" in page.locator("#w-memory_gib").inner_text()
    assert page.get_by_label("Memory, GiB").input_value() == "forty"
    assert page.locator('[name="step"][value="save"]').count() == 0
    page = visit(desk, "/browse/edit/strategies/F01-b4-batch-512")  # a list in an object stays JSON
    page.get_by_label("Value (JSON)").fill("{")
    page.get_by_label("Why (kept").fill("x")
    follow(page.get_by_role("button", name="Review changes"))
    assert "JSON" in page.locator("#w-value").inner_text()
    visit.wrong.clear()  # the browser notes the 422


def test_everything_that_is_wrong_is_said_at_once(visit: Visitor, desk: Site):
    page = visit(desk, "/browse/edit/competitions/cassava-leaf-disease-classification")
    for label, text in (("Dataset, GB", "x"), ("Training samples", "-5"), ("Year", "99999"), ("Task", "zzz")):
        page.get_by_label(label).first.fill(text)
    page.get_by_label("Why (kept").fill("x")
    follow(page.get_by_role("button", name="Review changes"))
    for name in ("dataset_gb", "n_train", "year", "task"):
        assert page.locator(f"#w-{name}").is_visible(), name
    assert "must be a number" in page.locator("#w-dataset_gb").inner_text()
    assert "float" not in page.get_by_role("alert").inner_text()
    visit.wrong.clear()  # the browser notes the 422


def test_an_object_is_filled_in_piece_by_piece_and_its_effect_is_shown(visit: Visitor, desk: Site):
    page = visit(desk, "/browse/edit/strategies/R14-reserve")
    page.get_by_label("Reserve, %").fill("40")
    page.get_by_label("One more: its name").last.fill("asked_by")
    page.get_by_label("and value").last.fill("the team")
    page.get_by_label("Why (kept").fill("a trial")
    follow(page.get_by_role("button", name="Review changes"))
    changes = page.get_by_role("region", name="What would change")
    assert "example plans would change" in changes.inner_text()
    assert "reserve" in changes.get_by_role("listitem").first.inner_text()
    follow(page.get_by_role("button", name="Save"))
    assert row_of(desk, "/strategies/R14-reserve")["value"] == {"reserve_percent": 40, "asked_by": "the team"}
    page = visit(desk, "/browse/edit/strategies/R14-reserve")
    page.get_by_label("Asked by").fill("")
    page.get_by_label("Reserve, %").fill("15")
    page.get_by_label("Why (kept").fill("back")
    follow(page.get_by_role("button", name="Review changes"))
    follow(page.get_by_role("button", name="Save"))
    assert row_of(desk, "/strategies/R14-reserve")["value"] == {"reserve_percent": 15}


def test_a_list_is_filled_in_line_by_line(visit: Visitor, desk: Site):
    before = row_of(desk, "/gpus/a100")["aliases"]
    page = visit(desk, "/browse/edit/gpus/a100")
    page.get_by_label("Aliases").fill("\n".join([*before, "a hundred"]))
    page.get_by_label("Why (kept").fill("a nickname")
    follow(page.get_by_role("button", name="Review changes"))
    follow(page.get_by_role("button", name="Save"))
    assert row_of(desk, "/gpus/a100")["aliases"] == [*before, "a hundred"]


def test_a_correction_of_a_row_that_steers_plans_changes_the_next_plan(visit: Visitor, desk: Site):
    with urllib.request.urlopen(desk.url + "/browse/strategies.json?followed=true&limit=200") as response:
        steering = [row for row in json.load(response)["items"] if row["steers_plans"]]
    assert steering
    assert {row["rule"] for row in steering} >= {"R03"}
    with urllib.request.urlopen(desk.url + "/browse/strategies.json") as response:
        page = json.load(response)
    assert {row["id"] for row in page["items"][: len(steering)]} == {row["id"] for row in steering}
    seen = [row["id"] for row in page["items"]]
    while page["next"]:
        with urllib.request.urlopen(f"{desk.url}/browse/strategies.json?cursor={page['next']}") as response:
            page = json.load(response)
        seen += [row["id"] for row in page["items"]]
    assert len(seen) == len(set(seen)) == page["of"]
    assert not page["items"][-1]["followed"]
    use = {row["id"]: (row["use"], row["read_by"]) for row in steering}
    assert use["R14-reserve"] == ("read by plans", page["example_plans"])
    assert use["R03-a100-image-384"] == ("fallback only", 0)
    assert 0 < use["R03-a100-image-224"][1] < page["example_plans"]


def test_the_rows_of_a_table_stand_beside_each_other_by_card(desk: Site):
    with urllib.request.urlopen(
        desk.url + "/browse/strategies.json?table=batch_defaults&view=matrix"
    ) as response:
        page = json.load(response)
    lines = page["matrix"]["lines"]
    at_224 = next(line for line in lines if line["of"] == {"input_kind": "image", "image_size": 224})
    cells = dict(zip(page["matrix"]["cards"], at_224["cells"], strict=True))
    rows = {card: [row["id"] for row in cell] for card, cell in cells.items()}
    assert "R03-a100-image-224" in rows["a100"]
    assert "R03-a10-image-224" in rows["a10"]
    assert sum(len(cell) for line in lines for cell in line["cells"]) == len(page["items"])


def test_an_exported_table_comes_back_from_a_spreadsheet_and_is_undone_as_one(visit: Visitor, desk: Site):
    with urllib.request.urlopen(desk.url + "/browse/strategies.csv") as response:
        text = response.read().decode()
    before = row_of(desk, "/strategies/R02-start"), row_of(desk, "/strategies/R03-a100-image-224")
    assert text.count('"R02-start"') == 1
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    for row in rows:
        if row["id"] == "R02-start":
            row["source"] = "a spreadsheet"
        if row["id"] == "R03-a100-image-224":
            row["value"] = '{"batch_size": 48}'
        if row["id"] == "R14-reserve":
            row["value"] = '{"reserve_percent": 500}'
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(rows[0]), delimiter=";")
    writer.writeheader()
    writer.writerows(rows)
    page = visit(desk, "/browse/strategies")
    follow(page.get_by_role("link", name="Import edited rows"))
    file = {"name": "edited.csv", "mimeType": "text/csv", "buffer": out.getvalue().encode()}
    page.locator("#e-file").set_input_files(file)
    follow(page.get_by_role("button", name="Show what would change"))
    shown = page.get_by_role("region", name="What would change").inner_text()
    assert "2 changed" in shown
    assert "1 refused" in shown
    assert "example plans would change" in shown
    refused = page.get_by_role("row").filter(has_text="R14-reserve").inner_text()
    assert "percent" in refused
    page.get_by_label("Why (kept").fill("from our table")
    follow(page.get_by_role("button", name="Apply as one change"))
    assert "2 rows" in page.locator("main").inner_text()
    assert row_of(desk, "/strategies/R03-a100-image-224")["value"] == {"batch_size": 48}
    follow(page.get_by_role("button", name="Undo all of it"))
    after = row_of(desk, "/strategies/R02-start"), row_of(desk, "/strategies/R03-a100-image-224")
    assert after == before
    assert "Undone" in page.locator("main").inner_text()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_spreadsheet_goes_out_and_comes_back(visit: Visitor, desk: Site, scripts: bool):
    page = visit(desk, "/browse/strategies?table=batch_defaults&sort=-now", java_script_enabled=scripts)
    with page.expect_download() as leaving:
        page.get_by_role("link", name="xlsx").click()
    rows = list(csv.DictReader(io.StringIO(as_csv(leaving.value.path().read_bytes()), newline="")))
    assert len(rows) == 20, "the rows of the page, not all"
    by_id = {row["id"]: row for row in rows}
    by_id["R03-a100-image-224"]["value.batch_size"] = "192"
    by_id["R03-a100-image-224"]["value.raise_to_if_it_fits"] = ""
    by_id["R03-a10-table"]["followed"] = "perhaps"
    pages = [list(rows)]
    raw = b"".join(in_format(TableExport(dict.fromkeys(rows[0], str), lambda: iter(pages)), "xlsx"))
    follow(page.get_by_role("link", name="Import edited rows"))
    page.locator("#e-file").set_input_files({"name": "x.xlsx", "mimeType": "", "buffer": raw})
    follow(page.get_by_role("button", name="Show what would change"))
    shown = page.get_by_role("region", name="What would change").inner_text()
    assert "1 changed" in shown
    assert "1 refused" in shown
    assert "18 unchanged" in shown
    assert "made with it" in shown
    page.get_by_label("Why (kept").fill("measured")
    follow(page.get_by_role("button", name="Apply as one change"))
    assert row_of(desk, "/strategies/R03-a100-image-224")["value"] == {"batch_size": 192}
    follow(page.get_by_role("button", name="Undo all of it"))
    assert row_of(desk, "/strategies/R03-a100-image-224")["value"]["batch_size"] == 256


@pytest.mark.parametrize("scripts", [True, False])
def test_a_row_that_differs_is_found_and_put_right_in_its_place(
    visit: Visitor, desk: Site, axe: Callable[..., None], scripts: bool
):
    before = row_of(desk, "/strategies/R03-a100-image-384")
    page = visit(desk, "/browse/strategies?q=R03-a100-image-384", java_script_enabled=scripts)
    follow(page.get_by_role("cell", name="batch_size: 128").get_by_role("link", name="Edit"))
    cells = page.locator("tr.edited .prose label")
    assert cells.first.inner_text().startswith("Batch size"), "values are edited in their column"
    assert page.locator("#edit").input_value() == "128"
    page = visit(desk, "/browse/strategies?table=batch_defaults", java_script_enabled=scripts)
    page.get_by_role("button", name="More: Computed now").click()
    follow(page.get_by_role("listitem").get_by_role("link", name="differs"))
    assert page.locator("#rows tbody tr").count() == 2
    page.get_by_role("row").filter(has_text="R03-a100-image-384").hover()
    follow(page.get_by_role("link", name="Edit R03-a100-image-384"))
    cell = page.get_by_role("textbox", name="Batch size", exact=True)
    assert cell.evaluate("cell => cell === document.activeElement"), "what the pencil stands beside"
    cell.fill("many")
    follow(page.get_by_role("button", name="Show what it changes"))
    cell = page.get_by_role("textbox", name="Batch size", exact=True)
    assert cell.input_value() == "many"
    assert page.get_by_role("alert").is_visible()
    cell.fill("96")
    cell.press("Enter")
    page.get_by_role("button", name="Save").wait_for()
    assert page.locator("tr.edited ins").inner_text() == "96"
    assert "None of 12 example plans" in page.locator("tr.editing").inner_text()
    assert "would say 128" in page.locator("tr.editing").inner_text()
    follow(page.get_by_role("link", name="Change again"))
    assert page.get_by_role("textbox", name="Batch size", exact=True).input_value() == "96", "what was typed"
    sentence = page.get_by_role("textbox", name="Statement")
    sentence.fill(sentence.input_value().replace("128", "96"))
    follow(page.get_by_role("button", name="Show what it changes"))
    assert "would say" not in page.locator("tr.editing").inner_text()
    assert "A100: 96" in page.locator("tr.editing ins").inner_text()
    assert row_of(desk, "/strategies/R03-a100-image-384") == before, "looking keeps nothing"
    if scripts:
        axe(page)
    page.get_by_label("Why (kept").fill("as computed")
    follow(page.get_by_role("button", name="Save"))
    assert "table=batch_defaults" in page.url, "back where the reader was"
    assert "verdict=differs" in page.url
    assert row_of(desk, "/strategies/R03-a100-image-384") == {
        **before, "value": {**before["value"], "batch_size": 96},
        "statement": before["statement"].replace("128", "96"),
    }  # fmt: skip
    assert page.locator("#rows tbody tr").count() == 1, "it differs no more"
    follow(page.get_by_role("status").get_by_role("button", name="Undo"))
    assert row_of(desk, "/strategies/R03-a100-image-384") == before


def test_two_recipes_stand_side_by_side(visit: Visitor, desk: Site, axe: Callable[..., None]):
    page = visit(desk, "/browse/competitions")
    page.get_by_label("Search by meaning").fill("plant leaf disease photos")
    page.wait_for_url("**q=plant**")
    page.locator('#rows [name="slug"]').nth(1).wait_for()
    slugs = [page.locator('#rows [name="slug"]').nth(n).get_attribute("value") for n in (0, 1)]
    for n in (0, 1):
        page.locator('#rows [name="slug"]').nth(n).check()
    follow(page.get_by_role("button", name="Compare those ticked"))
    assert page.url.endswith(f"/browse/competitions/compare?slug={slugs[0]}&slug={slugs[1]}")
    axe(page)
    address = page.url.removeprefix(desk.url).replace("/compare?", "/compare.json?")
    with urllib.request.urlopen(desk.url + address) as response:
        data = json.load(response)
    assert [one["slug"] for one in data["competitions"]] == slugs
    with urllib.request.urlopen(f"{desk.url}/competitions/{slugs[0]}") as response:
        own = json.load(response)
    said = [one["techniques"] for one in own["solutions"] if one["techniques"]]
    for line in data["lines"]:
        if line["part"] == "techniques" and said:
            share = sum(line["name"] in each for each in said) / len(said)
            assert line["values"][0] == pytest.approx(share, abs=1e-4)
    facts = {line["name"]: line["values"] for line in data["lines"] if line["part"] == "facts"}
    assert facts["n_train"][0] == own["n_train"]
    with urllib.request.urlopen(desk.url + address.replace(".json", ".csv")) as response:
        assert len(response.read().splitlines()) == len(data["lines"]) + 1
    one = visit(desk, f"/browse/competitions/compare?slug={slugs[0]}", expect=422)
    assert "two to 4" in one.locator("main").inner_text()
