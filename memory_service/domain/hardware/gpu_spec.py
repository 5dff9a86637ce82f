"""Data sheet of a GPU model (memory, bandwidth, arithmetic by precision), and the names that people and
drivers use for it ("NVIDIA A100-SXM4-40GB", "a100", "Tesla T4")."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, TypeVar

from memory_service.errors import unknown_name, wrong_value

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


MOST_CARDS = 64
"""Of one plan or prediction."""

_MAKERS = ("nvidia", "geforce", "tesla", "graphics", "amd", "instinct", "corporation")


@lru_cache(maxsize=4096)
def normal_gpu_name(name: str) -> str:
    """The name without maker, punctuation, case or a count: what two spellings of one card share.

    "NVIDIA GeForce RTX 3090" -> "rtx3090", "v100-sxm(8x)" -> "v100sxm", "Tesla T4" -> "t4".
    """
    text = re.sub(r"\(\s{0,3}(?:x\s{0,3}\d{1,4}|\d{1,4}\s{0,3}x)\s{0,3}\)", " ", name.strip().lower())
    text = re.sub(r"\((?:r|tm)\)|[®™]", " ", text)
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word not in _MAKERS]
    if words and words[-1] == "gpu" and "laptop" not in words:
        words.pop()
    return "".join(words)


_COUNT = re.compile(r"^\s*(\d{1,3})\s*[x×]\s*(?=[a-zA-Z])", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"\s[x×]\s?(\d{1,3})\s?$", re.IGNORECASE)


def counted(name: str) -> tuple[int, str]:
    """How many cards a name means, and of which: "2xt4" and "t4 x2" -> (2, "t4"), "a100" -> (1, "a100").

    InvalidInput for none and for more than a box holds.
    """
    found = _COUNT.match(name) or _COUNT_BEHIND.search(name)
    if found is None:
        return 1, name
    n = int(found[1])
    if not 1 <= n <= MOST_CARDS:
        raise wrong_value("gpu", f"must be between 1 and {MOST_CARDS} cards", name)
    return n, name[: found.start()] + name[found.end() :]


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
    """Normalised slug, name or alias -> slug. A slug wins over a name, a name over an alias."""
    index: dict[str, str] = {}
    for names in (
        ((slug, slug) for slug in gpus),
        ((gpu.name, slug) for slug, gpu in gpus.items()),
        ((alias, slug) for slug, gpu in gpus.items() for alias in gpu.aliases),
    ):
        for name, slug in names:
            index.setdefault(normal_gpu_name(name), slug)
    return index


_NO_CARD = frozenset(("", "none", "no", "null", "na", "unknown", "without", "nothing", "cpuonly"))
"""Normalised names of no card at all."""


def resolve_gpu(name: str, gpus: Mapping[str, AnyGpu]) -> AnyGpu:
    """The card a name means; case, spaces, hyphens, underscores and the maker's name do not matter.

    `a100` is the 40 GB one. Raises InvalidInput with the nearest names; a laptop's or a MIG slice's name is
    refused rather than taken for the whole card.
    """
    if name in gpus:
        return gpus[name]
    plain = normal_gpu_name(name)
    slug = gpu_index(gpus).get(plain)
    if slug is None and plain in _NO_CARD:
        detail = (
            f"Unknown gpu {name!r}: say `cpu` where there is none, else the card's name as its driver says it"
        )
        raise wrong_value("gpu", "unknown gpu", name, detail=detail, nearest=("cpu",))
    if slug is None:
        refusal = unknown_name("gpu", name, list(gpus))
        raise refusal if refusal.errors[0].nearest else unknown_name("gpu", plain, list(gpus))
    return gpus[slug]
