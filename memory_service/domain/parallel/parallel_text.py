"""The verdict on models side by side, in sentences."""

from collections.abc import Sequence

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.parallel.gpu_sharing import Demand, Shared
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import Seconds

SLOWED = 1.1
"""Sum of the times alone, as they are in the set against as they are by themselves: from here on that is
why."""


def why_better(
    better: str, alone: Sequence[Demand], beside: Sequence[Demand], shared: Shared, after: Seconds, cores: int
) -> str:
    """One or two sentences with the figures that decide.

    alone    each as it is by itself; beside: with the batch and the cores that it has in the set
    """
    busy = sorted(100.0 * d.busy.value / d.alone.value for d in alone if d.busy.value)
    shares, trees = _range(busy), len(busy) < len(alone)
    text = f"Together they take {_minutes(shared.total)} min, one after another {_minutes(after)}: "
    if better == "together":
        if trees:
            return f"{text}the trees run on cores that the network leaves, and the card works meanwhile."
        rest = "(the rest is setup, data loader, launches, checkpoints)"
        kept = f"alone each keeps the card busy for only {shares} of its time {rest}"
        return f"{text}{kept}, and the others work in what it leaves."
    if trees:
        cause = f"each is slowed by what the other takes of the {cores} cores"
    elif sum(d.alone.value for d in beside) > SLOWED * sum(d.alone.value for d in alone):
        cause = f"with the {cores} cores shared by their data loaders, or at a smaller batch, each is slower"
    else:
        by_itself = f"each keeps the card busy for {shares} of its time by itself"
        cause = f"{by_itself}, and kernels of two processes take turns on it"
    first, first_shared = _minutes(alone[0].alone), min(end.value for end in shared.ends) / 60
    sooner = f"has its first result at minute {first} instead of {first_shared:.3g}"
    return f"{text}{cause}. One after another is about as fast and {sooner}."


def why_none(problem: PlanningProblem, tried: bool = False) -> tuple[Sentence, ...]:
    """Why nothing is offered; tried: sets were found but broke a promise."""
    if any(card.kind == "cpu" for card in problem.cards):
        why = "without a card all of them work on the same cores: one after another is as fast"
    elif any(card.kind != "cuda" for card in problem.cards):
        why = "how processes share such a device was never measured"
    elif problem.model is not None:
        why = f"{problem.model} is what {'a person noted here' if problem.noted else 'was asked for'}"
    elif problem.cpu_count < 4:
        why = f"{problem.cpu_count} processor cores hold one training and its data loader, not two"
    elif tried:
        why = "taking turns, none would end in the minutes nine times in ten"
    else:
        why = "no two models of different families fit half the memory and half the minutes each"
    return (sentence("no-models-side-by-side", why=why),)


def _minutes(seconds: Seconds) -> str:
    return f"{seconds.value / 60:.3g}"


def _range(percent: Sequence[float]) -> str:
    if not percent:
        return "0 %"
    low, high = round(percent[0]), round(percent[-1])
    return f"{low} %" if low == high else f"{low}-{high} %"
