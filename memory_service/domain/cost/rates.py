"""Achieved rates of a device by class of work: data sheet times efficiencies that depend on figures only.

An achieved rate grows with the peak, but slower (`scale_*` <= 1: wider tensor cores are harder to feed), and
is cut where the power limit cannot keep the clock (T4, L4, A10). Both laws only rise with every figure of the
data sheet, board power among them, so within an architecture, or going to a newer one, a card at least as
good in every figure is never slower.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.profile import OP_CLASSES
from memory_service.domain.cost.step_config import Stack
from memory_service.domain.hardware.gpu_spec import AnyGpu, Gpu

_FITTED = shipped_table(__package__, "efficiencies.toml")
COEFFICIENTS: dict[str, float] = _FITTED["coefficients"]
LOG_SPREAD: dict[str, float] = _FITTED["log_spread"]

REFERENCE_TFLOPS = {"fp16": 71.0, "tf32": 35.6, "fp32": 15.7}
"""Peaks at which the efficiencies are stated: RTX 3090 on tensor cores, V100 in fp32 (most public rows)."""

REFERENCE_GB_S = 936.0
"""Above it (stacked memory from the A100 on) eager kernels fill less and less of the bandwidth."""

FP32_TFLOPS_PER_WATT = {
    "pascal": 0.034, "volta": 0.056, "turing": 0.056, "ampere": 0.105, "ada": 0.22, "hopper": 0.22,
    "blackwell": 0.24,
}  # fmt: skip
"""Arithmetic a watt sustains, by process node: set from the two 70 W cards whose fp32 rows are public (T4:
half its peak; L4: half its peak) and kept above what cards that hold their clock need."""

TENSOR_PER_FP32_WATT = 7.0
"""A tensor-core FLOP costs about a seventh of the energy of an fp32 one (half for TF32)."""

MOST_HOST_GB_S = 205.0
"""Eight channels of DDR4-3200: what a server socket of 2019-2022 has."""

VOLUME_SHARE = 0.47
"""Of what tensor cores reach on pictures, in convolutions over volumes whose channels are first: 23 public
rows of nnU-Net at 128^3 (A100, Titan RTX, Quadro RTX 6000; in fp32, which loses nothing, Titan Xp; epochs
without their validation) are off by 6.3 %, p90 16 %, all inside. At 1 every step was a third too short. With
channels last nothing is, as NVIDIA's nnU-Net shows, twice as fast (`learning.measured_rows`)."""

PAGING_SHARE = 0.5
"""Of the bus's bandwidth that pages of unified memory reach at best (bitsandbytes, docs/source/explanations/
optimizers.mdx: 1 GB evicted in a step takes 125 ms over 16 GB/s)."""

CPU_FALLBACK = {"grouped_conv": 0.35, "depthwise_conv": 0.25}


@dataclass(frozen=True, slots=True)
class Rates:
    """Achieved rates of a device at one precision and layout.

    flops_per_second, bytes_per_second   by index of OP_CLASSES, at perfect tile fit
    kernel_seconds     what one launch costs beyond its arithmetic and bytes, in training
    inference_kernel_seconds   the same in a forward pass alone
    host_seconds       the least a launch takes on the host: step >= kernels x host_seconds, and in a forward
                       pass alone x kernel_seconds where those are more
    memory_bytes_per_second   plain streaming (optimizer)
    tile_power, group_power   how much of the lost tile is lost in time (0 none, 1 all)
    extrapolation      0 for cards like those measured; more for others (widens intervals)
    update_seconds_per_tensor   of the optimizer's step, beyond its bytes; None = one launch on the host
    log_spread         of the interval, where a calibration says it; None = of the data sheet
    n                  calibrations behind them
    paging_bytes_per_second   between the card's memory and the host's, of a paged optimizer
    volume_share       share of these rates that convolutions over volumes reach in this layout
    """

    flops_per_second: tuple[float, ...]
    bytes_per_second: tuple[float, ...]
    kernel_seconds: float
    inference_kernel_seconds: float
    host_seconds: float
    memory_bytes_per_second: float
    tile_power: float
    group_power: float
    extrapolation: float = 0.0
    basis: str = "data sheet x fitted efficiencies"
    update_seconds_per_tensor: float | None = None
    log_spread: float | None = None
    n: int = 0
    paging_bytes_per_second: float = float("inf")
    volume_share: float = 1.0


def sheet_rates(
    gpu: Gpu,
    precision: str,
    layout: str = "nhwc",
    stack: Stack = "torch2",
    coefficients: Mapping[str, float] = COEFFICIENTS,
) -> Rates:
    """Rates of a card (or CPU) by its data sheet.

    stack   "torch1": slow grouped and depthwise convolutions in nhwc, more cost per launch
    """
    if gpu.kind != "cuda":
        return _host_rates(gpu, coefficients)
    c = coefficients
    unit, peak = _matrix_peak(gpu, precision)
    sustained = REFERENCE_TFLOPS[unit] * (peak / REFERENCE_TFLOPS[unit]) ** c[f"scale.{unit}"]
    limit = _power_limit(gpu, unit)
    vector = _under_power(gpu.tflops["fp32"], _power_limit(gpu, "fp32"))
    bandwidth = _sustained_bandwidth(gpu.bandwidth_gb_s, c["scale.bandwidth"]) * 1e9
    convolutions = layout if precision in ("fp16", "bf16") else "plain"
    flops: list[float] = []
    moved: list[float] = []
    group_power = 0.0
    for name in OP_CLASSES:
        key = name
        if name.endswith("_conv"):
            key = f"{convolutions}.{name}"
            if stack == "torch1" and f"{key}.torch1" in c:
                key += ".torch1"
        if name == "grouped_conv":
            group_power = c[key + ".power"]
        if name == "elementwise":
            rate = vector
        elif name == "depthwise_conv":
            rate = c[key] * vector
        else:
            rate = _under_power(c.get(f"{key}.{unit}", c.get(key, 1.0)) * sustained, limit)
        flops.append(rate * 1e12)
        moved.append(c[_bytes_key(key, c)] * bandwidth)
    return Rates(
        flops_per_second=tuple(flops),
        bytes_per_second=tuple(moved),
        kernel_seconds=c[f"kernel_seconds.{stack}"],
        inference_kernel_seconds=c["kernel_seconds.infer"],
        host_seconds=c["host_seconds"],
        memory_bytes_per_second=c["elementwise.bytes"] * bandwidth,
        tile_power=c["tile_power"],
        group_power=group_power,
        extrapolation=_extrapolation(gpu),
        paging_bytes_per_second=PAGING_SHARE * gpu.pcie_gb_s * 1e9,
        volume_share=VOLUME_SHARE if unit == "fp16" and layout == "nchw" else 1.0,
    )


