"""The shell commands that README and docs show, and a folder and a shell to run them in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

__all__ = ["REASONS", "ROOT", "Block", "blocks_of", "pages", "run_in_shell"]

ROOT = Path(__file__).resolve().parent.parent

REASONS = {
    "installs",
    "needs a GPU",
    "needs Docker",
    "needs Kubernetes",
    "needs another server",
    "needs root",
    "needs your data",
    "has a place to fill in",
    "runs until it is stopped",
    "takes minutes",
}
"""Why a block is not run: `<!-- not run: REASON -->` in the line above it."""

_BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]*?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=indent)```",
    re.MULTILINE | re.DOTALL,
)
_SHELL = ("bash", "sh", "console", "shell")
_PROGRAMS = (
    "memory-service", "curl", "make", "python", "python3", "pip", "uv", "export", "docker", "kubectl",
    "source", "git",
)  # fmt: skip


@dataclass(frozen=True)
class Block:
    """Commands of a page; why: the reason that it is not run, or None."""

    page: Path
    line: int
    text: str
    why: str | None

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Pages for users: the README and all of docs but for what describes methods."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """Blocks marked as shell, and those without a mark whose first word is a program."""
    text = page.read_text(encoding="utf-8")
    found = []
    for block in _BLOCK.finditer(text):
        first = (block["text"].split() or [""])[0]
        if block["language"] in _SHELL or (not block["language"] and first in _PROGRAMS):
            line = text.count("\n", 0, block.start("text")) + 1
            found.append(Block(page, line, textwrap.dedent(block["text"]), block["why"]))
    return found


def run_in_shell(
    blocks: list[Block], folder: Path, server: str, python: str = sys.executable, **settings: str
) -> str:
    """What the blocks print, one after the other in one bash that stops at the first failure.

    The folder looks like a checkout after `make serve`: `.venv`, the environment of `python`, is there, and
    `curl` finds the server where the pages say it is, on port 8000. Another Python than that of the tests
    runs what is installed for it, not this checkout.
    """
    (folder / ".venv").symlink_to(Path(python).parent.parent)
    programs = folder / "programs"
    programs.mkdir()
    port, curl = server.rpartition(":")[2], shutil.which("curl")
    assert curl, "curl is needed to run the commands of the pages"
    _program(programs / "curl", f'exec {curl} --fail-with-body "${{@//:8000/:{port}}}"')
    _program(programs / "memory-service", f'exec {python} -m memory_service "$@"')
    commands = "\n".join(f"echo '== {block}'\n{block.text}" for block in blocks)
    path = f"{programs}:{Path(python).parent}:{os.environ['PATH']}"
    settings = {**settings, "MEMORY_SERVER": server, "PATH": path, "NO_COLOR": "1"}
    settings["PYTHONPATH"] = str(ROOT) if python == sys.executable else ""
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands],
        cwd=folder, env=os.environ | settings, capture_output=True, text=True, timeout=1_800,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _program(file: Path, command: str) -> None:
    file.write_text(f"#!/bin/bash\n{command}\n", encoding="utf-8")
    file.chmod(0o755)
