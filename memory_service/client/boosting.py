"""Callbacks of LightGBM, XGBoost and CatBoost that report to a run.

    lightgbm.train(..., callbacks=[lightgbm_callback(run)])
    xgboost.train(..., callbacks=[xgboost_callback(run)])
    CatBoostClassifier(...).fit(..., callbacks=[CatBoostCallback(run)])

A boosting round is reported as an epoch, at most twice a second, and the last where the framework says which
that is; `seconds` is the mean of the rounds since the one reported before. The run is its maker's to end.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any

from memory_service.client.run import Run
from memory_service.client.training_callback import never_raise

REPORT_EVERY_S = 0.5
LOSSES = ("loss", "rmse", "mae", "mse", "l1", "l2", "error", "mape", "entropy", "poisson", "quantile")
TRAIN = ("train", "learn")

Score = tuple[str, str, float, str | None]
"""Data, metric, value, and max or min where the framework says which way it gets better."""


class _Rounds:
    """Reports boosting rounds as epochs."""

    def __init__(self, run: Run, fold: int | None, metric: str | None) -> None:
        self._run, self._fold, self._metric = run, fold, metric
        self._reported_at = time.perf_counter()
        self._since = 0
        self._due = 0.0
        self._pending: tuple[int, list[Score]] | None = None

    @never_raise
    def add(self, number: int, scores: list[Score], *, last: bool) -> None:
        """Round `number` (from 0) ended."""
        self._since += 1
        for _, name, value, way in self._valid(scores)[:1]:
            self._run.score(name, value, number, fold=self._fold, direction=way or _loss(name))
        self._pending = (number, scores)
        if last or time.perf_counter() >= self._due:
            self.report()

    @never_raise
    def report(self) -> None:
        """Report the last round, unless it was reported."""
        if self._pending is None:
            return
        (number, scores), self._pending = self._pending, None
        now = time.perf_counter()
        seconds = (now - self._reported_at) / self._since
        self._run.epoch(number, seconds=seconds, fold=self._fold, **self._figures(scores))
        self._reported_at, self._since, self._due = now, 0, now + REPORT_EVERY_S

    @never_raise
    def add_latest(self, number: int, histories: Any) -> None:
        """The same, with the scores of all rounds so far: {data: {metric: [values]}}."""
        self.add(number, _latest(histories), last=False)

    def _figures(self, scores: list[Score]) -> dict[str, float]:
        valid = self._valid(scores)
        figures = {"metric": valid[0][2]} if valid else {}
        for data, name, value, _ in scores:
            if _loss(name):
                figures.setdefault(f"{'train' if data.lower().startswith(TRAIN) else 'valid'}_loss", value)
        return figures

    def _valid(self, scores: list[Score]) -> list[Score]:
        """Those of the validation, by the metric that was named."""
        return [s for s in scores if not s[0].lower().startswith(TRAIN) and self._metric in (None, s[1])]


def lightgbm_callback(
    run: Run, *, fold: int | None = None, metric: str | None = None
) -> Callable[[Any], None]:
    """For `callbacks=` of lightgbm.train, of lightgbm.cv and of the scikit-learn estimators."""
    rounds = _Rounds(run, fold, metric)

    @never_raise
    def record_round(env: Any) -> None:
        rounds.add(env.iteration, _rows(env), last=env.iteration + 1 >= env.end_iteration)

    record_round.order = 25  # type: ignore[attr-defined]  # after evaluation, before early stopping raises (30)
    return record_round


def xgboost_callback(run: Run, *, fold: int | None = None, metric: str | None = None) -> Any:
    """For `callbacks=` of xgboost.train and of the scikit-learn estimators."""
    rounds = _Rounds(run, fold, metric)
    base: Any = importlib.import_module("xgboost").callback.TrainingCallback

    class WatchCallback(base):  # type: ignore[misc]
        """Reports each round; never ends the training."""

        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
            rounds.add_latest(epoch, evals_log)
            return False

        def after_training(self, model: Any) -> Any:
            rounds.report()
            return model

    return WatchCallback()


class CatBoostCallback:
    """For `callbacks=` of CatBoost's fit."""

    def __init__(self, run: Run, *, fold: int | None = None, metric: str | None = None) -> None:
        self._rounds = _Rounds(run, fold, metric)

    def after_iteration(self, info: Any) -> bool:
        """CatBoost counts rounds from 1. True: go on."""
        self._record(info)
        return True

    @never_raise
    def _record(self, info: Any) -> None:
        self._rounds.add_latest(info.iteration - 1, info.metrics)


def _loss(name: str) -> str | None:
    return "min" if any(word in name.lower() for word in LOSSES) else None


def _rows(env: Any) -> list[Score]:
    """LightGBM's (data, metric, value, higher is better, ...); cv names the data in the metric."""
    rows = env.evaluation_result_list or ()
    return [(str(row[0]), str(row[1]), float(row[2]), "max" if row[3] else "min") for row in rows]


def _latest(histories: Any) -> list[Score]:
    """The last value of each in {data: {metric: [values]}}; XGBoost's cv keeps (mean, deviation)."""
    latest: list[Score] = []
    for data, metrics in (histories or {}).items():
        for name, values in metrics.items():
            if len(values):
                value = values[-1]
                mean = float(value[0] if isinstance(value, tuple) else value)
                latest.append((str(data), str(name), mean, None))
    return latest
