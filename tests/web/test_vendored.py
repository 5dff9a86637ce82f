"""Is what is shipped of others what was recorded, and does it come with its licence?"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from memory_service.web.assets import STATIC

FOLDERS = (STATIC / "vendor", Path(__file__).parent / "vendor")


@pytest.mark.parametrize("folder", FOLDERS, ids=("shipped", "tests"))
def test_vendored_files_are_those_that_were_recorded(folder: Path):
    table = (folder / "VENDORED.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S+) \| (\S+) \| ([\d.]+) \| ([^|]+) \| ([0-9a-f]{64}) \|$", table, re.MULTILINE)
    recorded = {name: digest for name, _, _, _, digest in rows}
    found = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir() if p.suffix != ".md"
    }
    assert found == recorded
    packages = {package for _, package, _, _, _ in rows}
    with_licence = {package for name, package, _, _, _ in rows if "LICENSE" in name}
    assert with_licence == packages
