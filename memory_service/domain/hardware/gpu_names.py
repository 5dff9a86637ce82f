"""Resolves the names of GPUs that people and drivers use ("NVIDIA A100-SXM4-40GB", "a100", "Tesla T4")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from memory_service.domain.hardware.gpu_spec import AnyGpu, Gpu
from memory_service.errors import unknown_name, wrong_value

MOST_CARDS = 64
"""Of one plan or prediction."""

_MAKERS = ("nvidia", "geforce", "tesla", "graphics", "amd", "instinct", "corporation")


@lru_cache(maxsize=4096)
def normal_gpu_name(name: str) -> str:
    """The name without maker, punctuation, case or a count: what two spellings of one card share.

    "NVIDIA GeForce RTX 3090" -> "rtx3090", "v100-sxm(8x)" -> "v100sxm", "Tesla T4" -> "t4".
    """
    text = re.sub(r"\(\s*(?:x\s*\d+|\d+\s*x)\s*\)", " ", name.strip().lower())
    text = re.sub(r"\((?:r|tm)\)|[®™]", " ", text)
    words = [word for word in re.split(r"[^a-z0-9]+", text) if word not in _MAKERS]
    if words and words[-1] == "gpu" and "laptop" not in words:
        words.pop()
    return "".join(words)


_COUNT = re.compile(r"^\s*(\d{1,3})\s*[x×]\s*(?=[a-zA-Z])", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"\s+[x×]\s*(\d{1,3})\s*$", re.IGNORECASE)


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


def resolve_gpu(name: str, gpus: Mapping[str, AnyGpu]) -> AnyGpu:
    """The card a name means; case, spaces, hyphens, underscores and the maker's name do not matter.

    `a100` is the 40 GB one. Raises InvalidInput with the nearest names; a laptop's or a MIG slice's name is
    refused rather than taken for the whole card.
    """
    if name in gpus:
        return gpus[name]
    plain = normal_gpu_name(name)
    slug = gpu_index(gpus).get(plain)
    if slug is None:
        refusal = unknown_name("gpu", name, list(gpus))
        raise refusal if refusal.errors[0].nearest else unknown_name("gpu", plain, list(gpus))
    return gpus[slug]
