"""Members that learn nothing by themselves: tables in context (TabICL, TabPFN), forecasts without training
(Chronos).

They apply where the plan names them, their package is installed and WEIGHTS is not none. Weights come from
the hub at the first fit, or from WEIGHTS: a checkpoint of TabICL or TabPFN, a folder of Chronos. A fit that
fails, as without a network, leaves the minutes to the other members.
"""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from memory_service.train.budget import plan
from memory_service.train.networks import device
from memory_service.train.problem import Fit, Problem, installed
from memory_service.train.series import Forecaster, Series, filled
from memory_service.train.tables import Estimator
from memory_service.train.words import one_for_each

OF_V2 = {"classes": "tabicl-classifier-v2-20260212.ckpt", "values": "tabicl-regressor-v2-20260212.ckpt"}
TABICL = {"tabicl": {"classes": "tabicl-classifier-v1.1-20250506.ckpt"}, "tabicl-v2": OF_V2}
TABPFN = {"tabpfn-v2": "V2", "tabpfn-2.5": "V2_5", "tabpfn-2.6": "V2_6", "tabpfn-3": "V3"}
MOST_ROWS = {"tabicl": 60_000, "tabicl-v2": 100_000, "tabpfn-v2": 10_000, "tabpfn-3": 500_000}
CHRONOS_CONTEXT = 2048  # steps that are read
SERIES_AT_ONCE = 64


def on_card() -> bool:
    return installed("torch") and device() == "cuda"


def tabicl(problem: Problem, seed: int, _: float) -> Any:
    import tabicl as package

    kind = "values" if problem.kind == "values" else "classes"
    make = package.TabICLRegressor if kind == "values" else package.TabICLClassifier
    known: dict[str, Any] = {"random_state": seed, "checkpoint_version": TABICL[plan.MODEL][kind]}
    if plan.WEIGHTS != "hub":
        known |= {"model_path": plan.WEIGHTS, "allow_auto_download": False}
    return one_for_each(problem, make(**known))


def tabpfn(problem: Problem, seed: int, _: float) -> Any:
    os.environ.setdefault("TABPFN_NO_BROWSER", "1")  # a licence is accepted by a token, TABPFN_TOKEN
    import tabpfn as package
    from tabpfn.constants import ModelVersion

    make = package.TabPFNRegressor if problem.kind == "values" else package.TabPFNClassifier
    known: dict[str, Any] = {"random_state": seed}
    if plan.WEIGHTS != "hub":
        known["model_path"] = plan.WEIGHTS
    version = getattr(ModelVersion, TABPFN[plan.MODEL])
    return one_for_each(problem, make.create_default_for_version(version, **known))


@dataclass
class InContext(Estimator):
    """A table read in context by a package."""

    package: str = ""
    once: bool = True

    def applies(self, problem: Problem) -> bool:
        known = self.package != "tabicl" or problem.kind != "values" or "values" in TABICL[self.name]
        return (
            known and plan.WEIGHTS != "none" and installed(self.package, "torch") and super().applies(problem)
        )

    def price(self, problem: Problem) -> float:
        rows, cells = len(problem.inputs), len(problem.inputs) * max(len(problem.columns), 1)
        several = problem.width if problem.kind == "labels" else 1
        return 15 + several * (2e-6 * cells + 1e-8 * rows * rows) * (1 if on_card() else 40)


@dataclass
class ZeroShot(Forecaster):
    """Chronos: the median of each step, or the mean where squares are judged and that is better."""

    name: str = "chronos-2"
    once: bool = True

    def applies(self, problem: Problem) -> bool:
        return plan.WEIGHTS != "none" and installed("chronos", "torch") and super().applies(problem)

    def price(self, problem: Problem) -> float:
        series = self.series(problem)
        count = int(series.number.max()) + 1 if series else 1
        return 15 + 2 * count * (0.01 if on_card() else 0.1)

    def choices(self, fit: Fit, seasons: list[int]) -> list[dict[str, int]]:
        self.kept: dict[Any, tuple[np.ndarray, np.ndarray]] = {}
        return [{"mean": 0}, {"mean": 1}]

    def forecast(
        self, series: Series, grid: np.ndarray, rows: np.ndarray, origin: int, choice: dict[str, int]
    ) -> np.ndarray:
        period, number = series.period[rows], series.number[rows]
        asked, place = np.unique(number, return_inverse=True)
        ahead = int(max(period.max() - origin, 1))
        key = (origin, ahead, len(asked), float(np.nansum(grid)))
        if key not in self.kept:
            self.kept[key] = self.forecasts(grid[: origin + 1, asked], ahead)
        median, mean = self.kept[key]
        found = (mean if choice["mean"] else median)[place, np.clip(period - origin - 1, 0, ahead - 1)]
        if np.nanmin(grid) >= 0:
            found = found.clip(0)
        return filled(found, series, grid, rows, origin)

    def forecasts(self, known: np.ndarray, ahead: int) -> tuple[np.ndarray, np.ndarray]:
        """(median, mean), each (series, ahead), of (periods, series)."""
        import torch
        from chronos import BaseChronosPipeline

        source = plan.HUB_NAME if plan.WEIGHTS == "hub" else plan.WEIGHTS
        device_map = "cuda" if on_card() else "cpu"
        pipeline = BaseChronosPipeline.from_pretrained(source, device_map=device_map)
        past = [begun(column)[-CHRONOS_CONTEXT:] for column in known.T]
        median, mean = np.full((2, len(past), ahead), np.nan)
        some = [n for n, column in enumerate(past) if len(column)]
        for first in range(0, len(some), SERIES_AT_ONCE):
            part = some[first : first + SERIES_AT_ONCE]
            inputs = [torch.tensor(past[n], dtype=torch.float32) for n in part]
            how = {"prediction_length": ahead, "quantile_levels": [0.1, 0.5, 0.9]}
            quantiles, means = pipeline.predict_quantiles(inputs, **how)
            for n, of_quantiles, of_mean in zip(part, quantiles, means, strict=True):
                median[n] = np.asarray(of_quantiles, dtype=float).reshape(ahead, -1)[:, 1]
                mean[n] = np.asarray(of_mean, dtype=float).reshape(ahead)
        return median, mean


def begun(column: np.ndarray) -> np.ndarray:
    """Without what is unknown before its first value."""
    seen = np.flatnonzero(np.isfinite(column))
    return column[seen[0] :] if len(seen) else column[:0]


def planned_members(problem: Problem) -> list[Any]:
    """That of the plan, where it is one of these and applies."""
    name = str(plan.MODEL)
    package, make = ("tabicl", tabicl) if name in TABICL else ("tabpfn", tabpfn)
    known = name in TABICL or name in TABPFN
    found: list[Any] = [ZeroShot(name)] if name.startswith("chronos-") else []
    found += [InContext(name, make, package=package, most=MOST_ROWS.get(name, 100_000))] if known else []
    return [member for member in found if member.applies(problem)]
