"""Offers of hardware, and what passes on one before a script begins: pulling, installing, fetching data."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Literal, get_args

from memory_service.domain.common.estimate import SD_OF_P90, Estimate
from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.units import plural

Aim = Literal["cheapest", "fastest", "best", "balanced"]
AIMS: tuple[Aim, ...] = get_args(Aim)

WhyNot = Literal["memory", "time", "budget", "price-unknown"]
"""Why no plan fits an offer."""

SD_OF_P95 = 1.6449
"""Distance of a normal distribution's 95th percentile from its median, in standard deviations."""

ASSUMED_MINUTES, ASSUMED_P90 = 3.0, 8.0
"""Before a script begins, where nobody knows: a rented box is there after 0.4 to 2 minutes (figures of seven
providers, 600me/gpu-cloud-h100-a100-pricing-benchmark, 2026-10-19), installing takes one or two
(docs/install.md), the rest is the data's. The first runs told here replace it."""

WORTH_OF_ASSUMED = 2.0
"""Runs that the assumed figure counts as."""

LEAST_MINUTES = 0.1


@dataclass(frozen=True, slots=True)
class Offer:
    """A box that can be had.

    gpu, n_gpus   a card by any of its names, and how many train one model together
    vram_gib      memory of a card, where it is not the card's own; memory_gib: of the host
    price_per_hour   in the caller's currency; None where nobody says it; price_source: whose figure it is
    minutes_max   the longest job that it takes, start-up included
    spot          it may be taken away
    start_up_minutes   before a script begins, as the caller knows it
    """

    name: str
    gpu: str
    n_gpus: int = 1
    vram_gib: float | None = None
    cpu_count: int | None = None
    memory_gib: float | None = None
    price_per_hour: float | None = None
    minutes_max: float | None = None
    spot: bool = False
    start_up_minutes: float | None = None
    price_source: str | None = None

    def cost(self, minutes: float) -> float | None:
        """Of so many minutes; None where no price is known."""
        return None if self.price_per_hour is None else self.price_per_hour * minutes / 60.0


def common_boxes() -> tuple[Offer, ...]:
    """Boxes that many have, from `boxes.toml`: a price only where its date and source are known."""
    return tuple(Offer(name, **row) for name, row in shipped_table(__package__, "boxes.toml").items())


def start_up(offer: Offer, told: Sequence[float] = (), where: str = "") -> Estimate:
    """Minutes before a script begins: as the caller says, else learned from what runs told, else assumed.

    told   minutes that runs of this host, or of its kind, took to their first step, less what plans count
           themselves; where: whose they are, in words
    """
    if offer.start_up_minutes is not None:
        minutes = max(offer.start_up_minutes, LEAST_MINUTES)
        return Estimate(minutes, minutes / 1.5, minutes * 1.5, "claimed", 0, "as asked, half more at p90")
    middle, sd = log(ASSUMED_MINUTES), log(ASSUMED_P90 / ASSUMED_MINUTES) / SD_OF_P90
    if not told:
        value, spread = exp(middle), exp(SD_OF_P90 * sd)
        return Estimate(value, value / spread, value * spread, "claimed", 0, "assumed: no run told it yet")
    logs = [log(max(minutes, LEAST_MINUTES)) for minutes in told]
    weight = WORTH_OF_ASSUMED + len(logs)
    mean = (WORTH_OF_ASSUMED * middle + sum(logs)) / weight
    off = WORTH_OF_ASSUMED * (sd**2 + (middle - mean) ** 2) + sum((each - mean) ** 2 for each in logs)
    spread = exp(SD_OF_P90 * (off / weight * (1.0 + 1.0 / weight)) ** 0.5)
    value, runs = exp(mean), plural(len(logs), "run")
    return Estimate(value, value / spread, value * spread, "measured", len(logs), f"{runs} told of {where}")


def p95(figure: Estimate) -> float:
    """The 95th percentile of a figure whose logarithm is normal about its median."""
    if figure.value <= 0.0:
        return figure.high
    return float(figure.value * (figure.high / figure.value) ** (SD_OF_P95 / SD_OF_P90))
