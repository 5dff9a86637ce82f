"""Do the commands of README and docs run as they stand? A page's in one shell, in order, beside a server.

COMMANDS_PYTHON: the Python of an installation that runs both instead of this checkout (`make release`).
"""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.installed import serving
from tests.commands import REASONS, Block, blocks_of, pages, run_in_shell
from tests.conftest import Servers, free_port
from tests.processes import Command

MOST_NOT_RUN = 40
PYTHON = os.environ.get("COMMANDS_PYTHON", sys.executable)
BLOCKS = [block for page in pages() for block in blocks_of(page)]
RUN = {page: [block for block in blocks_of(page) if block.why is None] for page in pages()}
TO_RUN = [page for page, blocks in RUN.items() if blocks]


@pytest.fixture(scope="module")
def site(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """A seeded server's address, and the settings with which commands use its database."""
    folder = tmp_path_factory.mktemp("site")
    if sys.executable != PYTHON:
        with serving(Path(PYTHON), folder) as address:
            yield address, {"MEMORY_HOME": str(folder / "data")}
        return
    url = servers.new("sqlite", "seeded")
    settings = {"MEMORY_DATABASE_URL": url, "MEMORY_HOME": str(folder)}
    port = free_port()
    server = Command("serve", "--port", str(port), log=folder / "log", **settings)
    address = f"http://127.0.0.1:{port}"
    while not ready(address):
        assert server.poll() is None, (folder / "log").read_text()
        time.sleep(0.2)
    yield address, settings
    server.terminate()
    server.wait(60)
    servers.drop(url)


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run_as_they_stand(
    page: Path, site: tuple[str, dict[str, str]], tmp_path: Path
) -> None:
    address, settings = site
    output = run_in_shell(RUN[page], tmp_path, address, PYTHON, **settings)
    if page.name == "tutorial.md":
        assert "143 rows, ROC AUC 0.9" in output
        assert "completed metric" in output
        assert "used all minutes on many models" in output


def test_a_block_that_is_not_run_says_why() -> None:
    for block in BLOCKS:
        assert block.why is None or block.why in REASONS, f"{block}: {block.why!r}; known: {sorted(REASONS)}"
    not_run = [str(block) for block in BLOCKS if block.why is not None]
    assert len(not_run) <= MOST_NOT_RUN, not_run
    assert len(TO_RUN) >= 3


def test_a_mark_counts_for_the_block_below_it_only(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = "<!-- not run: installs -->\n```bash\nmake serve\n```\n\n1. a\n   ```\n   curl x\n   ```\n"
    page.write_text(text + "\n```json\n{}\n```\n\n```\nplain text\n```\n")
    assert [(block.text, block.why, block.line) for block in blocks_of(page)] == [
        ("make serve\n", "installs", 3), ("curl x\n", None, 8),
    ]  # fmt: skip


def test_a_page_whose_command_fails_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="No such file"):
        run_in_shell([Block(Path(__file__), 1, "cat missing | cat\n", None)], tmp_path, "http://127.0.0.1:1")
