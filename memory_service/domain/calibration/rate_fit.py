"""Fits the rates that explain the times measured by a calibration.

Every timed section is a small step: groups of kernels as a profile has them, launches, an update. Its time
by the data sheet's rates is corrected by the sum of effects (logarithms of slowness) of each group: of the
device as a whole, of arithmetic or bytes, of the operation class, of precision and layout, and of exactly
this combination. The effects are found together by least squares, each shrunk towards zero by how much such
things usually differ, so that what was not measured follows what is nearest to it and was.

The reference networks weigh most: what a training step reaches is what is asked. One more effect, theirs
alone, is how much longer a network takes than its sections say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.cost.profile import OP_CLASSES
from memory_service.domain.cost.rates import Rates
from memory_service.domain.cost.roofline import Roofline

Floats = NDArray[np.float64]
RatesAt = Callable[[str, str], Rates]
"""(precision, layout) -> the rates that are to be corrected."""

SD = {
    "all": 0.7, "work": 0.5, "class": 0.3, "class work": 0.4, "precision": 0.3, "class precision": 0.3,
    "layout": 0.3, "case": 0.3, "kernel": 1.0, "host": 1.0, "stream": 0.5, "update": 0.7, "network": 0.2,
    "tile": 0.3,
}  # fmt: skip
"""How much log time differs at each level between a device and its data sheet, one standard deviation."""

CARD_KERNEL_SD = 0.3
"""Of what a kernel costs on a card beside its work: hardware, which differs less than hosts do."""

DEFAULT_UPDATE_SECONDS = {True: 5e-5, False: 6e-6}
"""Of the optimizer's step per parameter tensor, on a processor (one loop over tensors) or a card (all at
once)."""

TAILS = 2.5
"""A section further off than this many of its deviations counts less and less."""

ROUNDS = 30

TINY, LEAST_TINY = 0.2, 3
"""So small a share of its time does a section compute whose time is the host's; that many of them say how
long a launch takes there."""


@dataclass(frozen=True, slots=True, eq=False)
class Timed:
    """One measured time and the work behind it.

    sd        how far such a section usually is from what networks see, as a deviation of log time
    network   name of the reference network; "" for a section of one operation
    """

    name: str
    seconds: float
    sd: float
    work: Roofline
    batch: float
    precision: str
    layout: str
    mode: str = "train"
    update_bytes: float = 0.0
    update_tensors: float = 0.0
    network: str = ""


class RateEffects:
    """Found effects, by name; `applied` corrects rates with them."""

    def __init__(self, effects: Mapping[str, float]) -> None:
        self.effects = effects

    def log_seconds(self, timed: Timed, rates_at: RatesAt, *, cpu: bool) -> float:
        """Logarithm of what a section is predicted to take."""
        system = _System([timed], rates_at, cpu)
        theta = np.array([self.effects.get(name, 0.0) for name in system.names])
        return float(system.predicted(theta)[0][0])

    def applied(self, rates: Rates, precision: str, layout: str, *, cpu: bool) -> Rates:
        """The same rates as they were measured; `network` effect included."""
        network = self._sum(("network",))

        def slower(*effects: str) -> float:
            return exp(self._sum(effects) + network)

        flops, moved = (
            tuple(
                rate / slower(*_effects_of(name, work, precision, layout))
                for name, rate in zip(OP_CLASSES, old, strict=True)
            )
            for work, old in (("flops", rates.flops_per_second), ("bytes", rates.bytes_per_second))
        )
        update = rates.update_seconds_per_tensor or DEFAULT_UPDATE_SECONDS[cpu]
        return replace(
            rates,
            flops_per_second=flops,
            bytes_per_second=moved,
            kernel_seconds=rates.kernel_seconds * slower("kernel.train"),
            inference_kernel_seconds=rates.inference_kernel_seconds * slower("kernel.infer"),
            host_seconds=rates.host_seconds * slower("host.train"),
            memory_bytes_per_second=rates.memory_bytes_per_second / slower(*_STREAM),
            tile_power=max(0.0, rates.tile_power + self._sum(("tile",))),
            group_power=max(0.0, rates.group_power + self._sum(("group",))),
            update_seconds_per_tensor=update * slower("update"),
        )

    def _sum(self, names: Sequence[str]) -> float:
        return sum(self.effects.get(name, 0.0) for name in names)


_STREAM = ("all", "work.bytes", "stream")


def _effects_of(name: str, work: str, precision: str, layout: str) -> tuple[str, ...]:
    """Names of the effects on one kind of work of one operation class, general ones first."""
    laid_out = layout if name.endswith("_conv") or name == "elementwise" else ""
    half = "half" if precision in ("fp16", "bf16") else precision
    out = ["all", f"work.{work}", f"class.{name}", f"class work.{name}.{work}"]
    out += [f"precision.{work}.{half}", f"class precision.{name}.{half}"]
    if laid_out:
        out.append(f"layout.{name}.{laid_out}")
    return (*out, f"case.{name}.{work}.{precision}.{laid_out}")


def _sd_of(effect: str, cpu: bool) -> float:
    if effect == "group":
        return SD["tile"]
    if effect == "kernel.train" and not cpu:
        return CARD_KERNEL_SD
    return SD[effect.split(".", 1)[0]]


_Group = tuple[int, float, float, dict[str, float], dict[str, float]]
"""Row of its section, seconds of arithmetic and of bytes, the effects on either."""


class _System:
    """The sections as flat arrays: one entry per group of kernels; columns of effects."""

    def __init__(self, timed: Sequence[Timed], rates_at: RatesAt, cpu: bool) -> None:
        self.names: dict[str, int] = {}
        self.timed = timed
        self.measured = np.log([t.seconds for t in timed])
        self.sd = np.array([t.sd for t in timed])
        groups: list[_Group] = []
        kernels, host, stream, update, cost, infer = [], [], [], [], [], []
        for row, t in enumerate(timed):
            rates = rates_at(t.precision, t.layout)
            groups += self._rows_of(row, t, rates)
            each = rates.update_seconds_per_tensor or DEFAULT_UPDATE_SECONDS[cpu]
            launches = float(t.work.kernels.sum())
            infer.append(t.mode != "train")
            kernels.append(launches)
            cost.append(rates.inference_kernel_seconds if infer[-1] else rates.kernel_seconds)
            host.append(launches * rates.host_seconds)
            stream.append(t.update_bytes / rates.memory_bytes_per_second)
            update.append(t.update_tensors * each)
        self.of_row = np.array([g[0] for g in groups], dtype=np.intp)
        self.seconds = np.array([[g[1], g[2]] for g in groups]).reshape(-1, 2)
        self.columns = [[g[3] for g in groups], [g[4] for g in groups]]
        self.launch = np.array(kernels) * np.array(cost)
        self.host, self.stream, self.update = np.array(host), np.array(stream), np.array(update)
        effects = ("kernel.train", "kernel.infer", "host.train", "host.infer")
        for name in (*_STREAM, *effects, "update", "network"):
            self._column(name)
        size = len(self.names)
        self.design = [np.zeros((len(groups), size)) for _ in range(2)]
        for side in range(2):
            for index, named in enumerate(self.columns[side]):
                for name, weight in named.items():
                    self.design[side][index, self.names[name]] = weight
        self.single = {name: np.zeros((len(timed), size)) for name in ("launch", "host", "stream", "update")}
        for row in range(len(timed)):
            mode = "infer" if infer[row] else "train"
            self.single["launch"][row, self.names[f"kernel.{mode}"]] = 1.0
            self.single["host"][row, self.names[f"host.{mode}"]] = 1.0
            self.single["update"][row, self.names["update"]] = 1.0
            for name in _STREAM:
                self.single["stream"][row, self.names[name]] = 1.0
        for row in () if cpu else self._waiting():
            self.host[row], self.single["host"][row] = timed[row].seconds, 0.0
        self.network = np.zeros((len(timed), size))
        for row, t in enumerate(timed):
            self.network[row, self.names["network"]] = 1.0 if t.network else 0.0
        self.prior = np.array([_sd_of(name, cpu) for name in self.names])

    def _column(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def _rows_of(self, row: int, t: Timed, rates: Rates) -> Iterator[_Group]:
        work = t.work
        for index, kind in enumerate(work.kind):
            name = OP_CLASSES[kind]
            flops = work.flops_fixed[index] + t.batch * work.flops_per_sample[index]
            moved = work.bytes_fixed[index] + t.batch * work.bytes_per_sample[index]
            columns = [
                dict.fromkeys(_effects_of(name, side, t.precision, t.layout), 1.0)
                for side in ("flops", "bytes")
            ]
            if name == "grouped_conv":
                width = min(1.0, max(float(work.group_width[index]), 1.0) / 128.0)
                useful, lost = width**rates.group_power, ("group", -log(width))
            else:
                fit = float(work.tile_fit[index])
                useful, lost = fit**rates.tile_power, ("tile", -log(fit))
            if lost[1]:
                columns[0][lost[0]] = lost[1]
            for named in columns:
                for effect in named:
                    self._column(effect)
            computing = flops / (rates.flops_per_second[kind] * useful)
            yield row, computing, moved / rates.bytes_per_second[kind], columns[0], columns[1]

    def starts(self) -> list[Floats]:
        """Where to descend from: the data sheet; and a host so slow that networks wait for it, which no slope
        leads to while the device seems the slower of the two."""
        start = np.zeros(len(self.names))
        networks = [row for row, t in enumerate(self.timed) if t.network and self.host[row] > 0.0]
        if not networks:
            return [start]
        waits = start.copy()
        slowness = min(self.timed[row].seconds / self.host[row] for row in networks)
        waits[self.names["host.train"]] = log(max(1.0, slowness))
        return [start, waits]

    def _waiting(self) -> list[int]:
        """Places of sections whose time may be the host's, so that it only bounds the device's: an operation
        and its gradients, launched from Python, take a tenth of a millisecond however little there is to
        compute."""
        launches = np.array(
            [0.0 if t.network or t.mode != "train" else t.work.kernels.sum() for t in self.timed]
        )
        seconds, device = np.exp(self.measured), np.zeros(len(self.timed))
        np.add.at(device, self.of_row, self.seconds.max(axis=1))
        tiny = (launches > 1) & (device < TINY * seconds)
        if tiny.sum() < LEAST_TINY:
            return []
        host = launches * np.quantile(seconds[tiny] / launches[tiny], 0.8)
        return [int(row) for row in np.flatnonzero((launches > 1) & (seconds < 1.5 * host))]

    def predicted(self, theta: Floats) -> tuple[Floats, Floats]:
        """(log seconds of every section, its derivative by every effect)."""
        sides = np.stack([self.seconds[:, s] * np.exp(self.design[s] @ theta) for s in range(2)])
        by_bytes = sides[1] > sides[0]
        spent = np.where(by_bytes, sides[1], sides[0])
        slope = np.where(by_bytes[:, None], self.design[1], self.design[0]) * spent[:, None]
        total, size = len(self.timed), len(self.names)
        device, moved = np.zeros(total), np.zeros((total, size))
        np.add.at(device, self.of_row, spent)
        np.add.at(moved, self.of_row, slope)
        parts = {name: getattr(self, name) * np.exp(self.single[name] @ theta) for name in self.single}
        device = device + parts["launch"]
        moved = moved + parts["launch"][:, None] * self.single["launch"]
        waits = parts["host"] > device
        step = np.where(waits, parts["host"], device)
        by = np.where(waits[:, None], parts["host"][:, None] * self.single["host"], moved)
        for name in ("stream", "update"):
            step = step + parts[name]
            by = by + parts[name][:, None] * self.single[name]
        step = np.maximum(step, 1e-12)
        return np.log(step) + self.network @ theta, by / step[:, None] + self.network


def fit_effects(timed: Sequence[Timed], rates_at: RatesAt, *, cpu: bool) -> RateEffects:
    """The effects that explain the times, by robust least squares from the rates of `rates_at`.

    Without a section every effect is zero; the same sections in any order give the same effects.
    """
    timed = sorted(timed, key=lambda t: t.name)
    if not timed:
        return RateEffects({})
    system = _System(timed, rates_at, cpu)
    found = [_descended(system, start) for start in system.starts()]
    theta = min(found, key=lambda theta: _loss(system, system.predicted(theta)[0], theta))
    return RateEffects(dict(zip(system.names, theta.tolist(), strict=True)))


def _descended(system: _System, start: Floats) -> Floats:
    """Levenberg and Marquardt's method, sections reweighted by Cauchy's loss."""
    theta, prior = start, system.prior**-2.0
    damping = 1e-3
    logs, slopes = system.predicted(theta)
    for _ in range(ROUNDS):
        off = (system.measured - logs) / system.sd
        weight = 1.0 / (1.0 + (off / TAILS) ** 2) / system.sd**2
        hessian = (slopes * weight[:, None]).T @ slopes + np.diag(prior)
        gradient = slopes.T @ (weight * (system.measured - logs)) - prior * theta
        best = _loss(system, logs, theta)
        while damping < 1e6:
            step = np.linalg.solve(hessian + damping * np.diag(np.diag(hessian)), gradient)
            tried = theta + np.clip(step, -1.0, 1.0)
            new_logs, new_slopes = system.predicted(tried)
            if _loss(system, new_logs, tried) <= best:
                break
            damping *= 4.0
        else:
            break
        moved = float(np.abs(tried - theta).max())
        theta, logs, slopes, damping = tried, new_logs, new_slopes, max(damping / 10.0, 1e-9)
        if moved < 1e-5:
            break
    return theta


def _loss(system: _System, logs: Floats, theta: Floats) -> float:
    """Cauchy's loss of the sections plus what the effects cost."""
    off = (system.measured - logs) / system.sd / TAILS
    return float(TAILS**2 * np.log1p(off**2).sum() + ((theta / system.prior) ** 2).sum())


def spread_of(errors: Sequence[float], prior_sd: float, prior_n: float) -> float:
    """Deviation of log time, from held-out errors and a prior worth `prior_n` of them."""
    return sqrt((sum(e * e for e in errors) + prior_n * prior_sd**2) / (len(errors) + prior_n))
