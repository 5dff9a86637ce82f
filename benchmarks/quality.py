"""The quality model: fitted, checked on data sets left out, and written down.

python -m benchmarks.quality            seeds/quality.json and docs/quality.md from seeds/evidence.csv.gz
python -m benchmarks.quality --gather   seeds/evidence.csv.gz from ../shared/evidence before that
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks.quality_evidence import evidence_of, gather, rows_of
from benchmarks.quality_fit import Fit, figures_of
from memory_service import resources

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "seeds" / "quality.json"
TABLES = ("tabular", "text", "time-series", "image", "image-dense")


def families() -> dict[str, str]:
    """Catalogue model -> family."""
    lines = resources.path("seeds", "models.jsonl").read_text().splitlines()
    return {row["name"]: row["family"] for row in map(json.loads, lines)}


def fitted() -> tuple[dict[str, Fit], dict[str, Any]]:
    """Fits by kind of data, and what ships of them."""
    rows, known = rows_of(), families()
    fits = {name: Fit(evidence_of(rows, name)) for name in TABLES}
    return fits, {name: figures_of(fit, name, known) for name, fit in fits.items()}


def as_text(figures: dict[str, Any]) -> str:
    """The file, one model a line."""
    text = json.dumps(figures, indent=1, sort_keys=True)
    return text + "\n"


def main() -> None:
    if "--gather" in sys.argv:
        gather()
    _, figures = fitted()
    TARGET.write_text(as_text(figures))


if __name__ == "__main__":
    main()
