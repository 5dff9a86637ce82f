"""Seconds a sample takes beside the network's own: feeding it, writing its answer."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import writes_text
from memory_service.domain.cost.decoders.generation import answer_seconds, writes_by_token
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.planning.run_seconds import Seconds
from memory_service.domain.prediction.device_host import device_loader

Integers = npt.NDArray[np.int64]


def loader_rate(problem: PlanningProblem, input_size: int, workers: int) -> Estimate:
    """Samples a second that the input pipeline delivers, on the host of the card where it is slowest."""
    asked = problem.task, input_size, workers, problem.cpu_count
    rates = (device_loader(*asked, card) for card in problem.cards)
    return min(rates, key=lambda rate: rate.value)


def loader_seconds(problem: PlanningProblem, sizes: Integers, workers: int) -> Seconds:
    """Seconds per sample that the input pipeline needs, for each input size."""
    unique, inverse = np.unique(sizes, return_inverse=True)
    rates = [loader_rate(problem, int(size), workers) for size in unique]
    low, value, high = (
        np.array([1.0 / getattr(rate, name) for rate in rates], dtype=np.float64)[inverse]
        for name in ("high", "value", "low")
    )
    return Seconds(low, value, high)


def written_seconds(
    problem: PlanningProblem, options: Sequence[Option], batches: Integers, precision: str
) -> npt.NDArray[np.float64]:
    """Seconds a test sample that writing its answer takes on the box [option]; 0 where no text is written."""
    if not writes_text(problem.task):
        return np.zeros(len(options))
    slowest, kind = min(card.bandwidth_gb_s for card in problem.cards), precision_class(precision)
    tokens = problem.question.text_tokens
    each = [
        answer_seconds(option.profile[kind], int(batch), slowest, tokens)
        if kind in option.profile and writes_by_token(option.profile[kind])
        else 0.0
        for option, batch in zip(options, batches, strict=True)
    ]
    return np.array(each, dtype=np.float64) / problem.together.n
