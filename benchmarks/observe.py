"""Do predictions get better once some rows of a card were observed? Random draws on public measurements.

    python -m benchmarks.observe [--oracles ../shared/oracles] [--draws 30] [--write docs/methods/accuracy.md]

For every card with enough rows: draw n rows at random, learn from them as `memory-service evaluate FILE
--observe FILE2` does, predict the card's other rows, take the median error; `--draws` times. Twice: with the
efficiencies that ship, which were fitted on these very rows, and with efficiencies fitted without any row of
the card, which is what the owner of a new card meets. Peaks of memory likewise. Takes about three minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import table as table_of
from benchmarks.fit_rates import FURTHER, Table, fit
from benchmarks.page import Section
from memory_service.domain.cost.rates import COEFFICIENTS, sheet_rates
from memory_service.domain.cost.step_time import StepModel, card_log_sd, step_model
from memory_service.domain.hardware.gpu_spec import gpu_from_row
from memory_service.domain.learning.corrections import LearnedCorrections, learn
from memory_service.domain.learning.measured_rows import parse_row
from memory_service.domain.learning.observation import BaselinePrediction, Observation, prediction_key
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import target_device
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import baseline_prediction, learned_step
from memory_service.errors import MemoryServiceError
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import read_profiles
from memory_service.services.prediction.evaluate import RowCase, case_of, observations_of, read_rows
from memory_service.services.prediction.profile_store import ProfileStore

Floats = NDArray[np.float64]

SHOWN = (1, 8, 40)
FEWEST_LEFT = 10
"""Rows of a card that must remain to be predicted."""

SUSPECT = ("SUSPECT", "do not score")


INTRO = """\
Written by `python -m benchmarks.observe --write docs/methods/accuracy.md`: {draws} draws of n rows of a card,
learned from as `memory-service evaluate FILE --observe FILE2` does; the errors are those of the card's other
rows. `before` and `learned` are means over the draws of the median error, before and after learning; `draws`
is the middle 80 % of the latter, `inside` the share of measurements within low..high. Rows of one data sheet
count as one card, whoever published them; n = 40 only if enough rows are left."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One row: what it observed, the prediction before learning, and how to predict it after."""

    case: RowCase
    seen: Observation
    cold: BaselinePrediction
    measured: float
    before: float
    after: Callable[[LearnedCorrections], tuple[float, float, float]]


@dataclass(frozen=True, slots=True)
class Draws:
    """Median errors of the rows not drawn, one of each per draw, and the share inside low..high."""

    cold: Floats
    learned: Floats
    inside: Floats

    def as_row(self, name: str, rows: int, n: int) -> tuple[str, ...]:
        low, high = np.quantile(self.learned, [0.1, 0.9])
        return (
            name, str(rows), str(n), _percent(self.cold.mean()), _percent(self.learned.mean()),
            f"{_percent(low)} to {_percent(high)}", f"{self.inside.mean():.0%}",
        )  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    arguments.add_argument("--oracles", type=Path, default=Path("../shared/oracles"))
    arguments.add_argument("--draws", type=int, default=30)
    arguments.add_argument("--write", type=Path, default=None, help="put the tables into this page")
    given = arguments.parse_args()
    cases = load(
        [given.oracles / "throughput_and_fit.csv", FURTHER, given.oracles / "peak_memory_a100_40gb.csv"]
    )
    lines = section(cases, given.draws)
    print("\n".join(lines))
    if given.write is not None:
        kept = Section("observe", given.write)
        kept.keep(kept.marked("\n".join(lines)))


def load(tables: Sequence[Path]) -> list[RowCase]:
    """The rows that can be predicted; profiles that do not ship with the benchmarks are traced."""
    seeds = resource("seeds")
    gpus = {
        gpu.slug: gpu for gpu in (target_device(gpu_from_row(row)) for row in _jsonl(seeds / "gpus.jsonl"))
    }
    models = {m.name: m for m in (CatalogueModel.from_dict(row) for row in _jsonl(seeds / "models.jsonl"))}
    profile_store = ProfileStore(
        models, read_profiles(Path(__file__).with_name("data") / "oracle_profiles.jsonl.gz")
    )
    cases = []
    for raw in (raw for file in tables for raw in read_rows(file)):
        if any(word in (raw.get("notes") or "") for word in SUSPECT):
            continue
        try:
            cases.append(case_of(parse_row(raw), profile_store, gpus))
        except MemoryServiceError as error:
            print(f"passed over: {raw.get('gpu')} {raw.get('model')}: {error.detail[:80]}")
    return cases


