"""How much each past competition says about the one asked about, and the solutions that follow from it.

weight = exp(8 cosine + 1.0 same task + 0.75 same modality + 0.5 same kind of answer
             + 0.3 same metric family + 0.3 same split + 0.3 same size - years apart / tau)

A task that was read from a text counts by its probability. A weighted vote, because its answer can be shown:
every share names the solutions it came from. The constants were chosen on leave-one-competition-out over the
shipped solutions (docs/methods/memory.md): of 400 random settings within a factor of two, all lie within
0.02.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.recipe.solution import Solution

COSINE_WEIGHT = 8.0
FACT_WEIGHTS = {"task": 1.0, "modality": 0.75, "answer": 0.5, "metric_family": 0.3, "split": 0.3, "size": 0.3}
"""Log weight of agreeing on a fact; names as in `recall.structure`."""

YEARS_ASKED, YEARS_TODAY = 3.0, 20.0
"""Years in which a competition's weight falls to a third: from the year that was asked about, or that of the
competition asked about; from the latest known year where neither is known. Models change fast: knowing the
year is worth 0.06 of the families' recall, more than any law that was tried (docs/methods/memory.md)."""

MOST_COMPETITIONS = 40
LEAST_SHARE = 0.01
"""Of the nearest one's weight: what weighs less is not called similar."""

SOLUTIONS_EACH = 3

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Solutions of similar competitions with their weights, nearest competition first.

    weights        of the solutions; those of one competition sum to its weight, the nearest weighs 1
    competitions   slugs, nearest first; known: number of all solutions that could have been taken
    """

    solutions: tuple[Solution, ...]
    weights: tuple[float, ...]
    competitions: tuple[str, ...]
    known: int

    @property
    def weighed(self) -> list[tuple[Solution, float]]:
        return list(zip(self.solutions, self.weights, strict=True))


def competition_weights(
    cosine: Array | None,
    agreement: Array,
    years: Array,
    as_of: int | None,
    left_out: NDArray[np.bool_],
    own_year: float = np.nan,
) -> Array:
    """Weight of each competition (C,), 0 for those left out and, with `as_of`, for those after that year.

    cosine      meaning, -1..1; None without an encoder
    agreement   summed log weights of the facts that agree (`FACT_WEIGHTS`)
    years       of the competitions, NaN where not known; own_year: of the one asked about
    """
    known = years[~np.isnan(years) & ~left_out]
    asked = own_year if as_of is None else as_of
    tau = YEARS_TODAY if np.isnan(asked) else YEARS_ASKED
    centre = known.max(initial=0.0) if np.isnan(asked) else asked
    apart = np.where(np.isnan(years), tau, np.abs(centre - years))
    log_weight = agreement - apart / tau
    if cosine is not None:
        log_weight = log_weight + COSINE_WEIGHT * cosine
    weights = np.exp(log_weight - log_weight.max(initial=-np.inf))
    excluded = left_out if as_of is None else left_out | ~(years <= as_of)
    return np.where(excluded, 0.0, weights)


def neighbourhood(
    weights: Array, slugs: Sequence[str], solutions: Mapping[str, Sequence[Solution]], known: int
) -> Neighbourhood:
    """The solutions of the most similar competitions that have any; of each the three best ranked.

    weights, slugs   of the competitions (C,); solutions: by slug, best first; known: see `Neighbourhood`
    """
    chosen: list[tuple[str, float]] = []
    for i in np.argsort(-weights, kind="stable"):
        weight = float(weights[i])
        light = weight <= 0.0 or (chosen and weight < LEAST_SHARE * chosen[0][1])
        if light or len(chosen) == MOST_COMPETITIONS:
            break
        if solutions.get(slugs[i]):
            chosen.append((slugs[i], weight))
    found: list[Solution] = []
    parts: list[float] = []
    for slug, weight in chosen:
        best = solutions[slug][:SOLUTIONS_EACH]
        total = sum(one.weight for one in best)
        found += best
        parts += [weight / chosen[0][1] * one.weight / total for one in best]
    return Neighbourhood(tuple(found), tuple(parts), tuple(slug for slug, _ in chosen), known)
