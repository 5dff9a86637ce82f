"""What share of a data sheet's peak does training reach? Fits `domain/cost/efficiencies.toml` on public
measurements.

    python benchmarks/fit_rates.py TABLE.csv... [--profiles CACHE.jsonl[.gz]] [--write]

Robust least squares on log(predicted / measured step time). Few positive coefficients, each held near a prior
that a person chose; families of models and cards are held out in turn to say how far the fit carries.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from memory_service.domain.cost.profile import OP_CLASSES, Profile
from memory_service.domain.cost.rates import COEFFICIENTS, Rates, sheet_rates
from memory_service.domain.cost.roofline import roofline_of
from memory_service.domain.cost.step_config import Stack
from memory_service.domain.cost.step_time import optimizer_bytes_per_param
from memory_service.domain.hardware.gpu_spec import gpu_from_row
from memory_service.domain.learning.measured_rows import MeasuredRow, parse_row
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.errors import MemoryServiceError
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import read_profiles
from memory_service.services.prediction.evaluate import (
    DEFAULT_OPTIMIZERS,
    card_of,
    profile_key,
    profile_of,
    read_rows,
)
from memory_service.services.prediction.profile_store import ProfileStore

Floats = NDArray[np.float64]

PRIORS: dict[str, float] = {
    "nhwc.dense_conv": 0.85, "nhwc.pointwise_conv": 0.8, "nhwc.conv.bytes": 0.7,
    "nhwc.grouped_conv": 0.6, "nhwc.grouped_conv.bytes": 0.5, "nhwc.grouped_conv.power": 0.6,
    "nhwc.depthwise_conv": 0.08, "nhwc.depthwise_conv.bytes": 0.6,
    "nhwc.grouped_conv.torch1": 0.05, "nhwc.grouped_conv.torch1.bytes": 0.2,
    "nhwc.grouped_conv.torch1.power": 0.2,
    "nhwc.depthwise_conv.torch1": 0.08, "nhwc.depthwise_conv.torch1.bytes": 0.35,
    "nchw.dense_conv": 0.6, "nchw.pointwise_conv": 0.75, "nchw.conv.bytes": 0.25,
    "nchw.grouped_conv": 0.36, "nchw.grouped_conv.bytes": 0.12, "nchw.grouped_conv.power": 0.5,
    "nchw.depthwise_conv": 0.11, "nchw.depthwise_conv.bytes": 0.2,
    "plain.dense_conv.fp32": 1.1, "plain.pointwise_conv.fp32": 0.85,
    "plain.dense_conv.tf32": 0.85, "plain.pointwise_conv.tf32": 0.8, "plain.conv.bytes": 0.6,
    "plain.grouped_conv": 0.5, "plain.grouped_conv.bytes": 0.3, "plain.grouped_conv.power": 0.3,
    "plain.depthwise_conv": 0.1, "plain.depthwise_conv.bytes": 0.3,
    "matmul.fp16": 0.95, "matmul.tf32": 0.75, "matmul.fp32": 0.8, "matmul.bytes": 0.6,
    "attention.fp16": 0.6, "attention.tf32": 0.6, "attention.fp32": 0.6, "attention.bytes": 0.8,
    "elementwise.bytes": 0.95,
    "kernel_seconds.torch1": 1.5e-5, "kernel_seconds.torch2": 1.0e-5, "kernel_seconds.infer": 3e-6,
    "scale.bandwidth": 0.8, "tile_power": 0.95,
}  # fmt: skip
"""Where the fit starts and what it is drawn to: shares of a peak are below 1, fp32 3 x 3 convolutions may
pass it (Winograd)."""

FIXED: dict[str, float] = {
    "host_seconds": 6e-6,
    "scale.fp16": 0.87, "scale.tf32": 0.87, "scale.fp32": 0.9,
    "cpu.flops": 0.75, "cpu.bytes": 0.75, "cpu.kernel_seconds": 1e-5,
    "mps.flops": 0.5, "mps.bytes": 0.7, "mps.kernel_seconds": 3e-5,
}  # fmt: skip
"""Not fitted, for want of rows that tell: the host's cost of a launch; how achieved arithmetic grows with the
peak (an A100 holds about 75 % of 312 TFLOP/s where an RTX 3090 holds nearly all of 71); processors and
Apple."""

FURTHER = Path(__file__).with_name("further_rows.csv")
"""Three published figures of the A100, the only rows of a card of compute capability 8.0."""

PULL = 0.05
SOFT_ERROR = 0.1
MOST_FEW_ROWS = 3.0
"""Tables of many rows on one card count once a row; rows of other cards 1.5 times, of the A100 3 times."""

SUSPECT = ("SUSPECT",)


class Table:
    """All usable rows as flat arrays: one entry per kernel group, `first[i]` starts row i."""

    def __init__(self, rows: Sequence[tuple[MeasuredRow, Profile, TargetDevice]]) -> None:
        self.rows = rows
        groups = [roofline_of(profile, row.mode) for row, profile, _ in rows]
        sizes = [len(g.kind) for g in groups]
        self.first = np.cumsum([0, *sizes])[:-1]
        self.of_row = np.repeat(np.arange(len(rows)), sizes)
        batch = np.array([float(row.batch or 1) for row, _, _ in rows])
        self.kind = np.concatenate([g.kind for g in groups])
        self.tile_fit = np.concatenate([g.tile_fit for g in groups])
        self.width = np.maximum(np.concatenate([g.group_width for g in groups]), 1.0)
        per_sample = batch[self.of_row]
        self.flops = np.concatenate([g.flops_fixed for g in groups])
        self.flops += per_sample * np.concatenate([g.flops_per_sample for g in groups])
        self.bytes = np.concatenate([g.bytes_fixed for g in groups])
        self.bytes += per_sample * np.concatenate([g.bytes_per_sample for g in groups])
        self.kernels = np.array([g.kernels.sum() for g in groups])
        self.measured = np.log(batch / np.array([float(row.samples_per_s or 1.0) for row, _, _ in rows]))
        self.infer = np.array([row.mode == "infer" for row, _, _ in rows])
        self.family = np.array([profile.family or profile.model for _, profile, _ in rows])
        self.card = np.array([gpu.slug for _, _, gpu in rows])
        self.bulk = np.array(["pytorch-image-models" in row.source for row, _, _ in rows])
        self.weight = np.where(
            self.bulk, 1.0, np.where(np.char.startswith(self.card, "a100"), MOST_FEW_ROWS, 1.5)
        )
        self.updated_bytes, self.tensors = np.array([_update(row, profile) for row, profile, _ in rows]).T
        self._settings: dict[tuple[str, str, str, Stack], int] = {}
        self._gpus = {gpu.slug: gpu for _, _, gpu in rows}
        self.setting = np.array([self._setting(row, gpu) for row, _, gpu in rows])

    def _setting(self, row: MeasuredRow, gpu: TargetDevice) -> int:
        stack: Stack = "torch1" if row.torch_before_2 else "torch2"
        key = (gpu.slug, precision_on(row, gpu), row.layout, stack)
        return self._settings.setdefault(key, len(self._settings))

    def log_seconds(self, coefficients: Mapping[str, float]) -> Floats:
        """log of every row's predicted step time: the law of `domain.cost.step_time`, for all rows at
        once."""
        rates: list[Rates] = [
            sheet_rates(self._gpus[slug], precision, layout, stack, coefficients)
            for slug, precision, layout, stack in self._settings
        ]
        at = self.setting[self.of_row]
        flops = np.array([r.flops_per_second for r in rates])[at, self.kind]
        moved = np.array([r.bytes_per_second for r in rates])[at, self.kind]
        narrow = np.minimum(1.0, self.width / 128.0) ** np.array([r.group_power for r in rates])[at]
        tiles = self.tile_fit ** rates[0].tile_power
        useful = np.where(self.kind == OP_CLASSES.index("grouped_conv"), narrow, tiles)
        spent = np.add.reduceat(np.maximum(self.flops / (flops * useful), self.bytes / moved), self.first)
        launch = np.where(
            self.infer,
            np.array([r.inference_kernel_seconds for r in rates])[self.setting],
            np.array([r.kernel_seconds for r in rates])[self.setting],
        )
        host = np.array([r.host_seconds for r in rates])[self.setting]
        stream = np.array([r.memory_bytes_per_second for r in rates])[self.setting]
        trained = np.array([r.kernel_seconds for r in rates])[self.setting]
        least = np.where(self.infer, np.maximum(host, trained), host)
        step = np.maximum(spent + self.kernels * launch, self.kernels * least)
        return np.asarray(np.log(step + self.updated_bytes / stream + self.tensors * host))


def fit(table: Table, used: NDArray[np.bool_] | None = None) -> dict[str, float]:
    """Coefficients that make the median error small on the rows `used` (default all)."""
    mask = np.ones(len(table.rows), dtype=bool) if used is None else used
    names = list(PRIORS)
    prior = np.log([PRIORS[name] for name in names])
    most = np.log([_most(name) for name in names])

    def residuals(theta: Floats) -> Floats:
        known = {**FIXED, **dict(zip(names, np.exp(theta), strict=True))}
        error = ((table.log_seconds(known) - table.measured) * table.weight)[mask]
        return np.concatenate([error, (theta - prior) * PULL])

    start = np.minimum(prior, most - 1e-6)
    found = least_squares(
        residuals, start, loss="soft_l1", f_scale=SOFT_ERROR, bounds=(prior - 4.0, most), max_nfev=60
    )
    return {**FIXED, **{name: float(f"{v:.3g}") for name, v in zip(names, np.exp(found.x), strict=True)}}


def held_out(table: Table, key: NDArray[np.str_], folds: int) -> Floats:
    """log seconds of every row, predicted by a fit that saw none of its group."""
    names = np.array(sorted(set(key)))
    np.random.default_rng(1).shuffle(names)
    out = np.zeros(len(table.rows))
    for index in range(folds):
        hidden = np.isin(key, names[index::folds])
        out[hidden] = table.log_seconds(fit(table, ~hidden))[hidden]
    return out


def report(name: str, error: Floats) -> str:
    """One line: rows, median and p90 of the relative error, 80 % range of log(measured / predicted)."""
    relative = np.abs(np.expm1(error))
    low, high = np.quantile(-error, [0.1, 0.9])
    return (
        f"{name:28s} {len(error):5d} rows  median {np.median(relative):6.1%}"
        f"  p90 {np.quantile(relative, 0.9):6.1%}  log range {low:+.2f} {high:+.2f}"
    )


def load(
    tables: Sequence[Path],
    profiles: Path | None,
    gpus: Mapping[str, TargetDevice],
    models: Mapping[str, CatalogueModel],
) -> list[tuple[MeasuredRow, Profile, TargetDevice]]:
    """Rows that can be predicted, with their profile and card; missing profiles are traced and kept in
    `profiles`."""

    def keep(fresh: Sequence[Profile]) -> None:
        if profiles is not None:
            opener = gzip.open if profiles.suffix == ".gz" else open
            with opener(profiles, "at", encoding="utf-8") as out:
                out.writelines(json.dumps(profile.as_dict()) + "\n" for profile in fresh)

    known: Iterable[Profile] = read_profiles(profiles) if profiles is not None and profiles.exists() else ()
    profile_store = ProfileStore(models, known, keep)
    usable = []
    for raw in (raw for file in tables for raw in read_rows(file)):
        row = parse_row(raw)
        if row.samples_per_s is None or row.batch is None or any(word in row.notes for word in SUSPECT):
            continue
        try:
            usable.append((row, profile_of(profile_store, profile_key(row)), card_of(row, gpus)))
        except MemoryServiceError as error:
            print(f"passed over: {row.gpu} {row.model}: {error.detail[:100]}")
    profile_store.close()
    return usable


def _jsonl(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def _update(row: MeasuredRow, profile: Profile) -> tuple[float, float]:
    """(bytes moved by the optimizer, parameter tensors) of a row."""
    if row.mode == "infer":
        return 0.0, 0.0
    optimizer = row.optimizer or DEFAULT_OPTIMIZERS.get(profile.input_kind, "adamw")
    if optimizer == "none":
        return 0.0, 0.0
    moved = optimizer_bytes_per_param(optimizer, row.precision) * profile.params
    return moved, float(profile.extra.get("parameter_tensors", 0))


def precision_on(row: MeasuredRow, gpu: TargetDevice) -> str:
    """The precision a row ran in: tables that say "fp32 (TF32 where the card can)" mean what the card has."""
    if row.precision == "fp32-or-tf32":
        return "tf32" if "tf32" in gpu.tflops else "fp32"
    return row.precision


def _most(name: str) -> float:
    if name.startswith("kernel_seconds"):
        return 1e-4
    if name.endswith("power"):
        return 3.0
    return 2.0 if name == "plain.dense_conv.fp32" else 1.0


def write(coefficients: Mapping[str, float], spread: Mapping[str, float]) -> None:
    """Replace the figures of `domain/cost/efficiencies.toml`."""
    path, figures = Path("memory_service/domain/cost/efficiencies.toml"), {**coefficients, **spread}
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        name, is_row, _ = line.partition(" = ")
        value = figures.get(name.strip('"')) if is_row and not line.startswith("#") else None
        lines.append(line if value is None else f"{name} = {float(f'{value:.3g}')!r}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("csv", type=Path, nargs="+")
    arguments.add_argument("--profiles", type=Path, default=None, help="cache of traced profiles (.jsonl)")
    arguments.add_argument("--write", action="store_true")
    given = arguments.parse_args()
    seeds = resource("seeds")
    cards = [target_device(gpu_from_row(row)) for row in _jsonl(seeds / "gpus.jsonl")]
    rows = [CatalogueModel.from_dict(row) for row in _jsonl(seeds / "models.jsonl")]
    gpus, models = {gpu.slug: gpu for gpu in cards}, {row.name: row for row in rows}
    table = Table(load([*given.csv, FURTHER], given.profiles, gpus, models))
    coefficients = fit(table)
    changed = {k: v for k, v in coefficients.items() if COEFFICIENTS.get(k) != v}
    print("changed:", changed)
    train = ~table.infer
    ranges: list[Floats] = []
    for title, predicted in (
        ("fitted", table.log_seconds(coefficients)),
        ("families held out", held_out(table, table.family, 6)),
        ("cards held out", held_out(table, table.card, len(set(table.card)))),
    ):
        error = predicted - table.measured
        print(f"--- {title}")
        print(report("training", error[train]))
        print(report("inference", error[~train]))
        print(report("training, other cards", error[train & (table.card != "rtx3090")]))
        for card in sorted(set(table.card)):
            print(report(f"  {card}", error[table.card == card]))
        ranges.append(np.quantile(-error[train & table.bulk], [0.1, 0.9]))
    if given.write:
        low, high = np.mean(ranges[:2], axis=0)
        write(coefficients, {"low": round(-low, 3), "high": round(high, 3), "grouped": 0.4})


if __name__ == "__main__":
    main()