def _sustained_bandwidth(sheet_gb_s: float, exponent: float) -> float:
    """Linear up to the reference, to the power `exponent` <= 1 above it."""
    if sheet_gb_s <= REFERENCE_GB_S:
        return sheet_gb_s
    return float(REFERENCE_GB_S * (sheet_gb_s / REFERENCE_GB_S) ** exponent)


def _bytes_key(key: str, c: Mapping[str, float]) -> str:
    """Dense and 1x1 convolutions of a layout share one figure."""
    own = f"{key}.bytes"
    return own if own in c else f"{key.split('.', maxsplit=1)[0]}.conv.bytes"


_CORES = re.compile(r"\b\d+ cores\b")
"""Of the name: a processor's row is called after the cores it has."""


def with_cores(gpu: AnyGpu, cores: int | None) -> AnyGpu:
    """A processor row with as many cores as there really are; cards and rows that do not say stay as is.

    Arithmetic grows with the cores; bandwidth does too until the memory channels of the row are shared out.
    """
    stated = gpu.cores
    if cores is None or stated is None or cores == stated:
        return gpu
    share = cores / stated
    bandwidth = min(gpu.bandwidth_gb_s * share, max(gpu.bandwidth_gb_s, MOST_HOST_GB_S))
    return replace(
        gpu,
        name=_CORES.sub(f"{cores} cores", gpu.name),
        tflops={name: peak * share for name, peak in gpu.tflops.items()},
        bandwidth_gb_s=bandwidth,
        extra={**gpu.extra, "cores": cores},
    )


def _matrix_peak(gpu: Gpu, precision: str) -> tuple[str, float]:
    """(kind of unit, dense TFLOP/s): a precision that is not in hardware runs at the fp32 rate."""
    if precision in ("fp16", "bf16"):
        peak = gpu.tflops.get(precision) or (gpu.tflops.get("fp16") if precision == "bf16" else None)
        if (peak and gpu.has_tensor_cores) or (peak and gpu.compute_capability is None):
            return "fp16", peak
    if precision == "tf32" and gpu.tflops.get("tf32"):
        return "tf32", gpu.tflops["tf32"]
    return "fp32", gpu.tflops["fp32"]


def _power_limit(gpu: Gpu, kind: str) -> float:
    """TFLOP/s that the board's power sustains; infinity where the power is not known."""
    if gpu.tdp_w is None or gpu.architecture not in FP32_TFLOPS_PER_WATT:
        return float("inf")
    factor = {"fp32": 1.0, "tf32": TENSOR_PER_FP32_WATT / 2, "fp16": TENSOR_PER_FP32_WATT}[kind]
    return gpu.tdp_w * FP32_TFLOPS_PER_WATT[gpu.architecture] * factor


def _under_power(rate: float, limit: float) -> float:
    """Both limits at once, smoothly: rises with either."""
    if limit == float("inf"):
        return rate
    return float((rate**-3.0 + limit**-3.0) ** (-1.0 / 3.0))


EXTRAPOLATION = {6.0: 0.10, 6.1: 0.12, 7.0: 0.05, 7.5: 0.06, 8.0: 0.08, 8.6: 0.05, 8.9: 0.08, 9.0: 0.14}
"""Added to the log interval by compute capability: how far a card is from those with public rows."""


def _extrapolation(gpu: Gpu) -> float:
    if gpu.compute_capability is None:
        return 0.3
    return 0.0 if gpu.slug == "rtx3090" else EXTRAPOLATION.get(gpu.compute_capability, 0.2)


def _host_rates(gpu: Gpu, c: Mapping[str, float]) -> Rates:
    """CPU and Apple: one efficiency for products, less for grouped work; everything else by bandwidth."""
    prefix = "cpu" if gpu.kind == "cpu" else "mps"
    peak = gpu.tflops["fp32"] * 1e12
    bandwidth = gpu.bandwidth_gb_s * 1e9
    return Rates(
        flops_per_second=tuple(c[f"{prefix}.flops"] * CPU_FALLBACK.get(n, 1.0) * peak for n in OP_CLASSES),
        bytes_per_second=tuple(c[f"{prefix}.bytes"] * bandwidth for _ in OP_CLASSES),
        kernel_seconds=c[f"{prefix}.kernel_seconds"],
        inference_kernel_seconds=c[f"{prefix}.kernel_seconds"],
        host_seconds=0.0,
        memory_bytes_per_second=c[f"{prefix}.bytes"] * bandwidth,
        tile_power=0.0,
        group_power=0.0,
        extrapolation=0.5,
        basis="cores x measured efficiency" if gpu.kind == "cpu" else "data sheet x assumed efficiency",
    )
