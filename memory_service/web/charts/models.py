"""Chart of a model's cost per sample over input size."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_service.web.charts.base import axis, line, option


def cost_by_size(profiles: Sequence[Mapping[str, Any]], unit: str) -> dict[str, Any] | None:
    """Memory of one sample (MiB) over input size, a line a precision; None with fewer than two sizes.

    profiles   rows of the sizing table, ascending by input size; only the usual layout is drawn
    """
    usual = [p for p in profiles if p["fused_attention"] and not p["checkpointing"]]
    series = []
    for precision in ("fp32", "amp"):
        data = [[p["input_size"], p["per_sample_mib"]] for p in usual if p["precision"] == precision]
        if len({x for x, _ in data}) > 1:
            series.append(line(precision, data, dashed=precision == "fp32"))
    if not series:
        return None
    return option(axis(f"Input size, {unit}"), axis("Memory of one more sample, MiB", at="y"), series)
