"""Data sheet of a GPU model (memory, bandwidth, arithmetic by precision), and the names that people and
drivers use for it ("NVIDIA A100-SXM4-40GB", "a100", "Tesla T4")."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from memory_service.domain.hardware.device_names import (
    MOST_CARDS,
    counted,
    memory_beside,
    neighbours,
    no_card,
    normal_gpu_name,
    without_platform,
)  # fmt: skip
from memory_service.errors import unknown_name, wrong_value

__all__ = ["MOST_CARDS", "Gpu", "counted", "gpu_from_row", "gpu_index", "normal_gpu_name", "resolve_gpu"]

Precision = Literal["fp32", "tf32", "fp16", "bf16"]
"""fp16 and bf16 mean automatic mixed precision with fp32 weights."""

PCIE_GB_S = {"pascal": 15.75, "volta": 15.75, "turing": 15.75, "ampere": 31.5, "ada": 31.5, "hopper": 63.0,
             "blackwell": 63.0}  # fmt: skip
"""One direction of sixteen lanes of generation 3, 4 and 5."""


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
    def cores(self) -> int | None:
        """Of a processor, what its figures are of; None where they do not say, and of a card."""
        cores = self.extra.get("cores")
        return cores if self.kind == "cpu" and isinstance(cores, int) else None

    @property
    def pcie_gb_s(self) -> float:
        """To the host, one direction."""
        return PCIE_GB_S.get(self.architecture, 15.75)

    @property
    def has_tensor_cores(self) -> bool:
        return self.kind == "cuda" and (self.compute_capability or 0.0) >= 7.0 and "fp16" in self.tflops

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


def gpu_from_row(row: Mapping[str, Any]) -> Gpu:
    """A Gpu from a row of `seeds/gpus.jsonl` or of the store; columns that are not a Gpu's are left.

    InvalidInput without a rate of fp32, which every prediction rests on."""
    if "fp32" not in row["tflops"]:
        raise wrong_value("tflops", "needs fp32, in 10^12 FLOP/s", row["tflops"])
    fields = {key: row[key] for key in Gpu.__slots__ if key in row}
    fields["aliases"] = tuple(row.get("aliases") or ())
    fields["tflops"] = dict(row["tflops"])
    fields["extra"] = dict(row.get("extra") or {})
    return Gpu(**fields)


def gpu_index(gpus: Mapping[str, Gpu]) -> dict[str, str]:
    """Normalised slug, name or alias of a GPU model -> slug. A slug wins over a name, a name over an alias;
    a device goes by its own name alone."""
    gpus = {slug: gpu for slug, gpu in gpus.items() if not gpu.device}
    index: dict[str, str] = {}
    for names in (
        ((slug, slug) for slug in gpus),
        ((gpu.name, slug) for slug, gpu in gpus.items()),
        ((alias, slug) for slug, gpu in gpus.items() for alias in gpu.aliases),
    ):
        for name, slug in names:
            index.setdefault(normal_gpu_name(name), slug)
    return index


UNKNOWN_GPU, VAGUE_GPU = "unknown gpu", "names no card"
"""How it begins why a name is refused that is no card's, nor a part of one, and one that says no card."""

_NUMBER = re.compile(r"\d{3,4}")
_SAME_MEMORY = 0.08
"""What drivers report is up to so much less than the maker's figure: error correction takes a sixteenth."""


def resolve_gpu(name: str, gpus: Mapping[str, AnyGpu]) -> AnyGpu:
    """The card a name means; case, spaces, hyphens, underscores and the maker's name do not matter, and the
    memory that stands beside it ("RTX 3080, 12288 MiB") says which of two cards of one name it is.

    `a100` is the 40 GB one. Raises InvalidInput with what comes near in memory and generation; a laptop's
    chip, a MIG slice and a virtual GPU are refused rather than taken for the whole card.
    """
    if name in gpus:
        return gpus[name]
    index = gpu_index(gpus)
    if (slug := index.get(normal_gpu_name(name))) is not None:
        return gpus[slug]
    if (other := no_card(name, index)) is not None:
        raise wrong_value("gpu", other[0], name, detail=f"gpu {name!r} {other[0]}", nearest=other[1])
    shown, gib = memory_beside(without_platform(name))
    plain = normal_gpu_name(shown)
    slugs = (index.get(each) for each in (f"{plain}{gib or 0:.0f}gb", plain))
    found = [gpus[slug] for slug in slugs if slug]
    for card in found:
        if gib is None or abs(card.memory_gib - gib) <= _SAME_MEMORY * gib:
            return card
    if found:
        card = found[-1]
        why = f"has {card.memory_gib:g} GiB: ask `/recommend` for gpu={card.key} with vram_gib={gib:.3g}"
        raise wrong_value("gpu", why, name, detail=f"gpu {name!r}: {card.key} {why}")
    near = neighbours(name, {each.slug: (each.architecture, each.memory_gib) for each in gpus.values()})
    like = " in memory and generation" if near else ""
    if not near:
        numbered = [slug for slug in gpus if {*_NUMBER.findall(plain)} & {*_NUMBER.findall(slug)}]
        spelled = unknown_name("gpu", plain, list(gpus), cutoff=0.7).errors[0].nearest
        near = tuple(dict.fromkeys((*spelled[:3], *numbered[:2])))
    detail = f"Unknown gpu {name[:80]!r}" + (f"; nearest{like}: {', '.join(near)}" if near else "")
    raise wrong_value("gpu", UNKNOWN_GPU, name[:80], detail=detail, nearest=near)


def two_memories(name: str, gpu: Gpu, index: Mapping[str, str], gpus: Mapping[str, Gpu]) -> str:
    """What to say where cards of several memories bear the name and it does not tell which; else nothing."""
    base = re.sub(r" \d+ ?GB$", "", gpu.name)
    named = re.compile(normal_gpu_name(base) + r"(\d{1,2}gb)?")
    alike = {slug: gpus[slug] for key, slug in index.items() if named.fullmatch(key)}
    if gpu.device or len(alike) < 2 or memory_beside(name)[1] or re.search(r"PCIe|SXM", base):
        return ""
    sizes = sorted((math.ceil(each.memory_gib), each.slug) for each in alike.values())
    listed = " and ".join(f"{gib} GB ({slug})" for gib, slug in sizes)
    return f"Cards of {listed} are called {base}: {gpu.slug} was taken; say which one it is."
