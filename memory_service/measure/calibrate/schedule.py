"""Chooses the next section and its time; the most useful first, never past the budget.

Every section has a least time, below which it measures nothing worth having, and a weight. What is left of
the budget is given to sections in their order until their least times fill it; the rest is shared by weight.
Asked again after every section, so that one that took longer than its share costs the least useful ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """least_seconds: with its process and one repetition of everything, on a slow machine of two cores."""

    least_seconds: float
    weight: float


SHARES: dict[str, Share] = {
    "launch": Share(0.4, 0.5),
    "memory.process": Share(0.5, 0.0),
    "memory": Share(2.0, 0.0),
    "matmul": Share(0.5, 1.0),
    "bandwidth.": Share(0.8, 2.5),
    "bandwidth": Share(2.0, 2.0),
    "conv.dense": Share(2.0, 3.5),
    "conv.thin": Share(1.0, 2.0),
    "conv.all": Share(2.0, 3.0),
    "conv.few": Share(0.8, 1.5),
    "step": Share(1.0, 2.5),
    "linear": Share(0.3, 1.5),
    "trees": Share(2.5, 3.0),
    "loader": Share(3.5, 3.0),
    "attention": Share(0.4, 1.0),
    "host": Share(1.0, 0.5),
    "sustained": Share(4.0, 4.0),
}

CONTEXT_SECONDS, NETWORK_SECONDS = 1.5, 4.0
"""A child that uses CUDA first makes a context and loads kernels: those of one operation, of a network's."""


def share_of(section: str, kind: str) -> Share:
    """By the longest listed prefix; others get half a second."""
    prefix = max((name for name in SHARES if section.startswith(name)), key=len, default="")
    share = SHARES.get(prefix, Share(0.5, 0.0))
    if kind == "cpu" or prefix in ("trees", "loader", "memory.process"):
        return share
    loads = NETWORK_SECONDS if prefix == "step" else CONTEXT_SECONDS
    return Share(share.least_seconds / 2 + loads, share.weight)


def next_share(sections: Sequence[str], seconds_left: float, kind: str) -> float | None:
    """Seconds that the first of `sections` gets; None when not even its least fits."""
    if not sections:
        return None
    first = share_of(sections[0], kind)
    if first.least_seconds > seconds_left:
        return None
    spare, weights = seconds_left, 0.0
    for section in sections:
        share = share_of(section, kind)
        if share.least_seconds > spare:
            break
        spare -= share.least_seconds
        weights += share.weight
    return first.least_seconds + (spare * first.weight / weights if weights else 0.0)
