"""Bounds on the batch from runs that finished and runs that ran out of memory."""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from memory_service.domain.common.optimizers import optimizer_or_adam
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.learning.observation import Observation, PredictionKey, observation_key

SAME_MEMORY = 1.01

MOST_OF_A_BATCH = 6
"""Out-of-memories of one case at one batch that are counted."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """proven: the largest batch that ran with no more memory and no less work; refused: the smallest that did
    not (with its number of out-of-memories); 0 and None where nothing was observed."""

    proven: int = 0
    refused: int | None = None
    out_of_memories: int = 0


class BatchBounds:
    """Outcomes of runs as bounds on the batch.

    outcomes   observations, each with the GiB that a process could get on its device
    """

    def __init__(self, outcomes: Iterable[tuple[Observation, float]]) -> None:
        self._ran: dict[object, list[tuple[Observation, float]]] = {}
        self._failed: dict[object, list[tuple[Observation, float]]] = {}
        for observation, usable in outcomes:
            known = self._failed if observation.out_of_memory else self._ran
            if observation.out_of_memory or _ran(observation):
                known.setdefault(_case(observation_key(observation)), []).append((observation, usable))
        self.models = {
            one.model for known in (self._ran, self._failed) for some in known.values() for one, _ in some
        }
        """Networks of which anything is known."""

    def bounds(self, subject: PredictionKey, usable_gib: float) -> Bounds:
        """Bounds on the batch of a case with `usable_gib` to spend on the subject's card.

        A success at a smaller input, a heavier optimizer or less memory is no proof against. An out-of-memory
        is lifted by a success at its batch or above: of the same reporter and device by a later one, of
        others by any, unless it is the subject's own device that ran out.
        """
        case = _case(subject)
        failed = [
            (o, had) for o, had in self._failed.get(case, ())
            if subject.input_size >= o.input_size and usable_gib <= had * SAME_MEMORY
            and _state_bytes(subject.config.optimizer) >= _state_bytes(o.optimizer)
        ]  # fmt: skip
        ran = self._ran.get(case, ())
        standing = [o for o, had in failed if not any(_lifts(*one, o, had, subject.device) for one in ran)]
        refused = min((o.batch_size for o in standing), default=None)
        proven = max(
            (
                o.batch_size for o, had in ran
                if subject.input_size <= o.input_size and usable_gib * SAME_MEMORY >= had
                and _state_bytes(subject.config.optimizer) <= _state_bytes(o.optimizer)
                and (refused is None or o.batch_size < refused)
            ),
            default=0,
        )  # fmt: skip
        return Bounds(proven, refused, len(standing))


def bounding(newest_first: Iterable[Observation]) -> Iterator[Observation]:
    """Those that bound a batch: an out-of-memory at each batch, and each success larger than all later ones
    of its case (a smaller, earlier one proves and lifts nothing more)."""
    failed: Counter[Hashable] = Counter()
    largest: dict[PredictionKey, int] = {}
    for o in newest_first:
        subject = observation_key(o)
        if o.out_of_memory:
            failed[subject, o.batch_size] += 1
            if failed[subject, o.batch_size] <= MOST_OF_A_BATCH:
                yield o
        elif o.part == "step" and _ran(o) and o.batch_size > largest.get(subject, 0):
            largest[subject] = o.batch_size
            yield o


def _ran(o: Observation) -> bool:
    peaks = (o.peak_allocated_gib, o.peak_reserved_gib, o.peak_driver_gib)
    return o.step_seconds is not None or any(peak is not None for peak in peaks)


def _lifts(success: Observation, had: float, failed: Observation, failed_had: float, device: str) -> bool:
    """device: the subject's; had, failed_had: GiB that each process could get."""
    if (success.device, success.reporter) == (failed.device, failed.reporter):
        counts = success.at > failed.at
    else:
        counts = had <= failed_had * SAME_MEMORY and (failed.device == "" or failed.device != device)
    return (
        counts
        and success.batch_size >= failed.batch_size
        and success.input_size >= failed.input_size
        and _state_bytes(success.optimizer) >= _state_bytes(failed.optimizer)
    )


def _case(s: PredictionKey) -> object:
    return (s.gpu, s.model, precision_class(s.config.precision), s.config.mode, s.checkpointing)


def _state_bytes(optimizer: str) -> float:
    return optimizer_or_adam(optimizer).state_bytes
