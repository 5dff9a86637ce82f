"""Members without training: loaded and asked as their packages want it, on stand-ins made on the spot."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from memory_service.train import pretrained
from memory_service.train.budget import plan

torch = pytest.importorskip("torch")


def test_chronos_forecasts_each_series_from_its_own_past(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Pipeline:
        def predict_quantiles(self, inputs: Any, prediction_length: int, quantile_levels: Any) -> Any:
            last = [float(each[-1]) for each in inputs]
            asked.extend(len(each) for each in inputs)
            shape = (1, prediction_length, len(quantile_levels))
            means = [torch.full(shape[:2], value) for value in last]
            return [torch.full(shape, value + 1) for value in last], means

    module = ModuleType("chronos")
    loaded: list[str] = []

    def from_pretrained(name: str, **_: Any) -> Pipeline:
        loaded.append(name)
        return Pipeline()

    module.BaseChronosPipeline = SimpleNamespace(  # type: ignore[attr-defined]
        from_pretrained=from_pretrained
    )
    monkeypatch.setitem(sys.modules, "chronos", module)
    monkeypatch.setattr(plan, "WEIGHTS", "hub", raising=False)
    monkeypatch.setattr(plan, "HUB_NAME", "amazon/chronos-2", raising=False)
    known = np.arange(20.0).reshape(10, 2)
    known[:4, 1] = np.nan
    median, mean = pretrained.ZeroShot("chronos-2").forecasts(known, 3)
    assert loaded == ["amazon/chronos-2"]
    assert asked == [10, 6], "what is unknown before a series begins is left out"
    assert mean.tolist() == [[18.0] * 3, [19.0] * 3]
    assert (median - mean == 1).all()
