"""Cost and limits of models that are fitted at once on a card: tables in context, forecasts without training.

Their figures are the rows of `in_context.toml`: published formulas of memory, limits of their makers, seconds
of public tables. Time goes with the card's 16-bit arithmetic to the power of `CARD_POWER`, which is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.tables import shipped_table

GIB = 2.0**30
CARD_POWER = 0.7
MEMORY_SPREAD = 1.3
"""Of bytes, above the formula at p90; the published ones were made to err upwards."""

TEST_ROWS_AT_ONCE = 32_768
"""Rows that a package predicts in one pass (tabpfn 9.2, `TABPFN_MAX_BATCHED_TEST_ROWS`)."""

NOTHING_S = 1e-9

HOST_GIB, HOST_BYTES_A_VALUE = 2.6, 80.0
"""Of the process: torch, weights, and ten copies of the table in fp64 (AutoGluon 1.6.3, tabpfn3_model.py)."""


@dataclass(frozen=True, slots=True)
class ContextLaw:
    """One row of the table; what its figures mean stands above them."""

    limits: Mapping[str, int]
    bytes: Mapping[str, float]
    seconds: Mapping[str, float]
    source: str
    regression: Mapping[str, float] = field(default_factory=dict)
    tflops: float = 989.0
    cpu: float = 40.0
    spread: float = 3.0
    iid: bool = False

    @property
    def of_series(self) -> bool:
        """Whether a row is a series, which is forecast as it is read."""
        return not self.iid and "cells" not in self.seconds


@cache
def context_laws() -> Mapping[str, ContextLaw]:
    """Model -> its law."""
    return {name: ContextLaw(**row) for name, row in shipped_table(__package__, "in_context.toml").items()}


USUAL_STEPS = 240
"""Of a series, where nobody says how many series there are."""


def rows_read(name: str, n_train: int) -> int:
    """What the model's law counts of so many training rows: a forecaster reads whole series."""
    law = context_laws().get(name)
    return max(1, n_train // USUAL_STEPS) if law is not None and law.of_series else n_train


def passed_limit(name: str, **given: int | None) -> str:
    """Which limit of a model the data pass, in words: "takes at most 10,000 rows, not 20,000"; "" for none.

    given   rows, columns, classes, horizon; cores: rows that a processor reads
    """
    law = context_laws().get(name)
    for what, most in law.limits.items() if law else ():
        asked = given.get(what)
        if asked is not None and asked > most:
            unit = {"horizon": "steps of horizon", "cores": "rows on a processor"}.get(what, what)
            return f"takes at most {most:,} {unit}, not {asked:,}"
    return ""


def context_memory(name: str, n_train: int, n_test: int, columns: int, *, regression: bool) -> Estimate:
    """GiB of a card, of a fit to n_train rows and of predicting n_test; never falls with any of them."""
    law = context_laws()[name]
    of = {**law.bytes, **(law.regression if regression else {})}
    test = min(n_test, max(n_train, TEST_ROWS_AT_ONCE))
    wide = min(float(columns), of.get("columns_most", float("inf")))
    cells, knee = (n_train + test) * wide, of.get("knee", float("inf"))
    total = of["floor"] + n_train * of.get("train", 0.0) + test * of.get("test", 0.0)
    total += wide * of.get("column", 0.0) + min(cells, knee) * of.get("cell", 0.0)
    total += max(cells - knee, 0.0) * of.get("beyond", 0.0) if cells > knee else 0.0
    gib = total / GIB
    return Estimate(gib, gib / 2.0, gib * MEMORY_SPREAD, basis=f"formula of {name}; {law.source}")


def context_seconds(
    name: str, n_train: int, columns: int, tflops: float | None, cores: int = 8
) -> tuple[Estimate, Estimate]:
    """(seconds of a fit to n_train rows, seconds of predicting one more row) on a card of so many 10^12
    operations a second in 16 bits; None: on so many cores. Never falls with rows and columns, nor rises with
    the speed."""
    law = context_laws()[name]
    slower = law.cpu * (8.0 / max(cores, 1)) ** CARD_POWER if tflops is None else 0.0
    slower = slower or max(1.0, (law.tflops / max(tflops or 1.0, 1.0)) ** CARD_POWER)
    s = law.seconds
    row = s.get("rows", 0.0) + columns * s.get("cells", 0.0) + n_train * s.get("pairs", 0.0)
    fit = s["start"] + n_train * row * slower
    where = "on the processor, judged" if tflops is None else f"{slower:.1f} times slower by the card"
    basis = f"law of {name}, {where}; {law.source}"
    one = NOTHING_S if law.of_series else max(row * slower, NOTHING_S)
    return tuple(  # type: ignore[return-value]
        Estimate(each, each / law.spread, each * law.spread, basis=basis) for each in (fit, one)
    )


def host_memory(n_train: int, columns: int) -> Estimate:
    """GiB of the process beside the card."""
    gib = HOST_GIB + n_train * min(columns, 500) * HOST_BYTES_A_VALUE / GIB
    return Estimate(gib, gib / 1.4, gib * 1.4, basis="ten copies of the table in fp64, torch and weights")
