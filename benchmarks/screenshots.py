"""What do the pages look like? `make screenshots` draws the main ones into docs/screenshots, light and dark,
as wide as a desk and as a phone.

From the shipped knowledge and some 40 pretended runs on two devices (`benchmarks.fill.fill_small`), always
the same; drawn by Chromium, stored with a palette of 256 colours.
"""

from __future__ import annotations

import datetime as dt
import io
import shutil
import sys
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from benchmarks.fill import fill_small
from benchmarks.servers import server_environment, serving
from memory_service.services.operations.database import open_database

__all__ = ["SHOTS", "main"]

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "screenshots"
NOW = dt.datetime(2026, 11, 20, 15, 0, tzinfo=dt.UTC)
WIDTHS = {"": 1440, "-phone": 390}
HEIGHT, TALLEST = 900, 1400
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MOST_BYTES = 90 * 1024

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
    """Draw all, or those that are named on the command line."""
    from playwright.sync_api import sync_playwright

    wanted = sys.argv[1:] or list(SHOTS)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/pages.sqlite3"
        with open_database(url) as database:
            fill_small(database, now=NOW)
        with serving(server_environment(url)) as (port, *_), sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
                args=["--headless", "--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"],
            )
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