def section(cases: Sequence[RowCase], draws: int) -> list[str]:
    """The tables as markdown lines."""
    timed = [c for c in cases if c.row.samples_per_s and c.row.batch]
    fitting = Table([(c.row, c.profile, c.gpu) for c in timed])
    lines = [
        "## After some rows were observed",
        "",
        *INTRO.format(draws=draws).splitlines(),
        "",
    ]
    header = ("card", "rows", "n", "before", "learned", "draws", "inside")
    for title, is_fitted in (
        ("Step time, efficiencies as shipped (fitted on these rows among others)", True),
        ("Step time, efficiencies fitted without any row of the card, as for a new card", False),
    ):
        rows = []
        for card in sorted({c.gpu.slug for c in timed}, key=lambda s: -sum(c.gpu.slug == s for c in timed)):
            own = [c for c in timed if c.gpu.slug == card]
            if len(own) < SHOWN[1] + FEWEST_LEFT:
                continue
            coefficients = COEFFICIENTS if is_fitted else fit(fitting, fitting.card != card)
            subjects = [_timed(c, coefficients) for c in own]
            rows += _rows(card, subjects, draws)
        lines += [f"### {title}", "", *table_of(header, rows)]
    peaks = [
        s for c in cases if c.row.peak_gib and c.row.batch and "fill" not in c.row.notes for s in _peak(c)
    ]
    rows = []
    for card in sorted({s.case.gpu.slug for s in peaks}):
        own_peaks = [s for s in peaks if s.case.gpu.slug == card]
        if len(own_peaks) >= SHOWN[1] + FEWEST_LEFT:
            rows += _rows(card, own_peaks, draws)
    lines += ["### Peak memory as the driver sees it", "", *table_of(header, rows)]
    return lines[:-1]


def _rows(card: str, subjects: Sequence[Subject], draws: int) -> list[tuple[str, ...]]:
    return [
        drawn(subjects, n, draws).as_row(card, len(subjects), n)
        for n in SHOWN
        if len(subjects) >= n + FEWEST_LEFT
    ]


def drawn(subjects: Sequence[Subject], n: int, draws: int) -> Draws:
    """Errors before and after learning from n of the subjects drawn at random."""
    draw = np.random.default_rng([n, len(subjects)])
    cold, learned, inside = (np.zeros(draws) for _ in range(3))
    measured = np.array([s.measured for s in subjects])
    before = np.abs(np.array([s.before for s in subjects]) / measured - 1.0)
    for index in range(draws):
        picked = np.isin(np.arange(len(subjects)), draw.choice(len(subjects), n, replace=False))
        taught = _learned([s for s, here in zip(subjects, picked, strict=True) if here])
        left = [s for s, here in zip(subjects, picked, strict=True) if not here]
        after = np.array([s.after(taught) for s in left])
        cold[index] = np.median(before[~picked])
        learned[index] = np.median(np.abs(after[:, 0] / measured[~picked] - 1.0))
        inside[index] = np.mean((after[:, 1] <= measured[~picked]) & (measured[~picked] <= after[:, 2]))
    return Draws(cold, learned, inside)


def _learned(subjects: Sequence[Subject]) -> LearnedCorrections:
    cold = {s.seen: s.cold for s in subjects}
    return learn([s.seen for s in subjects], cold.get)


def _timed(case: RowCase, coefficients: dict[str, float]) -> Subject:
    row = case.row
    rates = sheet_rates(case.gpu, case.precision, row.layout, case.config.stack, coefficients)
    step: StepModel = step_model(case.profile, rates, case.config)
    batch = row.batch or 1
    (seen,) = [o for o in observations_of(case) if not o.out_of_memory]
    cold = BaselinePrediction(
        step.seconds(batch), step.shares(batch), card_log_sd(rates), 1.0, 1.0, 1.0, case.gpu.usable_gib
    )
    seen = replace(seen, peak_allocated_gib=None, peak_driver_gib=None)

    def after(taught: LearnedCorrections) -> tuple[float, float, float]:
        model = learned_step(step, taught, rates, prediction_key(case.profile, case.gpu, case.config))
        warm = model.samples_per_second(batch)
        return warm.value, warm.low, warm.high

    return Subject(case, seen, cold, row.samples_per_s or 1.0, batch / cold.step_seconds, after)


def _peak(case: RowCase) -> list[Subject]:
    row, batch = case.row, case.row.batch or 1
    if "max allocated" in row.notes.lower() or row.mode == "infer":
        return []
    (seen,) = [o for o in observations_of(case) if not o.out_of_memory]
    cold = baseline_prediction(seen, case.profile, case.gpu)

    def after(taught: LearnedCorrections) -> tuple[float, float, float]:
        gpu = replace(case.gpu, learned=taught)
        peak = peak_memory(case.profile, batch, gpu, case.config).driver_gib
        return peak.value, peak.low, peak.high

    return [
        Subject(case, replace(seen, step_seconds=None), cold, row.peak_gib or 1.0, cold.driver_gib, after)
    ]


def _jsonl(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


if __name__ == "__main__":
    main()
