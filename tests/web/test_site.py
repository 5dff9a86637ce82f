"""What do all pages keep to? States in URLs, files of tables, safe texts, refusals as pages, no flash."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from html import unescape
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from starlette.responses import Response

from memory_service.api import error_handlers
from memory_service.app import create_app
from memory_service.services.operations import readiness
from memory_service.settings import load_settings
from memory_service.web import site
from memory_service.web.assets import STATIC, asset
from memory_service.web.environment import TEMPLATES, environment
from memory_service.web.site import POLICY, Pages, answer, see
from tests.conftest import Servers
from tests.patterns import processor_seconds
from tests.web import sheets
from tests.web.conftest import Site, Visitor, follow

HOSTILE = '<script>alert(1)</script>\x1b[31mred\x1b[0m "q" \u202eabc 😀 שלום'


@pytest.fixture(scope="module")
def app(servers: Servers) -> Iterator[FastAPI]:
    """The application with three pages more: one with a hostile text, one that fails, one that takes a
    form."""
    url = servers.new("sqlite", "seeded")
    made = create_app(load_settings(database_url=url, seed_on_start=False, calibrate=False))
    pages = Pages()

    @pages.page("/browse/test/hostile")
    def hostile(request: Request) -> Response:
        data = {"title": "refused", "detail": HOSTILE, "errors": [], "status": 200, "request_id": HOSTILE}
        return answer(request, "refused.html", data, title=HOSTILE, waiting=False)

    @pages.page("/browse/test/broken")
    def broken(request: Request) -> Response:
        raise RuntimeError("nobody thought of this")

    @pages.form("/browse/test/form")
    def form(request: Request) -> Response:
        return see("/browse/models")

    made.router.routes[:0] = pages.routes
    with TestClient(made):
        assert made.state.service.preparation.wait(600).knowledge
        yield made


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, raise_server_exceptions=False)


def test_a_page_and_its_data_are_the_same_question(client: TestClient):
    query = "task=image-classification&sort=-quality_score&limit=3"
    page = client.get(f"/browse/models?{query}")
    data = client.get(f"/browse/models.json?{query}").json()
    assert page.headers["content-security-policy"] == POLICY
    names = [row["name"] for row in data["items"]]
    assert len(names) == 3
    assert [name for name in names if f">{name}<" not in page.text] == []
    assert data["next"]
    following = client.get(f"/browse/models.json?{query}&cursor={data['next']}").json()
    assert not {row["name"] for row in following["items"]} & set(names)


@pytest.mark.parametrize("card", ["rtx3050", "p4", "rtx2060", "gtx1070"])
def test_the_page_of_a_model_that_hardly_fits_a_small_card_opens(client: TestClient, card: str):
    for query in ("", "?batch_size=4096", "?precision=fp32"):
        assert client.get(f"/browse/sizing/{card}/bart-large{query}").status_code == 200


def test_the_file_of_a_table_holds_all_rows_that_the_page_would_show(client: TestClient):
    query = "family=vit&sort=-quality_score"
    text = client.get(f"/browse/models.csv?{query}&limit=1").text
    names = [row["name"] for row in csv.DictReader(io.StringIO(text))]
    listed = client.get(f"/models?{query}&limit=500").json()["items"]
    assert names == [row["name"] for row in listed]
    assert len(names) > 1
    lines = client.get("/browse/models.jsonl?family=vit").text.splitlines()
    assert {json.loads(line)["name"] for line in lines} == set(names)


def test_fields_that_a_form_left_empty_count_as_not_given(client: TestClient):
    assert client.get("/browse/models.json?task=&family=vit").json() == (
        client.get("/browse/models.json?family=vit").json()
    )


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/browse/models/resnet5", 404, "resnet1d"),
        ("/browse/models?task=image-clasification", 422, "image-classification"),
        ("/browse/models?sort=nam", 422, "name"),
        ("/browse/nowhere", 404, "/browse/nowhere"),
        ("/browse/test/broken", 500, "unexpected"),
    ],
)
def test_a_refusal_is_a_page_that_says_what_would_be_right(
    client: TestClient, path: str, status: int, says: str
):
    page = client.get(path)
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert page.headers["content-security-policy"] == POLICY
    assert says in page.text
    assert "nobody thought of this" not in page.text
    before, mark, query = path.partition("?")
    data = client.get(f"{before}.json{mark}{query}")
    assert (data.status_code, data.headers["content-type"]) == (status, "application/problem+json")


def test_other_refusals_stay_documents(client: TestClient):
    for path in ("/models/nope", "/nowhere", "/static/nope", "/browse/models.csv?task=nope"):
        assert client.get(path).headers["content-type"] == "application/problem+json", path


@pytest.mark.parametrize("path", ["/browse/test/form", "/competitions"])
def test_what_another_site_sends_is_refused(client: TestClient, path: str):
    def refused(headers: dict[str, str]) -> bool:
        sent = client.post(path, headers=headers, follow_redirects=False)
        assert (sent.status_code == 403) == ("only" in sent.text)
        return sent.status_code == 403

    assert not refused({})
    assert not refused({"sec-fetch-site": "same-origin", "origin": "http://testserver"})
    assert not refused({"origin": "https://testserver"}), "a proxy may speak TLS for this server"
    assert refused({"sec-fetch-site": "cross-site", "origin": "http://evil.example"})
    assert refused({"sec-fetch-site": "same-site", "origin": "http://testserver:81"})
    assert refused({"origin": "http://evil.example"})
    assert refused({"origin": "http://testserver:81"})
    assert refused({"origin": "null"})
    assert not client.get("/browse/models", headers={"sec-fetch-site": "cross-site"}).is_error


def test_text_from_outside_is_text(client: TestClient):
    text = client.get("/browse/test/hostile").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;red" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert "😀 שלום" in text


def test_until_knowledge_is_there_pages_say_how_far_it_is_and_ask_again(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(readiness.Preparation, "_run", lambda self: None)
    settings = load_settings(database_url=servers.new("sqlite", "seeded"), calibrate=False)
    with TestClient(create_app(settings)) as client:
        page = client.get("/browse/models")
        assert page.status_code == 503
        assert page.headers["retry-after"] == "2"
        assert '<meta http-equiv="refresh" content="2">' in page.text
        assert "loading" in page.text


def test_files_of_pages_are_named_by_content_and_kept_for_ever(client: TestClient):
    url = asset("site.css")
    packed = client.get(url, headers={"accept-encoding": "gzip"})
    assert packed.headers["cache-control"].endswith("immutable")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == (STATIC / "site.css").read_bytes()
    plain = client.get(url, headers={"accept-encoding": "identity"})
    assert plain.content == packed.content
    assert "content-encoding" not in plain.headers
    again = client.get(url, headers={"if-none-match": packed.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/static/site.css").headers["cache-control"] == "no-cache"
    assert client.get("/static/../site.py").status_code == 404


@pytest.mark.parametrize(
    ("path", "most_kib"), [("/browse/models/resnet50.a1_in1k", 150), ("/browse/runs", 60)]
)
def test_first_paint_is_small(client: TestClient, path: str, most_kib: int):
    page = client.get(path).text
    files = re.findall(r'(?:src|href)="/static/([^"?]+)\?v=', page)
    assert not any("echarts" in name for name in files), "fetched when the first chart is drawn"
    sizes = {name: len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in files}
    total = sum(sizes.values()) + len(gzip.compress(page.encode(), 5))
    assert total <= most_kib * 1024, sizes


@pytest.mark.browser
def test_the_chart_library_comes_with_the_first_chart(visit: Visitor, seeded: Site):
    def fetched(page: Any) -> list[str]:
        names: list[str] = page.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
        return [name for name in names if "echarts" in name]

    assert fetched(visit(seeded, "/browse/models")) == []
    hidden = visit(seeded, "/?task=image&size=medium&gpu=a100&minutes=30")
    assert fetched(hidden) == [], "its chart is in another tab"
    hidden.get_by_role("link", name="Trade-offs").click()
    hidden.wait_for_selector("#quality[data-drawn='true']")
    assert len(fetched(hidden)) == 1
    with hidden.expect_download() as saved:
        hidden.get_by_role("button", name="as PNG").click()
    assert saved.value.suggested_filename.endswith(".png")


def test_templates_keep_to_the_policy():
    wrong = []
    for path in sorted(TEMPLATES.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        found = re.findall(r"\|\s*safe\b|autoescape false|\bstyle=|\son[a-z]+=|javascript:|https?://", text)
        found += [
            tag for tag in re.findall(r"<script[^>]*>", text) if "src=" not in tag and "json" not in tag
        ]
        wrong += [f"{path.name}: {each}" for each in found]
    assert wrong == []


@pytest.mark.browser
def test_filters_are_the_url_and_the_back_button_undoes_them(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/models")
    first = page.locator("#rows tbody th").first
    follow(page.get_by_role("navigation", name="Narrow down").get_by_role("link", name="vit ").first)
    assert page.url.endswith("/browse/models?family=vit")
    follow(page.get_by_role("link", name="Quality"))
    assert "sort=-quality_score" in page.url
    shown = first.inner_text()
    other = visit(seeded, page.url.removeprefix(seeded.url))
    assert other.locator("#rows tbody th").first.inner_text() == shown
    assert other.locator(".chip[aria-current]").inner_text().startswith("vit")
    page.go_back()
    page.wait_for_url("**/browse/models?family=vit")
    page.go_back()
    page.wait_for_url("**/browse/models")
    assert page.locator(".chip[aria-current]").count() == 0
    page.get_by_label("Find in the table").fill("sharpness")
    page.wait_for_url("**/browse/models?q=sharpness")
    page.get_by_label("Find in the table").fill("")
    page.wait_for_url("**/browse/models")


@pytest.mark.browser
def test_everything_works_without_scripts(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/models", java_script_enabled=False)
    page.get_by_role("button", name="More: Family").click()
    follow(page.get_by_role("list").get_by_role("link", name="vit", exact=True))
    page.get_by_label("Find in the table").fill("augreg")
    page.get_by_label("Group by").select_option("task")
    follow(page.get_by_role("button", name="Show").first)
    assert "family=vit" in page.url
    assert page.locator("tr.group").count() > 0
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Family").check()
    page.get_by_role("checkbox", name="Quality", exact=True).uncheck()
    follow(page.get_by_role("button", name="Show these"))
    heads = page.locator("#rows thead th").all_inner_texts()
    assert "Family" in heads
    assert "Quality" not in heads
    assert {"q=augreg", "group=task", "family=vit"} <= set(page.url.partition("?")[2].split("&"))
    families = page.locator("#rows tbody td[data-name]").count()
    assert families == 0, "without scripts nothing is named"
    page = visit(seeded, "/browse/competitions/map", java_script_enabled=False)
    assert not page.locator(".plot").is_visible(), "an empty box where a chart would be"


@pytest.mark.browser
def test_the_chosen_colours_stay_and_do_not_flash(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/models/resnet50.a1_in1k", scheme="light")
    back = "getComputedStyle(document.documentElement).backgroundColor"
    white = page.evaluate(back)
    switch = page.locator("[data-theme-switch]:visible")
    switch.click()
    switch.click()
    assert page.evaluate(back) != white
    page.reload(wait_until="commit")
    page.wait_for_selector("main", state="attached")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.set_viewport_size({"width": 390, "height": 800})
    switch.click()
    assert page.evaluate(back) == white


@pytest.mark.browser
def test_a_number_opens_where_it_came_from_by_keyboard(visit: Visitor, seeded: Site):
    page = visit(seeded, "/browse/models/resnet50.a1_in1k")
    number = {"value": 128, "low": 96, "high": 141, "grade": "estimated", "n": 0, "basis": "profile × rates"}
    macro = '{% import "parts/macros.html" as p %}{{ p.number(n, "samples") }}'
    html = environment().from_string(macro).render(n=number)
    page.evaluate("html => document.querySelector('h1').insertAdjacentHTML('afterend', html)", html)
    page.locator(".number").focus()
    page.keyboard.press("Enter")
    opened = page.locator(".origin:popover-open")
    opened.wait_for()
    assert "profile × rates" in opened.inner_text()
    page.keyboard.press("Escape")
    assert page.locator(".origin:popover-open").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/browse/sizing/t4/resnet50.a1_in1k?image_size=224&batch_size=banana", ""),
        ("/browse/accuracy?last=abc&gpu=t4", ""),
        ("/browse/runs?status=foo&gpu=t4", "out_of_memory"),
    ],
)
def test_a_wrong_value_in_an_address_is_said_once_and_the_rest_is_kept(
    visit: Visitor, seeded: Site, path: str, known: str
):
    page = visit(seeded, path, expect=422)
    text = page.locator("main").inner_text().lower()
    assert text.count("must be a whole number") + text.count("unknown status") == 1
    assert known in text
    follow(page.get_by_role("link", name="This page without it"))
    kept = path.partition("?")[2].replace("&batch_size=banana", "").replace("last=abc&", "")
    assert page.url.partition("?")[2] == kept.replace("status=foo&", "")


def test_comparing_nothing_leads_back_to_the_runs(client: TestClient):
    answered = client.get("/browse/compare", follow_redirects=False)
    assert (answered.status_code, answered.headers["location"]) == (303, "/browse/runs")
    seven = client.get("/browse/compare?" + "&".join(f"run={n}" for n in range(7)))
    assert seven.status_code == 422
    assert 'href="/browse/runs">Runs</a> ·' in seven.text


def test_a_command_names_the_server_that_its_page_is_of(app: FastAPI) -> None:
    for page in ("/browse/runs", "/browse/accuracy", "/browse/sizing/a100/resnet50"):
        shown = TestClient(app, base_url="http://127.0.0.1:8413").get(page)
        assert shown.status_code == 200, page
        (command,) = set(re.findall(r"memory-service watch [^<\"&]*", shown.text))
        assert "--server http://127.0.0.1:8413" in command, "what is copied goes to where it was copied"
        usual = TestClient(app, base_url="http://127.0.0.1:8000").get(page)
        assert "--server" not in "".join(re.findall(r"memory-service watch [^<\"&]*", usual.text))


@pytest.mark.parametrize(
    ("media", "body", "says"),
    [
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=text\r\n\r\n", 422),
        ("multipart/form-data", b"--x\r\n\r\n--x--", 422),
        ("multipart/form-data; boundary=x", b"--x\r\n" * 2_000 + b"--x--", 422),
        ("multipart/form-data; boundary=x",
         b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\n\xff\r\n--x--\r\n', 422),
        ("multipart/form-data; boundary*0=a; boundary*=b; boundary*1*=utf-8''%FF", b"x", 422),
        ("multipart/form-data; boundary=x" + ";" * 1_000, b"--x--\r\n", 422),
        ("multipart/form-data; boundary=x", b"--x\r\n" + b"a:b\r\n" * 100 + b"\r\nx\r\n--x--\r\n", 422),
        ("multipart/form-data; boundary=x",
         b"".join(b'--x\r\nContent-Disposition: form-data; name="%d"\r\n\r\n\r\n' % n for n in range(201))
         + b"--x--\r\n", 422),
        ("multipart/form-data; boundary=x",
         b'--x\r\nContent-Disposition: form-data; name="text"' + b";" * 500 + b"\r\n\r\n\r\n--x--\r\n", 422),
        ("multipart/form-data; boundary=x",
         (b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n'
          b'id,source\r\nR02-start,"here\r\n--y"\r\n--x--\r\n'), 200),
    ],
)  # fmt: skip
def test_a_form_in_parts_is_read_or_refused(client: TestClient, media: str, body: bytes, says: int):
    answer = client.post("/browse/import/strategies", content=body, headers={"content-type": media})
    assert answer.status_code == says
    assert ("--y" in answer.text) == (says == 200)


def with_file(field: str, held: bytes) -> tuple[bytes, dict[str, str]]:
    head = f'--x\r\nContent-Disposition: form-data; name="{field}"; filename="a.xlsx"\r\n\r\n'
    return head.encode() + held + b"\r\n--x--\r\n", {"content-type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    ("page", "field"),
    [("/browse/login", "key"), ("/browse/understand", "file"), ("/browse/import/strategies", "text")],
)
def test_only_the_file_that_is_asked_for_is_read(
    client: TestClient, page: str, field: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(site, "text_of", lambda *_: pytest.fail("it was read"))
    body, headers = with_file(field, b"PK\x03\x04")
    answer = client.post(page, content=body, headers=headers)
    assert answer.status_code == 422
    assert "none is read here" in answer.text


def test_a_spreadsheet_is_read_in_another_process_that_ends_where_it_takes_too_much(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(site._SHEETS, "seconds", 60.0)  # a child that is begun beside other tests takes long
    monkeypatch.setattr(site, "as_csv", sheets.of_its_process)
    body, headers = with_file("file", b"PK\x03\x04")
    looked = client.post("/browse/import/strategies", content=body, headers=headers)
    (process,) = re.findall(r"process-(\d+)", looked.text)[:1]
    assert (looked.status_code, int(process) == os.getpid()) == (200, False)
    monkeypatch.setattr(site, "as_csv", sheets.of_two_gibibytes)
    refused = client.post("/browse/import/strategies", content=body, headers=headers)
    assert refused.status_code == 422
    assert "took more memory than a process may" in refused.text


MEDIA = "multipart/form-data; boundary=x"
PART = 'Content-Disposition: form-data; name="a'
FORMS: dict[str, Callable[[str], tuple[str, str]]] = {
    "boundary": lambda many: (f'multipart/form-data; boundary="x{many}', "--x--"),
    "parameters": lambda many: (f"multipart/form-data; {many}; boundary=x", "--x--"),
    "name": lambda many: (MEDIA, f'--x\r\n{PART}{many}"\r\n\r\nb\r\n--x--\r\n'),
    "lines": lambda many: (MEDIA, f'--x\r\n{PART}"\r\n{many}\r\n\r\nb\r\n--x--\r\n'),
    "held": lambda many: (MEDIA, f'--x\r\n{PART}"\r\n\r\n{many}\r\n--x--\r\n'),
    "parts": lambda many: (MEDIA, many),
}
PIECES = (
    ";", "; ", "a=b;", 'a="', 'a="";', '\\"', "a*0=b;", " a=b;\r\n", "a:b\r\n", " a\r\n", "\r\n", "\r", "\n",
    "\r\n--x", "\r\n--x-", "\r\n--x ", "--x\r\n", "=", " ", "é",
)  # fmt: skip


@pytest.mark.parametrize("where", FORMS)
def test_a_form_is_read_in_a_time_that_grows_as_it_does(where: str):
    """Four times the text is not more than eight times the work, whatever is repeated in it."""

    def read(piece: str, times: int) -> None:
        media, body = FORMS[where](piece * times)
        with suppress(ValueError):
            site._parts_of(media, body.encode())

    wrong = []
    for piece in PIECES:
        if processor_seconds(partial(read, piece, 12_000)) > 0.01:
            less, more = (processor_seconds(partial(read, piece, n), 3) for n in (4_000, 16_000))
            wrong += [(piece, less, more)] if more > 8 * less else []
    assert wrong == []


def test_of_one_failure_that_comes_again_the_log_has_one_trace(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    now = [1_000.0]
    monkeypatch.setattr(error_handlers, "failures", error_handlers._Failures(lambda: now[0]))

    def failed(request_id: str) -> str:
        answer = client.get("/browse/test/broken.json", headers={"x-request-id": request_id})
        return str(answer.json()["detail"]).rpartition(" ")[2]

    assert {failed(f"r-{n}") for n in range(20)} == {"r-0."}, (
        "the answer names the request that is in the log"
    )
    now[0] += error_handlers.QUIET_SECONDS
    assert failed("later") == "later."
    assert [record.exc_info is not None for record in caplog.records if "failed" in record.message] == [
        True
    ] * 2


DEEP, DIGITS = "[" * 20_000, "1" * 5_000


@pytest.mark.parametrize(
    ("field", "text"),
    [("tflops", DEEP), ("tflops.fp32", DEEP), ("tflops.fp32", DIGITS), ("tflops", "[" * 900 + "]" * 900)],
)
def test_json_too_deep_or_too_long_in_a_form_is_refused_like_any_other(
    client: TestClient, field: str, text: str
):
    version = client.get("/gpus/a100").json()["version"]
    form = {"version": version, field: text, "why": "x"}
    assert client.post("/browse/edit/gpus/a100", data=form).status_code == 422
    cell = {f"to.{field}": text[:6_000], "edit": "a100"}
    assert client.get("/browse/devices", params=cell).status_code in (200, 422)
    assert client.post("/browse/edit/gpus/a100", data={**cell, "version": version}).status_code in (200, 422)
    quoted = text.replace('"', '""')
    for brought in (f'slug,name,tflops\na100,x,"{quoted}"\n', f'{{"slug":"a100","tflops":{text}}}'):
        looked = client.post("/browse/import/gpus", data={"text": brought})
        assert looked.status_code == 200
        assert re.search("cannot be read: |is no JSON|is nested deeper", looked.text)


def inputs_of(html: str) -> dict[str, str]:
    """What a browser sends of the cells of the row that is edited, as they are."""
    cells = re.findall(r'<input[^>]* name="(to\.[^"]+)"[^>]*? value="([^"]*)"', html)
    cells += re.findall(r'<input name="(to\.[^"]+)"[^>]*? value="([^"]*)"', html)
    for name, options in re.findall(r'<select name="(to\.[^"]+)"[^>]*>(.*?)</select>', html):
        chosen = re.search(r"<option[^>]* selected>([^<]*)", options) or re.search(r">([^<]*)<", options)
        assert chosen is not None
        cells.append((name, "" if chosen[1] == "–" else chosen[1]))
    return {name: unescape(value) for name, value in cells}


def test_what_is_not_chosen_stays_empty_when_a_row_is_edited_in_its_place(client: TestClient):
    rows = client.get("/browse/competitions.json?limit=500").json()["items"]
    slug = next(row["slug"] for row in rows if row["split"] is None)
    page = "/browse/competitions"
    cells = inputs_of(client.get(page, params={"edit": slug, "limit": 500}).text)
    assert cells["to.split"] == ""
    asked = {"edit": slug, "limit": "500", **cells, "to.n_train": "1234"}
    looked = client.get(page, params=asked).text
    assert re.findall(r"<ins>([^<]*)</ins>", looked) == ["1,234"]


def test_a_row_edited_in_its_place_loses_nothing_of_another(client: TestClient):
    key, page = "R03-a10-image-384", "/browse/strategies"
    cells = inputs_of(client.get(page, params={"edit": key, "limit": 500}).text)
    cells = {"edit": key, "limit": "500", **cells, "to.value.batch_size": "72", "to.statement": cells.get(
        "to.statement", client.get(f"/strategies/{key}").json()["statement"])}  # fmt: skip
    other = {"step": "save", "why": "other", "version": cells["to.version"], "statement": "Another one's."}
    saved = client.post(f"/browse/edit/strategies/{key}", data=other, follow_redirects=False)
    assert saved.status_code == 303
    looked = client.get(page, params=cells)
    assert looked.status_code == 409
    assert "Somebody changed this row (Statement)" in looked.text
    again = client.get(page, params={**cells, **inputs_of(looked.text), "to.statement": "Another one's."})
    assert again.status_code == 200
    sent = dict(re.findall(r'<input type="hidden" name="(version|to\.[^"]+)" value="([^"]*)"', again.text))
    mine = {name: unescape(text) for name, text in sent.items()} | {"step": "save", "why": "mine"}
    assert client.post(f"/browse/edit/strategies/{key}", data=mine, follow_redirects=False).status_code == 303
    now = client.get(f"/strategies/{key}").json()
    assert (now["statement"], now["value"]["batch_size"]) == ("Another one's.", 72)


@pytest.mark.parametrize("cell", ["to.statement.x", "to.rule.x", "to.value.batch_size.x"])
def test_a_piece_of_what_has_none_is_no_cell(client: TestClient, cell: str):
    key = "R03-a10-image-224"
    assert client.get("/browse/strategies", params={"edit": key, cell: "1"}).status_code == 200
    version = str(client.get(f"/strategies/{key}").json()["version"])
    form = {cell: "1", "version": version}
    assert client.post(f"/browse/edit/strategies/{key}", data=form).status_code == 200


def test_a_row_that_was_saved_and_is_gone_hides_no_table(client: TestClient):
    assert client.get("/browse/strategies?saved=R99-gone").status_code == 200


def test_what_was_done_is_said_whatever_the_address_asks(client: TestClient):
    for query in ("?changes=zzz", "?changes=rows&changes=rows"):
        assert client.get(f"/browse/operate{query}").status_code == 422
        form = {"step": "make", "name": f"ci{len(query)}", "scope-read": "on"}
        made = client.post(f"/browse/operate{query}", data=form)
        assert made.status_code == 200
        assert "The new key" in made.text


def test_two_backups_of_one_second_are_two(client: TestClient):
    names = [client.post("/browse/operate", data={"step": "backup"}) for _ in range(2)]
    assert [answer.status_code for answer in names] == [200, 200]
