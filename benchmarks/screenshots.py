"""What do the pages look like? `make screenshots` draws the main ones into build/screenshots, light and dark,
as wide as a desk and as a phone; and the two pictures of the README: docs/plan.png and docs/recommend.svg.

From the shipped knowledge and some 40 pretended runs on two devices (`benchmarks.fill.fill_small`), always
the same; drawn by Chromium, stored with a palette of 256 colours. Only the two of the README are committed.
"""

from __future__ import annotations

import datetime as dt
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from typing import Any, Literal

from PIL import Image
from rich.console import Console
from rich.text import Text

from benchmarks.fill import fill_small
from benchmarks.servers import ROOT, server_environment, serving
from memory_service.services.operations.database import open_database

__all__ = ["SHOTS", "main", "terminal"]

FOLDER = ROOT / "build" / "screenshots"
NOW = dt.datetime(2026, 11, 20, 15, 0, tzinfo=dt.UTC)
WIDTHS = {"": 1440, "-phone": 390}
HEIGHT, TALLEST = 900, 1400
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MOST_BYTES = 90 * 1024

README_PAGE = "/?task=image&size=medium&gpu=a100&minutes=25"
README_WIDTH, README_HEIGHT = 1080, 760
COMMAND = "memory-service recommend --task image --size medium --gpu a100 --minutes 25"
COLUMNS, LINES = 92, 24
SECONDS_A_LINE = 0.12

SHOTS = {
    "ask": ("/?task=image&size=medium&gpu=a100&minutes=30", ""),
    "competitions": ("/browse/competitions?q=photos+of+plants", ""),
    "competition": ("/browse/competitions/dog-breed-identification", ""),
    "map": ("/browse/competitions/map", ""),
    "sizing": ("/browse/sizing", ""),
    "sizing-one": ("/browse/sizing/a100/efficientnet_b4.ra2_in1k?image_size=224&batch_size=512", ""),
    "strategies": ("/browse/strategies?rule=R03", ""),
    "edit": ("/browse/edit/strategies/R03-a100-image-224", ""),
    "solutions": ("/browse/solutions", ""),
    "techniques": ("/browse/techniques", ""),
    "find": ("/browse/find?q=b4+a10+a100", ""),
    "runs": ("/browse/runs", ""),
    "compare": ("/browse/runs?status=completed", "/browse/runs/", "/browse/compare?run="),
    "run": ("/browse/runs?status=stopped", "/browse/runs/"),
    "device": ("/browse/devices", "/browse/devices/"),
    "accuracy": ("/browse/accuracy", ""),
    "conflict": ("/browse/conflicts/C29", ""),
}
"""Name -> a page, and how the addresses of the links begin that lead from it to the one that is drawn."""


def main() -> None:
    """Draw all, or those that are named on the command line; `readme`: only its two."""
    from playwright.sync_api import sync_playwright

    wanted = [name for name in sys.argv[1:] or list(SHOTS) if name != "readme"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/pages.sqlite3"
        with open_database(url) as database:
            fill_small(database, now=NOW)
        with serving(server_environment(url)) as (port, *_), sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
                args=["--headless", "--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
            )
            if not sys.argv[1:] or "readme" in sys.argv:
                written = terminal(command_output(url))
                (ROOT / "docs" / "recommend.svg").write_text(written, encoding="utf-8")
                size = {"width": README_WIDTH, "height": README_HEIGHT}
                page = browser.new_context(color_scheme="light", viewport=size).new_page()  # type: ignore[arg-type]
                page.goto(f"http://127.0.0.1:{port}{README_PAGE}")
                page.wait_for_load_state("load")
                page.evaluate("document.querySelector('#facts').scrollIntoView()")
                (ROOT / "docs" / "plan.png").write_bytes(smaller(page.screenshot()))
            for scheme, (suffix, width) in product(SCHEMES, WIDTHS.items()):
                context = browser.new_context(
                    color_scheme=scheme, viewport={"width": width, "height": HEIGHT}
                )
                for name in wanted:
                    picture = drawn(context.new_page(), f"http://127.0.0.1:{port}", width, *SHOTS[name])
                    kept = FOLDER / f"{name}{suffix}-{scheme}.png"
                    kept.write_bytes(picture)
                    print(f"{kept.name}: {len(picture) / 1024:.0f} KiB")
            browser.close()


def command_output(url: str) -> str:
    """What `COMMAND` prints in a terminal of `COLUMNS`, with its colours."""
    command = [sys.executable, "-m", *COMMAND.replace("-", "_", 1).split(), "--database", url]
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    environment.pop("MEMORY_SERVER", None)
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def terminal(output: str) -> str:
    """An SVG of a terminal in which the command and its first `LINES` appear one after the other."""
    lines = Text.from_ansi(output).split("\n")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in (
        Text(f"$ {COMMAND}", "bold"),
        *lines[:LINES],
        Text(f"… {len(lines) - LINES} lines more", "dim"),
    ):
        console.print(line, no_wrap=True, overflow="ellipsis")
    svg = console.export_svg(title="memory-service", unique_id="cast")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    appear = "text[clip-path] { animation: dim .01s backwards } @keyframes dim { from { opacity: .25 } }"
    still = "@media (prefers-reduced-motion) { text[clip-path] { animation: none } }"
    svg = svg.replace("<style>", f"<style>\n    {appear}\n    {still}", 1)

    def delayed(found: re.Match[str]) -> str:
        return f'{found[0]} style="animation-delay: {1 + SECONDS_A_LINE * int(found[1]):.2f}s"'

    return re.sub(r'clip-path="url\(#cast-line-(\d+)\)"', delayed, svg)


def drawn(page: Any, site: str, width: int, path: str, *through: str) -> bytes:
    """The page as a PNG, from its top down to its end or to `TALLEST` pixels."""
    answer = page.goto(site + path)
    for via in filter(None, through):
        link = page.locator(f"main a[href^='{via}']").first.get_attribute("href")
        answer = page.goto(site + link)
    assert answer.status == 200, f"{path}: {answer.status}"
    page.wait_for_load_state("load")
    page.wait_for_function("[...document.querySelectorAll('[data-chart]')].every(box => box.dataset.drawn)")
    height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
    shot = page.screenshot(
        full_page=True, clip={"x": 0, "y": 0, "width": width, "height": max(height, HEIGHT)}
    )
    page.close()
    return smaller(shot)


def smaller(png: bytes) -> bytes:
    """The same picture in at most 256 colours, and in fewer while it is over the limit."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in (256, 64, 32, 16):
        out = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
        if len(out.getvalue()) <= MOST_BYTES:
            break
    return out.getvalue()


if __name__ == "__main__":
    main()
