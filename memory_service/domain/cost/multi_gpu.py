"""Several cards in one box: what exchanging gradients costs a step, and what each card holds for it.

Every card trains its own batch (DistributedDataParallel); gradients are summed in a ring, 2 (n - 1) / n of
their bytes past each link, while the backward pass still runs. Bandwidths are those of the data sheets, one
direction, times what NCCL reaches of them; checked on public scaling tables (docs/methods/accuracy.md).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.profile import PeakPoint, Profile
from memory_service.domain.cost.step_time import StepModel
from memory_service.domain.hardware.gpu_spec import Gpu
from memory_service.errors import wrong_value

Link = Literal["nvlink", "pcie"]

NVLINK_GB_S = {"pascal": 80.0, "volta": 150.0, "ampere": 300.0, "hopper": 450.0, "blackwell": 900.0}
"""One direction a card, of its data sheet: NVLink 1 to 5."""

REACHED = {"nvlink": 0.75, "pcie": 0.6}
"""Of the sheet's bandwidth by an all-reduce of many megabytes (NVIDIA/nccl-tests: 230 of 300 GB/s on eight
A100)."""

THROUGH_HOST = 0.35
"""GeForce cards from the RTX 40 on, and laptops' chips before, cannot write to each other: through the
host."""

SLOWEST = {"nvlink": 0.02, "pcie": 0.03}
"""A step waits for the slowest card: share of its time that n cards add, times 1 - 1/n x 2."""

_LINKS = shipped_table(__package__, "links.toml")
_NVLINK_CARDS = frozenset(_LINKS["nvlink"].split())
_BRIDGED_CARDS = frozenset(_LINKS["bridged"].split())


@dataclass(frozen=True, slots=True)
class Cards:
    """How many equal cards, and what joins them."""

    n: int = 1
    link: Link = "pcie"
    gb_s: float = 10.0


ONE_CARD = Cards()


def cards_of(gpu: Gpu, n: int, link: str | None = None) -> Cards:
    """n cards of a kind in one box; link: `nvlink` | `pcie`, None = what such boxes have. InvalidInput for
    several processors."""
    if n <= 1:
        return ONE_CARD
    if gpu.kind == "cpu":
        raise wrong_value("n_gpus", f"must be 1: {gpu.slug} is no card", n)
    joined: Link = "nvlink" if link == "nvlink" or (link is None and gpu.slug in _NVLINK_CARDS) else "pcie"
    if joined == "nvlink":
        return Cards(n, joined, NVLINK_GB_S.get(gpu.architecture, 50.0) * REACHED["nvlink"])
    geforce = gpu.slug.startswith("rtx") and "ada" not in gpu.slug
    alone = geforce and gpu.architecture in ("ada", "blackwell")
    share = THROUGH_HOST if alone else REACHED["pcie"]
    return Cards(n, joined, gpu.pcie_gb_s * share)


def check_link(gpu: Gpu, n: int, link: str | None) -> None:
    """InvalidInput for an interconnect that one card, or cards of this kind, cannot have."""
    if link is not None and n <= 1:
        raise wrong_value("interconnect", "applies to several cards: ask for them by gpu=2x… or n_gpus", link)
    if link == "nvlink" and gpu.slug not in _NVLINK_CARDS | _BRIDGED_CARDS:
        raise wrong_value("interconnect", f"must be pcie: {gpu.name} has no NVLink", link)


def check_sharding(n: int, sharding: str | None) -> None:
    """InvalidInput for weights that are to be spread over one card."""
    if sharding == "fsdp" and n <= 1:
        raise wrong_value("sharding", "applies to training on several cards: gpu=2x… or n_gpus", sharding)


def exchange_seconds_of(params: Any, cards: Cards) -> Any:
    """Seconds of summing the gradients of so many parameters, a number or an array, nothing hidden."""
    return 2.0 * (cards.n - 1) / cards.n * params * 4.0 / (cards.gb_s * 1e9)


def slowed_by(cards: Cards) -> float:
    """What waiting for the slowest card makes of a step's time."""
    return 1.0 + 2.0 * SLOWEST[cards.link] * (1.0 - 1.0 / cards.n)


def step_on(step: StepModel, profile: Profile, cards: Cards) -> StepModel:
    """The step of one card's batch when `cards` take it together; in inference they know nothing of each
    other."""
    if cards.n <= 1:
        return step
    seconds = exchange_seconds_of(exchanged_params(profile), cards)
    basis = f"{step.basis}; {cards.n} cards over {cards.link}, {cards.gb_s:.0f} GB/s"
    return replace(step, exchange_seconds=seconds, slowed=slowed_by(cards), basis=basis)


def exchanged_params(profile: Profile) -> float:
    """How many parameters' gradients, summed over the cards, move as much in a step: the trained ones', or,
    where a decoder's weights lie spread over the cards (FSDP), what is gathered and scattered."""
    if profile.extra.get("sharded"):
        return float(profile.extra["gathered_bytes"]) / 8.0
    return float(profile.params)


def profile_on(profile: Profile, cards: Cards) -> Profile:
    """What each of several cards holds: buckets of gradients beside the gradients."""
    return profile if cards.n <= 1 else profile_with(profile, profile.params * 4.0)


def profile_with(profile: Profile, more: float) -> Profile:
    """The profile with `more` bytes on the card at every moment."""
    kept = profile.extra.get("peak_gradients_kept") or ()
    return replace(
        profile,
        buffers_bytes=profile.buffers_bytes + int(more),
        peak=tuple(PeakPoint(p.fixed_bytes + more, p.per_sample_bytes) for p in profile.peak),
        extra={**profile.extra, "peak_gradients_kept": [[fixed + more, slope] for fixed, slope in kept]},
    )
