"""The figures that a calibration measures, and the work behind each.

A probe's name is stable, so that a stored measurement can be read again: its work (operations, bytes,
launches) is counted here as the tracer counts it, and a rate follows from the measured time without any
hardware.
    probes("cuda", ("fp32", "tf32", "bf16"), cores=16)   what is to be measured, most useful first
    probe_of("cpu", "conv.dense28.fp32.nchw.b32")        the probe behind a stored name, or None
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from memory_service.domain.calibration import probe_shapes as shapes

Kind = Literal["cuda", "mps", "cpu"]
Unit = Literal["ms", "us", "s", "TFLOP/s", "GB/s", "GiB", "images/s", "ratio", "MHz", "C"]

PRECISIONS: Mapping[str, tuple[str, ...]] = {
    "cuda": ("fp32", "tf32", "fp16", "bf16"),
    "mps": ("fp32", "fp16", "bf16"),
    "cpu": ("fp32", "bf16"),
}
"""What a kind of device may have; a calibration is given those of its device."""

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Probe:
    """One figure of a calibration.

    section        figures measured by one child process; sections run in the order of `probes`
    unit           of the measured value; `seconds` turns a value into the time of one repetition
    op_class       of `domain.cost.profile.OP_CLASSES`; "" for what is no single class (steps, memory, host)
    phase          "forward" | "train" (forward, backward; of a step also the optimizer) | ""
    flops, bytes, kernels   of one repetition, counted as `measure/live_memory.py` counts a profile's
    tile_fit       useful share of padded tensor-core tiles, harmonic mean over the products of a repetition
    group_width    channels per group of a grouped convolution, else 0
    facts          the rest: shapes for the runner, rows and columns, workers, network, image size; "of" = the
                   probe whose measurement brings this one with it
    """

    name: str
    section: str
    unit: Unit
    op_class: str = ""
    precision: str = ""
    layout: str = ""
    phase: str = ""
    batch: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    kernels: int = 0
    tile_fit: float = 1.0
    group_width: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    def seconds(self, value: float) -> float:
        """Seconds of one repetition for a measured value > 0; ValueError where the unit is no time."""
        if self.unit == "TFLOP/s":
            return self.flops / (value * 1e12)
        if self.unit == "GB/s":
            return self.bytes / (value * 1e9)
        scale = {"ms": 1e-3, "us": 1e-6, "s": 1.0}.get(self.unit)
        if scale is None:
            raise ValueError(f"{self.name} is measured in {self.unit}, which is no time")
        return value * scale


def probes(kind: Kind, precisions: Sequence[str], cores: int) -> tuple[Probe, ...]:
    """Everything a calibration of such a device measures, most useful first; a section's probes are together.

    precisions   that the hardware has, of PRECISIONS[kind]
    cores        of the host: how many loader workers are tried
    """
    return tuple(_all(kind, tuple(p for p in PRECISIONS[kind] if p in precisions or p == "fp32"), cores))


def probe_of(kind: str, name: str) -> Probe | None:
    """The probe behind a section name of a stored calibration; None for a name that none has."""
    return _by_name(kind).get(name) if kind in PRECISIONS else None


def can_be_missing(kind: str, name: str) -> bool:
    """Whether a calibration of such a device may tell why it lacks this: a probe, or a whole section."""
    return probe_of(kind, name) is not None or (kind in PRECISIONS and name in _sections(kind))


def worker_counts(cores: int) -> tuple[int, ...]:
    """Loader workers that are tried: 0, 1, 2, 4, ... up to the cores, the cores themselves included."""
    doubling = [2**i for i in range(12) if 2**i < cores]
    return (0, *doubling, max(cores, 1))


@lru_cache(maxsize=8)
def _by_name(kind: Kind) -> Mapping[str, Probe]:
    found = {probe.name: probe for probe in _all(kind, PRECISIONS[kind], 1)}
    for precision in PRECISIONS[kind]:
        for layout in ("nchw", "nhwc"):
            batches = shapes.OF_KIND[kind]["batches"]
            section = [*_convs(kind, precision, layout, tuple(shapes.CONVS), batches, "all")]
            for net in shapes.REFERENCE_NETS[kind]:
                section += _steps(kind, net, precision, layout)
                section += _large_steps(kind, net, precision, layout)
            for probe in section:
                found.setdefault(probe.name, probe)
        for probe in (*_linears(precision), *_attention(kind, precision)):
            found.setdefault(probe.name, probe)
    for workers in range(513):
        found.setdefault(f"loader.workers{workers}", _loader(workers))
    return found


@lru_cache(maxsize=8)
def _sections(kind: Kind) -> frozenset[str]:
    return frozenset(probe.section for probe in _by_name(kind).values())


def _all(kind: Kind, precisions: Sequence[str], cores: int) -> Iterator[Probe]:
    halves = [p for p in ("bf16", "fp16") if p in precisions and kind == "cuda"]
    main = halves[0] if halves else "fp32"  # what people train in on such a device
    usual, other = ("nhwc", "nchw") if kind == "cuda" else ("nchw", "nhwc")
    first, second = shapes.OF_KIND[kind]["batches"]
    dense = tuple(name for name, c in shapes.CONVS.items() if c.op_class in ("dense_conv", "pointwise_conv"))
    thin = tuple(name for name, c in shapes.CONVS.items() if c.op_class in ("depthwise_conv", "grouped_conv"))
    yield Probe("launch.us", "launch", "us", "elementwise", "fp32", phase="forward", kernels=1)
    yield Probe("launch.train_us", "launch", "us", "elementwise", "fp32", phase="train", kernels=1)
    yield Probe("launch.adamw_us", "launch", "us", phase="train", facts={"tensors": 1})
    yield from _memory(kind)
    yield from _matmuls(kind, main)
    yield from _linears(main)
    if kind == "cpu":
        yield from _trees()
    yield from _networks(kind, main, usual, late=False)
    yield from _streams(kind)
    yield from _convs(kind, main, usual, dense, (second, first), "dense")
    yield from (_loader(workers) for workers in worker_counts(cores))
    yield from _convs(kind, main, usual, thin, (second, first), "thin")
    yield from _networks(kind, main, usual, late=True)
    if kind != "cpu":
        yield from _trees()
    yield from _attention(kind, main)
    yield from _convs(kind, main, other, (*dense, *thin), (second,), "all")
    for precision in precisions:
        if precision != main:
            yield from _matmuls(kind, precision)
    if kind == "cuda":
        yield from _host()
        for precision in ("fp32", "tf32"):
            if precision in precisions and precision != main:
                yield from _convs(kind, precision, "nchw", (*dense, *thin), (first,), "all")
                yield from _convs(kind, precision, "nhwc", (*dense, *thin), (first,), "all")
                yield from _attention(kind, precision)
    yield from _sustained(kind)
    yield from _convs(kind, main, other, (*dense, *thin), (first,), "few")
    for net in shapes.REFERENCE_NETS[kind]:
        if net.name != "vit":
            yield from _steps(kind, net, main, other)


def _memory(kind: str) -> Iterator[Probe]:
    if kind == "cuda":
        yield Probe("memory.context_gib", "memory", "GiB")
        for name in ("conv_gib", "matmul_gib"):
            yield Probe(f"memory.{name}", "memory", "GiB", facts={"of": "memory.context_gib"})
    yield Probe("memory.process_gib", "memory.process", "GiB")


def _matmuls(kind: str, precision: str) -> Iterator[Probe]:
    for size in shapes.OF_KIND[kind]["squares"]:
        yield _matmul(precision, str(size), size, size, size)
    for rows, reduced, columns in shapes.OF_KIND[kind]["products"]:
        yield _matmul(precision, f"{rows}x{reduced}x{columns}", rows, reduced, columns)


def _matmul(precision: str, label: str, rows: int, reduced: int, columns: int) -> Probe:
    moved = _width(precision) * (rows * reduced + reduced * columns + rows * columns)
    return Probe(
        f"matmul.{precision}.{label}", f"matmul.{precision}", "TFLOP/s", "matmul", precision, phase="forward",
        flops=2.0 * rows * reduced * columns, bytes=float(moved), kernels=1,
        tile_fit=tile_share(rows, 64) * tile_share(columns, 64) * tile_share(reduced, 32),
        facts={"rows": rows, "reduced": reduced, "columns": columns},
    )  # fmt: skip


def _linears(precision: str) -> Iterator[Probe]:
    for batch, inputs, outputs in shapes.LINEARS:
        tensors = _width(precision) * (batch * inputs + inputs * outputs + batch * outputs)
        fits = (
            tile_share(outputs, 64) * tile_share(inputs, 32),
            tile_share(inputs, 64) * tile_share(outputs, 32),
            tile_share(inputs, 64) * tile_share(outputs, 64),
        )  # fmt: skip
        yield Probe(
            f"linear.{precision}.{batch}x{inputs}x{outputs}", f"linear.{precision}", "ms", "matmul",
            precision, phase="train", batch=batch, flops=6.0 * batch * inputs * outputs,
            bytes=3.0 * tensors + _width(precision) * batch * outputs, kernels=4, tile_fit=_harmonic(fits),
            facts={"inputs": inputs, "outputs": outputs},
        )  # fmt: skip


def _convs(
    kind: str, precision: str, layout: str, names: Sequence[str], batches: Sequence[int], share: str
) -> Iterator[Probe]:
    section = f"conv.{share}.{precision}.{layout}"
    for batch in batches:
        for name in names:
            conv = shapes.CONVS[name]
            probe = _conv(name, conv, section, precision, layout, batch)
            yield probe
            if batch == max(shapes.OF_KIND[kind]["batches"]):
                yield Probe(
                    f"{probe.name}.workspace_gib", section, "GiB", conv.op_class, precision, layout, "train",
                    batch, facts={"of": probe.name},
                )  # fmt: skip


def _conv(name: str, conv: shapes.Conv, section: str, precision: str, layout: str, batch: int) -> Probe:
    pixels = conv.side * conv.side
    weight = conv.filters * (conv.channels // conv.groups) * conv.kernel**2
    tensors = batch * pixels * (conv.channels + conv.filters) + weight
    products = 1 + conv.wanted
    wide, narrow, area = conv.filters // conv.groups, conv.channels // conv.groups, conv.kernel**2
    forward = tile_share(wide, 64) * tile_share(narrow * area, 32)
    backward = tile_share(narrow, 64) * tile_share(wide * area, 32)
    fits = (forward, forward, backward)[:products] if conv.op_class != "depthwise_conv" else (1.0,)
    return Probe(
        f"conv.{name}.{precision}.{layout}.b{batch}", section, "ms", conv.op_class, precision, layout,
        "train", batch, flops=2.0 * products * batch * pixels * weight,
        bytes=float(products * _width(precision) * tensors), kernels=products, tile_fit=_harmonic(fits),
        group_width=min(wide, narrow) if conv.op_class == "grouped_conv" else 0,
        facts={"channels": conv.channels, "filters": conv.filters, "kernel": conv.kernel,
               "groups": conv.groups, "side": conv.side, "input_gradient": conv.wanted == 2},
    )  # fmt: skip


def _attention(kind: str, precision: str) -> Iterator[Probe]:
    heads = shapes.OF_KIND[kind]["attention_heads"]
    for length in shapes.ATTENTION_LENGTHS:
        batch = shapes.OF_KIND[kind]["attention_tokens"] // length
        tensor = _width(precision) * batch * heads * length * shapes.HEAD_WIDTH
        yield Probe(
            f"attention.{precision}.{length}", f"attention.{precision}", "ms", "attention", precision,
            phase="train", batch=batch, flops=3.5 * 4.0 * batch * heads * length**2 * shapes.HEAD_WIDTH,
            bytes=12.0 * tensor, kernels=3,
            facts={"length": length, "heads": heads, "head_width": shapes.HEAD_WIDTH},
        )  # fmt: skip


def _streams(kind: str) -> Iterator[Probe]:
    """`bandwidth.<operation>` on large arrays, `.8mib` on small ones; batch norm in both layouts."""
    large = shapes.FEW_STREAMS if kind == "cpu" else tuple(shapes.STREAMS)
    small = tuple(shapes.STREAMS) if kind == "cpu" else shapes.FEW_STREAMS
    for size in shapes.OF_KIND[kind]["small_mib"]:
        yield from _streams_at(size, f".{size}mib", small)
    yield _adamw(kind)
    yield from _streams_at(shapes.OF_KIND[kind]["large_mib"], "", large)


def _streams_at(mib: int, suffix: str, names: Sequence[str]) -> Iterator[Probe]:
    for name in names:
        moved, kernels, phase = shapes.STREAMS[name]
        layouts = ("nchw", "nhwc") if name in ("batchnorm", "maxpool") else ("",)
        for layout in layouts:
            label = f"{name}.{layout}" if layout else name
            yield Probe(
                f"bandwidth.{label}{suffix}", f"bandwidth{suffix}", "GB/s", "elementwise", "fp32", layout,
                phase, bytes=moved * mib * MIB, kernels=kernels,
                facts={"operation": name, "array_bytes": mib * MIB, "in_cache": bool(suffix)},
            )  # fmt: skip


def _adamw(kind: str) -> Probe:
    params = shapes.OF_KIND[kind]["large_mib"] * MIB // 8
    return Probe(
        "bandwidth.adamw", "bandwidth", "GB/s", precision="fp32", phase="train",
        bytes=shapes.ADAMW_BYTES_PER_PARAM * params,
        facts={"operation": "adamw", "params": params, "tensors": 8},
    )  # fmt: skip


def _networks(kind: str, precision: str, layout: str, *, late: bool) -> Iterator[Probe]:
    """Late: the one with depthwise convolutions on a card, where cuDNN takes half a second for each shape."""
    nets = [n for n in shapes.REFERENCE_NETS[kind] if (kind == "cuda" and n.name == "mobile") == late]
    for net in nets:
        yield from _steps(kind, net, precision, layout)
    for net in nets:
        yield from _large_steps(kind, net, precision, layout)


def _large_steps(kind: str, net: shapes.ReferenceNet, precision: str, layout: str) -> Iterator[Probe]:
    """In a section of its own: a small card lacks the memory, a slow one the time."""
    if kind == "cuda" and net.name in shapes.LARGE_BATCH_NETS:
        yield from _steps(kind, replace(net, batches=(shapes.LARGE_BATCH,)), precision, layout, ".large")


def _steps(
    kind: str, net: shapes.ReferenceNet, precision: str, layout: str, suffix: str = ""
) -> Iterator[Probe]:
    section = f"step.{net.name}.{precision}.{layout}{suffix}"
    for batch in net.batches:
        name = f"step.{net.name}.{precision}.{layout}.b{batch}"
        facts = {"net": net.name, "model": net.model, "image_size": net.image_size, "width": net.width,
                 "n_outputs": net.n_outputs, "optimizer": "adamw"}  # fmt: skip
        yield Probe(name, section, "ms", "", precision, layout, "train", batch, facts=facts)
        driver = ("reserved_gib", "driver_gib") if kind == "cuda" else ()
        for sense in ("first_peak_gib", "steady_peak_gib", *driver):
            of = {**facts, "of": name}
            yield Probe(f"{name}.{sense}", section, "GiB", "", precision, layout, "train", batch, facts=of)


def _sustained(kind: str) -> Iterator[Probe]:
    facts = {"net": shapes.REFERENCE_NETS[kind][0].name}
    yield Probe("sustained.ratio", "sustained", "ratio", facts=facts)
    if kind == "cuda":
        sampled = {**facts, "of": "sustained.ratio"}
        yield Probe("sustained.clock_mhz", "sustained", "MHz", facts=sampled)
        yield Probe("sustained.temperature_c", "sustained", "C", facts=sampled)


def _loader(workers: int) -> Probe:
    facts = {"workers": workers, "stored_side": shapes.STORED_SIDE, "output_side": shapes.OUTPUT_SIDE}
    return Probe(f"loader.workers{workers}", "loader", "images/s", facts=facts)


def _host() -> Iterator[Probe]:
    for name, pinned in (("h2d_gb_s", True), ("h2d_pageable_gb_s", False)):
        yield Probe(f"host.{name}", "host", "GB/s", bytes=64.0 * MIB, facts={"pinned": pinned})


def _trees() -> Iterator[Probe]:
    """Seconds per tree after binning, and of the binning itself."""
    for rows, columns in shapes.TREES:
        facts = {"rows": rows, "columns": columns, "leaves": shapes.TREE_LEAVES, "rounds": 1}
        yield Probe(f"trees.{rows}x{columns}", "trees", "s", facts=facts)
        binning = {**facts, "rounds": 0, "of": f"trees.{rows}x{columns}"}
        yield Probe(f"trees.{rows}x{columns}.binning", "trees", "s", facts=binning)


def _width(precision: str) -> int:
    """Bytes of one value."""
    return 2 if precision in ("fp16", "bf16") else 4


def tile_share(size: int, tile: int) -> float:
    """The useful share of a dimension padded to whole tiles."""
    return size / (-(-size // tile) * tile)


def _harmonic(fits: Sequence[float]) -> float:
    """Of products of equal work: padded work is the sum of each one's."""
    return len(fits) / sum(1.0 / fit for fit in fits)
