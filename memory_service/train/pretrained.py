"""Members that learn nothing by themselves: tables in context (TabICL, TabPFN), forecasts without training
(Chronos, TimesFM 2.5, Toto 2).

They apply where the plan names them, their package is installed and WEIGHTS is not none. Weights come from
the hub at the first fit, or from WEIGHTS: a checkpoint of TabICL or TabPFN, a folder of a forecaster. A fit
that fails, as without a network, leaves the minutes to the other members.
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
FORECASTERS = {"chronos-": "chronos", "timesfm-2.5": "timesfm", "toto-2": "toto2"}  # packages by name's start
CONTEXT = 2048  # steps that are read
SERIES_AT_ONCE = 64
# Seconds that a series takes on a card, where more than 0.01; ten times as many on processors
FORECAST_SECONDS = {"timesfm-2.5": 0.075, "toto-2-313m": 0.012, "toto-2": 0.024, "toto-2-2.5b": 0.047}
TOTO_BLOCK = 768  # steps ahead at a time, as its authors advise for far horizons


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
    """The median of each step, or the mean where squares are judged and that is better."""

    name: str = "chronos-2"
    once: bool = True

    def applies(self, problem: Problem) -> bool:
        return (
            plan.WEIGHTS != "none" and installed(package_of(self.name), "torch") and super().applies(problem)
        )

    def price(self, problem: Problem) -> float:
        series = self.series(problem)
        count = int(series.number.max()) + 1 if series else 1
        return 15 + 2 * count * FORECAST_SECONDS.get(self.name, 0.01) * (1 if on_card() else 10)

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
        past = [begun(column)[-CONTEXT:] for column in known.T]
        median, mean = np.full((2, len(past), ahead), np.nan)
        some = [n for n, column in enumerate(past) if len(column)]
        source = plan.HUB_NAME if plan.WEIGHTS == "hub" else plan.WEIGHTS
        ask = LOADERS[package_of(self.name)](source, ahead, min(len(some), SERIES_AT_ONCE))
        for first in range(0, len(some), SERIES_AT_ONCE):
            part = some[first : first + SERIES_AT_ONCE]
            median[part], mean[part] = ask([past[n] for n in part])
        return median, mean


def chronos(source: str, ahead: int, _: int) -> Any:
    import torch
    from chronos import BaseChronosPipeline

    pipeline = BaseChronosPipeline.from_pretrained(source, device_map="cuda" if on_card() else "cpu")

    def ask(past: list[np.ndarray]) -> tuple[Any, Any]:
        inputs = [torch.tensor(each, dtype=torch.float32) for each in past]
        how = {"prediction_length": ahead, "quantile_levels": [0.1, 0.5, 0.9]}
        quantiles, means = pipeline.predict_quantiles(inputs, **how)
        medians = [np.asarray(each, dtype=float).reshape(ahead, -1)[:, 1] for each in quantiles]
        return medians, [np.asarray(each, dtype=float).reshape(ahead) for each in means]

    return ask


def timesfm(source: str, ahead: int, at_once: int) -> Any:
    import timesfm as package  # type: ignore[import-not-found]

    if not hasattr(package, "TimesFM_2p5_200M_torch"):  # 1.x has other networks alone
        raise ImportError("timesfm here is older than version 2: pip install 'timesfm[torch]>=2'")
    model = package.TimesFM_2p5_200M_torch.from_pretrained(source, torch_compile=False)
    config = {"max_context": CONTEXT, "max_horizon": ahead, "per_core_batch_size": at_once}
    config |= dict.fromkeys(("normalize_inputs", "fix_quantile_crossing"), True)
    config["use_continuous_quantile_head"] = ahead <= 1024  # and refuses more
    model.compile(package.ForecastConfig(infer_is_positive=False, **config))

    def ask(past: list[np.ndarray]) -> tuple[Any, Any]:
        found = model.forecast(horizon=ahead, inputs=list(past))[1]  # (series, ahead, mean and 9 quantiles)
        return found[..., 5], found[..., 0]

    return ask


def toto2(source: str, ahead: int, _: int) -> Any:
    import torch
    from toto2 import Toto2Model  # type: ignore[import-not-found]

    model = Toto2Model.from_pretrained(source).to(device()).eval()

    def ask(past: list[np.ndarray]) -> tuple[Any, Any]:
        values = np.full((len(past), 1, max(map(len, past))), np.nan, np.float32)
        for row, column in zip(values[:, 0], past, strict=True):
            row[-len(column) :] = column
        inputs = {"target": np.nan_to_num(values), "target_mask": np.isfinite(values)}
        inputs["series_ids"] = np.zeros(values.shape[:2], np.int64)
        given = {name: torch.from_numpy(each).to(device()) for name, each in inputs.items()}
        block = TOTO_BLOCK if ahead > TOTO_BLOCK else None
        with torch.inference_mode():
            found = model.forecast(given, horizon=ahead, decode_block_size=block, has_missing_values=True)
        quantiles = found[:, :, 0].float().cpu().numpy()  # nine, as the median has as many on each side
        return quantiles[len(quantiles) // 2], quantiles.mean(axis=0)

    return ask


# Package -> what loads a model and gives a function of series: (median, mean), each (series, ahead)
LOADERS = {"chronos": chronos, "timesfm": timesfm, "toto2": toto2}


def package_of(name: str) -> str:
    """Of a forecaster without training; "" of others."""
    return next((package for start, package in FORECASTERS.items() if name.startswith(start)), "")


def begun(column: np.ndarray) -> np.ndarray:
    """Without what is unknown before its first value."""
    seen = np.flatnonzero(np.isfinite(column))
    return column[seen[0] :] if len(seen) else column[:0]


def planned_members(problem: Problem) -> list[Any]:
    """That of the plan, where it is one of these and applies."""
    name = str(plan.MODEL)
    package, make = ("tabicl", tabicl) if name in TABICL else ("tabpfn", tabpfn)
    known = name in TABICL or name in TABPFN
    found: list[Any] = [ZeroShot(name)] if package_of(name) else []
    found += [InContext(name, make, package=package, most=MOST_ROWS.get(name, 100_000))] if known else []
    return [member for member in found if member.applies(problem)]
