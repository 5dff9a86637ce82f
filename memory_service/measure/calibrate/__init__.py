"""Benchmark of one device within a stated time: speed, memory, loader.

`python -m memory_service.measure.calibrate --device cpu --budget-seconds 60` prints one JSON object a line:
    {"event": "identity", "fingerprint": {...}}                    always first where the device exists
    {"event": "progress", "done": 12, "of": 160, "doing": "matmul.fp32", "seconds": 4.1}
    {"event": "section", "name": "matmul.fp32.1024", "measurement": {"value", "unit", "p20", "p80", "n", ...}}
    {"event": "missing", "name": "matmul.bf16", "why": "no bf16 in this hardware"}
    {"event": "contended"}                                         others used the device: see `end`'s why
    {"event": "end", "status": "done|failed|timed_out", "why": ..., "seconds": ...}    always last
The runner (`runner.py`) starts one process that imports torch once and gives every section a child of
its own (`section_processes.py`). The runner ends when its stdin, where that is a pipe, is closed.
"""

import sys


def command(device: str, budget_seconds: float, force: bool = False) -> list[str]:
    """The command line of a calibration; keep its stdin open while it is wanted."""
    args = [sys.executable, "-m", __name__, "--device", device, "--budget-seconds", f"{budget_seconds:g}"]
    return [*args, "--force"] if force else args
