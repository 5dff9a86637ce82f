"""How do values read?"""

from __future__ import annotations

import json

import pytest

from memory_service.web.environment import environment
from memory_service.web.site import Here
from memory_service.web.text import (
    amount,
    cut,
    input_unit,
    moment,
    plain,
    title_of,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (True, "yes"),
        (1234567, "1,234,567"),
        (0.0, "0"),
        (12.3456, "12.3"),
        (1024.4, "1,024"),
        (0.012345, "0.0123"),
        (2.0, "2"),
        (1e-9, "1.00e-09"),
        ([1, "a", None], "1, a, –"),
        ({"epochs": 8}, "epochs: 8"),
    ],
)
def test_amounts(value: object, text: str):
    assert amount(value) == text


def test_moments():
    assert moment("2026-03-01T14:05:09.000000Z") == "2026-03-01 14:05 UTC"
    assert moment("yesterday") == "yesterday"


def test_control_characters_are_shown_and_colours_are_gone():
    assert plain("\x1b[1;31mloss\x1b[0m=nan\x07") == "loss=nan␇"
    assert plain("a\u202eb\tc\nd") == "a\\u202eb\tc\nd"
    assert plain("\x1b]0;title\x07text") == "text"
    assert cut("x" * 1_000_000, 10) == "xxxxxxxxxx… (1,000,000 characters)"


@pytest.mark.parametrize(
    "text", ["plain", "a\x1b[31mb", "x\x9by", "up\u202edown", "half \ud800", "back\\slash", "two\nlines"]
)
def test_what_a_chart_carries_reads_as_on_the_page(text: str):
    drawn = environment().from_string("{{ one | tojson }}").render(one={"of": [text, float("nan"), 1]})
    assert json.loads(drawn) == {"of": [plain(text), None, 1]}


def test_headings():
    assert title_of("peak_memory_gib") == "Peak memory, GiB"
    assert title_of("gpu") == "GPU"
    assert title_of("budget_percent") == "Budget, %"


def test_the_length_of_an_input_is_of_what_its_task_has():
    assert input_unit("image_size", "resnet50", "image-classification") == "px"
    assert input_unit("seq_len", "deberta-v3-base", "text-classification") == "tokens"
    assert input_unit("seq_len", "spec/efficientnet_b0") == "frames"
    assert input_unit("seq_len", "als", "recommendation") == "items"


def test_links_keep_what_they_do_not_change():
    here = Here("/browse/runs", {"status": "failed", "cursor": "abc", "limit": "5"})
    assert here.link(sort="-minutes") == "/browse/runs?status=failed&limit=5&sort=-minutes"
    assert here.link(status=None) == "/browse/runs?limit=5"
    assert here.file("csv") == "/browse/runs.csv?status=failed"
    assert here.file("json") == "/browse/runs.json?status=failed&cursor=abc&limit=5"
    assert Here("/", {}).file("json") == "/index.json"
