"""Can a person see what a device really does, and have it measured?"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from memory_service.web.pages.devices import figures_over_time, products_by_size, share_of_data_sheet
from tests.conftest import Servers
from tests.web.conftest import Site, Visitor, follow, running

browser = pytest.mark.browser


def data_of(site: Site, path: str) -> Any:
    with urllib.request.urlopen(site.url + path) as response:
        return json.load(response)


@browser
def test_a_data_sheet_stands_beside_what_was_measured_and_leads_to_its_section(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/devices")
    follow(page.get_by_role("link", name="lab-a100").first)
    row = page.get_by_role("row", name="matmul.bf16")
    compared = {
        one["figure"]: one
        for one in data_of(lived, "/browse/devices/lab-a100.json")["registered"][0]["compared"]
    }
    assert compared["matmul.bf16"]["data_sheet"] == 312.0
    share = 100 * compared["matmul.bf16"]["measured"] / 312.0
    assert compared["matmul.bf16"]["of_sheet_percent"] == pytest.approx(share)
    follow(row.get_by_role("link"))
    target = page.locator(":target")
    assert compared["matmul.bf16"]["section"] in target.inner_text()
    assert target.is_visible()


@browser
def test_drift_between_calibrations_is_drawn(visit: Visitor, lived: Site):
    page = visit(lived, "/browse/devices/lab-a100")
    assert page.get_by_role("heading", name="Drift over time").is_visible()
    history = data_of(lived, "/browse/devices/lab-a100.json")["registered"][0]["history"]
    figures = {each["figure"]: [share for _, _, share in each["points"]] for each in history}
    assert figures["matmul.bf16"][0] == 100.0
    assert figures["matmul.bf16"][1] == pytest.approx(94, abs=2)


@pytest.fixture
def measuring(servers: Servers) -> Iterator[Site]:
    """A site that may load its host."""
    with running("measuring", servers.new("sqlite", "seeded"), calibrate=True) as site:
        yield site


@browser
def test_a_device_of_this_host_is_measured_from_the_page_and_watched(visit: Visitor, measuring: Site):
    page = visit(measuring, "/browse/devices")
    page.get_by_text("Register and measure a device").click()
    page.get_by_label("Device of this server's host", exact=True).select_option("cpu")
    page.get_by_label("Name").fill("this-box")
    page.get_by_label("Seconds it may take").fill("2")
    page.get_by_role("button", name="Measure it").click()
    page.wait_for_url("**/browse/calibrations/*")
    page.locator("#progress .badge", has_text="done").or_(
        page.locator("#progress .badge", has_text="timed out")
    ).or_(page.locator("#progress .badge", has_text="failed")).wait_for(timeout=60_000)
    key = urllib.parse.urlsplit(page.url).path.rpartition("/")[2]
    assert data_of(measuring, f"/calibrations/{key}")["device"] == "this-box"
    wait_until_quiet(measuring, key)


def wait_until_quiet(site: Site, key: str) -> None:
    for _ in range(200):
        if data_of(site, f"/browse/calibrations/{key}.json")["active"] is False:
            return
        time.sleep(0.1)
    raise AssertionError("it goes on and on")


@browser
def test_what_cannot_be_registered_is_said_beside_the_form(visit: Visitor, measuring: Site):
    page = visit(measuring, "/browse/devices")
    page.get_by_text("Register and measure a device").click()
    page.get_by_label("Name").fill("two words")
    with page.expect_navigation():
        page.get_by_role("button", name="Measure it").click()
    assert "must begin with a letter or digit" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Name").input_value() == "two words"
    visit.wrong.clear()  # the browser notes the refusal's status


def test_a_form_of_another_site_measures_nothing(lived: Site):
    asked = urllib.request.Request(
        lived.url + "/browse/devices", b"device=cpu&name=x", {"Origin": "http://elsewhere.example"}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    refused.value.close()
    assert refused.value.code == 403


def test_charts_draw_only_what_was_measured():
    sections = [
        {"section": f"matmul.bf16.{side}", "value": v, "p20": v - 1, "p80": v + 1}
        for side, v in ((4096, 9.0), (1024, 5.0))
    ]
    made = products_by_size(sections)
    assert made is not None
    assert made["series"][0]["data"] == [[1024, 5.0], [4096, 9.0]]
    assert products_by_size(sections[:1]) is None
    assert share_of_data_sheet([{"figure": "launch.us", "of_sheet_percent": None}]) is None
    assert figures_over_time([]) is None
