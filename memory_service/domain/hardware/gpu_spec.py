"""Data sheet of a GPU model: memory, bandwidth, arithmetic by precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""fp16 and bf16 mean automatic mixed precision with fp32 weights."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """A model of device, as its maker describes it.

    slug             canonical name, e.g. "a100" (= 40 GB SXM), "rtx3090", "cpu"
    aliases          other names people and drivers use, lower case
    kind             "cuda" | "mps" | "cpu"
    architecture     "pascal" | "volta" | "turing" | "ampere" | "ada" | "hopper" |
                     "blackwell" | "cdna2" | "cdna3" | "apple" | "x86"
    compute_capability  e.g. 8.0; None where there is none
    memory_gib       total as drivers report it; usable_gib: what a process can get (total - driver reserve)
    bandwidth_gb_s   device memory, 10^9 bytes per second
    tflops           dense (no sparsity) 10^12 FLOP/s by precision; a missing key means "not in hardware".
                     fp16/bf16/tf32 are tensor-core rates with fp32 accumulation where the card has them
    source           data sheet of each figure
    device           name of the registered device this stands for; "" for a GPU model as such
    """

    slug: str
    name: str
    kind: Literal["cuda", "mps", "cpu"]
    architecture: str
    memory_gib: float
    usable_gib: float
    bandwidth_gb_s: float
    tflops: Mapping[str, float]
    compute_capability: float | None = None
    aliases: tuple[str, ...] = ()
    sm_count: int | None = None
    l2_cache_mib: float | None = None
    tdp_w: float | None = None
    year: int | None = None
    source: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)
    device: str = ""

    @property
    def key(self) -> str:
        """What it is asked for by: the device's name, or the model's slug."""
        return self.device or self.slug

    @property
    def has_tensor_cores(self) -> bool:
        return self.kind == "cuda" and (self.compute_capability or 0.0) >= 7.0

    def preferred_precision(self) -> Precision:
        """bf16 where the hardware has it, fp16 on tensor cores before Ampere, else fp32."""
        if self.kind != "cuda":
            return "fp32"
        if "bf16" in self.tflops:
            return "bf16"
        return "fp16" if self.has_tensor_cores else "fp32"

    def supports(self, precision: str) -> bool:
        """Whether the precision runs in hardware on this device (fp32 always does)."""
        return precision == "fp32" or precision in self.tflops


AnyGpu = TypeVar("AnyGpu", bound=Gpu)
"""A data sheet, or a device above it: what comes in goes out."""
