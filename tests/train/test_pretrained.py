"""Members without training: loaded and asked as their packages want it, on stand-ins made on the spot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

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


def test_timesfm_is_compiled_for_the_horizon_and_answers_by_its_quantiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[Any] = []

    class Model:
        def compile(self, config: Any) -> None:
            compiled.append(config)

        def forecast(self, horizon: int, inputs: list[Any]) -> Any:
            last = np.array([each[-1] for each in inputs])[:, None, None]
            inputs += [np.zeros(3)]  # as the package fills its last batch up
            quantiles = last + np.arange(10.0) * np.ones((1, horizon, 1))
            return quantiles[..., 0], quantiles

    module = ModuleType("timesfm")
    monkeypatch.setitem(sys.modules, "timesfm", module)
    monkeypatch.setattr(plan, "WEIGHTS", "hub", raising=False)
    monkeypatch.setattr(plan, "HUB_NAME", "google/timesfm-2.5-200m-pytorch", raising=False)
    known = np.arange(20.0).reshape(10, 2)
    known[:, 0] = np.nan
    forecaster = pretrained.ZeroShot("timesfm-2.5")
    with pytest.raises(ImportError, match=r"older than version 2"):
        forecaster.forecasts(known, 3)
    loaded: dict[str, Any] = {}
    module.ForecastConfig = dict  # type: ignore[attr-defined]
    module.TimesFM_2p5_200M_torch = SimpleNamespace(  # type: ignore[attr-defined]
        from_pretrained=lambda name, **how: (loaded.update(how, name=name), Model())[1]
    )
    median, mean = forecaster.forecasts(known, 3)
    assert loaded == {"name": "google/timesfm-2.5-200m-pytorch", "torch_compile": False}
    assert (compiled[0]["max_horizon"], compiled[0]["per_core_batch_size"]) == (3, 1)
    assert not compiled[0]["infer_is_positive"]
    assert compiled[0]["use_continuous_quantile_head"]
    assert np.isnan(median[0]).all(), "a series of which nothing is known"
    assert (median[1].tolist(), mean[1].tolist()) == ([24.0] * 3, [19.0] * 3)
    assert forecaster.forecasts(known, 1100)[0].shape == (2, 1100)
    assert not compiled[1]["use_continuous_quantile_head"], "it knows 1 024 steps, and refuses more"


def test_toto_reads_series_of_unlike_lengths_with_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Model:
        def to(self, device: str) -> Model:
            return self

        def eval(self) -> Model:
            return self

        def forecast(self, inputs: Any, **how: Any) -> Any:
            asked.append((inputs, how))
            last = inputs["target"][None, :, :, -1:] * torch.ones(1, 1, 1, how["horizon"])
            return last + torch.tensor([-4.0, -3, -2, -1, 0, 1, 2, 3, 13]).reshape(9, 1, 1, 1)

    module = ModuleType("toto2")
    module.Toto2Model = SimpleNamespace(from_pretrained=lambda name: Model())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toto2", module)
    monkeypatch.setattr(plan, "WEIGHTS", "a folder", raising=False)
    known = np.arange(20.0).reshape(10, 2)
    known[:4, 1], known[5, 0] = np.nan, np.nan
    median, mean = pretrained.ZeroShot("toto-2-22m").forecasts(known, 800)
    inputs, how = asked[0]
    assert inputs["target_mask"].sum((1, 2)).tolist() == [9, 6]
    assert not inputs["target_mask"][1, 0, :4].any()
    assert inputs["target"].isfinite().all()
    assert inputs["series_ids"].shape == (2, 1)
    assert (how["horizon"], how["decode_block_size"]) == (800, 768)
    assert (median[:, 0].tolist(), (mean - median)[:, 7].round(3).tolist()) == ([18.0, 19.0], [1.0, 1.0])


def test_a_member_is_that_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["chronos-bolt-base", "timesfm-2.5", "timesfm-1.0", "toto-2-313m", "toto-1.0", "lightgbm"]
    packages = ["chronos", "timesfm", "", "toto2", "", ""]
    assert [pretrained.package_of(name) for name in names] == packages


def test_a_larger_forecaster_is_given_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    series = SimpleNamespace(number=np.arange(1_000))
    monkeypatch.setattr(pretrained.ZeroShot, "series", lambda *_: series)
    for on_card in (False, True):
        monkeypatch.setattr(pretrained, "on_card", lambda on_card=on_card: on_card)
        names = ("chronos-2", "toto-2-313m", "toto-2", "toto-2-2.5b")
        prices = [pretrained.ZeroShot(name).price(cast("Any", None)) for name in names]
        assert prices == sorted(set(prices))


def _random_timesfm(folder: Path) -> None:
    pytest.importorskip("timesfm").TimesFM_2p5_200M_torch().save_pretrained(folder)


def _random_toto(folder: Path) -> None:
    toto = pytest.importorskip("toto2")
    sizes = {"patch_size": 16, "d_model": 64, "num_heads": 2, "num_layers": 2, "layer_group_size": 2}
    config = toto.Toto2ModelConfig(
        **sizes, num_variate_layers_per_group=1, variate_layer_first=False, residual_attn_ratio=1.0
    )
    toto.Toto2Model(config).save_pretrained(folder)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "saved"), [("timesfm-2.5", _random_timesfm), ("toto-2-22m", _random_toto)])
def test_a_real_package_is_asked_as_it_wants_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, saved: Callable[[Path], None]
) -> None:
    """On random weights of its own class."""
    saved(tmp_path)
    known = np.sin(np.arange(300.0).reshape(100, 3) / 7)
    known[:30, 1] = np.nan
    monkeypatch.setattr(plan, "WEIGHTS", str(tmp_path), raising=False)
    median, mean = pretrained.ZeroShot(name).forecasts(known, 12)
    assert median.shape == mean.shape == (3, 12)
    assert np.isfinite(median).all()
