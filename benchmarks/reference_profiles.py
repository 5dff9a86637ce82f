"""What does one sample of each reference network cost? Traced into seeds/.

python -m benchmarks.reference_profiles --write      about ten seconds, on any processor
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from memory_service.domain.calibration.probe_shapes import REFERENCE_NETS
from memory_service.measure.nets.reference import build_reference
from memory_service.measure.trace import trace_profile
from memory_service.services.knowledge.profiling import SOURCE, write_profiles

__all__ = ["traced"]

PATH = Path(__file__).resolve().parent.parent / "seeds" / "reference_profiles.jsonl.gz"


def traced() -> list[dict[str, Any]]:
    """Every network at every size a kind of device runs it, in both precision classes."""
    nets = {(net.model, net.image_size): net for nets in REFERENCE_NETS.values() for net in nets}
    told = {"source": SOURCE, "grade": "estimated"}
    return [
        {**trace_profile(build_reference(net), precision=precision).as_dict(), **told}
        for net in nets.values()
        for precision in ("fp32", "amp")
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"replace {PATH.name}")
    rows = traced()
    if parser.parse_args().write:
        write_profiles(rows, PATH)
    for row in rows:
        print(row["model"], row["input_size"], row["precision"], row["params"])
