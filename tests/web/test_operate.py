"""Can whoever runs the service do it in the browser: keys, a backup, what was changed and taking it back?"""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from memory_service.services.access.keys import create_key
from memory_service.services.database.transactions import Database
from tests.web.conftest import Site, Visitor, follow

pytestmark = [pytest.mark.browser]


@pytest.mark.parametrize("scripts", [True, False])
def test_a_key_is_made_shown_once_exchanged_and_taken_back(visit: Visitor, own_site: Site, scripts: bool):
    page = visit(own_site, "/browse/operate", java_script_enabled=scripts)
    page.get_by_label("Whose it is").fill("ci")
    page.get_by_label("tell").check()
    follow(page.get_by_role("button", name="Make the key"))
    key = page.get_by_role("status", name="The new key").locator("code").inner_text()
    asked = {"X-API-Key": key}
    assert httpx2.get(f"{own_site.url}/runs", headers=asked).status_code == 200
    assert httpx2.get(f"{own_site.url}/keys", headers=asked).status_code == 403, "read and tell, no more"
    page.goto(own_site.url + "/browse/operate")
    assert key not in page.content()
    follow(page.get_by_role("button", name=re.compile("^Rotate")))
    other = page.get_by_role("status", name="The new key").locator("code").inner_text()
    assert other != key
    assert httpx2.get(f"{own_site.url}/runs", headers=asked).status_code == 401
    follow(page.get_by_role("button", name=re.compile("^Revoke")))
    assert httpx2.get(f"{own_site.url}/runs", headers={"X-API-Key": other}).status_code == 401
    page.get_by_text("Key ci is revoked").wait_for()
    page.goto(own_site.url + "/browse/operate?changes=access")
    assert page.get_by_role("region", name="Changes").locator("tbody tr").count() >= 3


def test_a_wrong_key_is_refused_beside_what_was_filled_in(visit: Visitor, own_site: Site):
    page = visit(own_site, "/browse/operate", expect=200)
    page.get_by_label("Whose it is").fill("anonymous")
    with page.expect_response(lambda answer: answer.request.method == "POST") as sent:
        page.get_by_role("button", name="Make the key").click()
    assert sent.value.status == 422
    page.get_by_role("alert").wait_for()
    assert page.get_by_label("Whose it is").input_value() == "anonymous"
    page.goto("about:blank")
    wrong = [each for each in visit.wrong if "422" not in each]
    visit.wrong[:] = wrong


def test_a_backup_is_made_and_the_database_checked(visit: Visitor, own_site: Site):
    page = visit(own_site, "/browse/operate")
    page.get_by_text("None beside the database yet").wait_for()
    follow(page.get_by_role("button", name="Back up now"))
    name = page.get_by_role("status").locator("visible=true").first.inner_text()
    name = name.removeprefix("Saved as ").removesuffix(".")
    saved = Path(own_site.database_url.removeprefix("sqlite:///")).with_name(name)
    with Database(f"sqlite:///{saved}") as copy:
        assert copy.knowledge_revision() >= 0
    follow(page.get_by_role("button", name="Check the database"))
    page.get_by_text("The database is sound").wait_for()
    assert page.locator("#backups ~ p code").first.inner_text() == name


def test_a_correction_is_taken_back_from_the_log(visit: Visitor, own_site: Site):
    row = f"{own_site.url}/strategies/R03-a100-image-224"
    was = httpx2.get(row).json()["statement"]
    changed = httpx2.patch(row, json={"version": 1, "statement": "Batch 1.", "why": "a slip"})
    assert changed.status_code == 200, changed.text
    page = visit(own_site, "/browse/operate")
    entry = page.get_by_role("region", name="Changes").locator("tbody tr").first
    assert "a slip" in entry.inner_text()
    assert "Batch 1." in entry.locator("ins").inner_text()
    follow(entry.get_by_role("button"))
    assert httpx2.get(row).json()["statement"] == was
    page.goto(own_site.url + "/browse/operate")
    first = page.get_by_role("region", name="Changes").locator("tbody tr").first
    assert "undoes version" in first.inner_text()


def test_who_may_only_read_sees_health_and_neither_keys_nor_changes(own_site: Site):
    with Database(own_site.database_url) as database:
        key = create_key(database, "looker", ["read"])["key"]
    asked = {"X-API-Key": key}
    data = httpx2.get(f"{own_site.url}/browse/operate.json", headers=asked).json()
    assert data["health"]["ready"] is True
    assert (data["keys"], data["changes"], data["backups"]) == (None, None, None)
    html = httpx2.get(f"{own_site.url}/browse/operate", headers=asked).text
    assert "Make the key" not in html
    sent = httpx2.post(f"{own_site.url}/browse/operate", headers=asked, data={"step": "backup"})
    assert sent.status_code == 403


def test_slow_requests_are_listed_with_their_seconds(own_site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory_service.api.metrics.SLOW_SECONDS", 0.0)
    httpx2.get(f"{own_site.url}/browse/models")
    data = httpx2.get(f"{own_site.url}/browse/operate.json").json()
    assert data["slow"][0]["request"] == "GET /browse/models"
    counted = {each["route"]: each for each in data["routes"]}
    assert counted["/browse/models"]["requests"] == 1
    assert counted["/browse/models"]["mean_seconds"] == pytest.approx(data["slow"][0]["seconds"])
