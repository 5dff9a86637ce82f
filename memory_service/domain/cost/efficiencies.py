"""Share of a card's peak rates that real training reaches; written by `python benchmarks/fit_rates.py
--write`."""

COEFFICIENTS: dict[str, float] = {
    "host_seconds": 6e-06, "scale.fp16": 0.87, "scale.tf32": 0.87, "scale.fp32": 0.9, "cpu.flops": 0.75,
    "cpu.bytes": 0.75, "cpu.kernel_seconds": 1e-05, "mps.flops": 0.5, "mps.bytes": 0.7,
    "mps.kernel_seconds": 3e-05, "nhwc.dense_conv": 0.909, "nhwc.pointwise_conv": 0.724,
    "nhwc.conv.bytes": 0.922, "nhwc.grouped_conv": 0.972, "nhwc.grouped_conv.bytes": 0.679,
    "nhwc.grouped_conv.power": 0.964, "nhwc.depthwise_conv": 0.0718, "nhwc.depthwise_conv.bytes": 0.944,
    "nhwc.grouped_conv.torch1": 0.0489, "nhwc.grouped_conv.torch1.bytes": 0.2,
    "nhwc.grouped_conv.torch1.power": 0.201, "nhwc.depthwise_conv.torch1": 0.0913,
    "nhwc.depthwise_conv.torch1.bytes": 0.297, "nchw.dense_conv": 0.658, "nchw.pointwise_conv": 0.994,
    "nchw.conv.bytes": 0.22, "nchw.grouped_conv": 0.341, "nchw.grouped_conv.bytes": 0.124,
    "nchw.grouped_conv.power": 0.451, "nchw.depthwise_conv": 0.125, "nchw.depthwise_conv.bytes": 0.21,
    "plain.dense_conv.fp32": 1.91, "plain.pointwise_conv.fp32": 0.776, "plain.dense_conv.tf32": 0.791,
    "plain.pointwise_conv.tf32": 0.806, "plain.conv.bytes": 0.357, "plain.grouped_conv": 0.166,
    "plain.grouped_conv.bytes": 0.299, "plain.grouped_conv.power": 0.113, "plain.depthwise_conv": 0.0859,
    "plain.depthwise_conv.bytes": 0.176, "matmul.fp16": 1, "matmul.tf32": 0.672, "matmul.fp32": 0.812,
    "matmul.bytes": 0.42, "attention.fp16": 0.985, "attention.tf32": 0.6, "attention.fp32": 0.6,
    "attention.bytes": 0.962, "elementwise.bytes": 1, "kernel_seconds.torch1": 2.24e-05,
    "kernel_seconds.torch2": 1.18e-05, "kernel_seconds.infer": 2.65e-07, "scale.bandwidth": 0.728,
    "tile_power": 0.996,
}  # fmt: skip
"""`<layout>.<class>`: share of the sustained peak; `.bytes`: share of the bandwidth; `.power`, `scale.`:
exponents; the rest seconds."""

LOG_SPREAD: dict[str, float] = {"low": 0.126, "high": 0.178, "grouped": 0.4}
"""10th and 90th percentile of log(measured / predicted time), midway between families fitted and
held out; grouped: added for a step made of grouped convolutions alone."""
