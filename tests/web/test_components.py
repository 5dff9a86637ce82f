"""Can every component be read by everybody, in both schemes? `components.html` shows them all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import ChoiceLoader, FileSystemLoader

from memory_service.web.charts.base import axis, line, option
from memory_service.web.environment import TEMPLATES, environment
from memory_service.web.site import HEADERS, Here
from tests.web.conftest import Site, Visitor, settled

HERE = Path(__file__).parent


def components() -> str:
    loaders = ChoiceLoader([FileSystemLoader(HERE), FileSystemLoader(TEMPLATES)])
    chart = option(
        axis("Minutes"), axis("Value", at="y"), [line("one", [[0, 1], [1, 2]], colour="var(--series-1)")]
    )
    return environment().overlay(loader=loaders).get_template("components.html").render(
        data={}, title="Components", here=Here("/browse/components", {"status": "crashed"}), chart=chart
    )  # fmt: skip


def test_every_component_is_shown():
    macros = re.findall(r"{% macro (\w+)\(", (TEMPLATES / "parts" / "macros.html").read_text("utf-8"))
    text = (HERE / "components.html").read_text("utf-8")
    assert [name for name in macros if f"p.{name}(" not in text] == []


@pytest.mark.browser
def test_components_can_be_read_in_both_schemes(visit: Visitor, seeded: Site, axe: Callable[..., None]):
    page = visit(seeded, "/browse/find")
    page.route("**/browse/components", lambda route: route.fulfill(
        body=components(), headers={**HEADERS, "Content-Type": "text/html; charset=utf-8"}
    ))  # fmt: skip
    page.goto(f"{seeded.url}/browse/components")
    settled(page)
    axe(page)
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    axe(page, ("color-contrast",))
    page.set_viewport_size({"width": 360, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
