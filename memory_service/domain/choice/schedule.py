"""Several jobs on several boxes: what runs where and when, so that every deadline is kept.

Jobs are taken by their deadlines, the earliest first; each goes to the box where it ends first. Where one
does not end in time, the longest plan before it on the way gives way to its shortest one, until all hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_service.domain.choice.choice import PricedOffer


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work; lengths: box -> (time limit of its wanted plan, of its shortest one) in minutes, boxes
    where it does not fit left out; deadline in minutes from now, None = whenever."""

    name: str
    deadline: float | None
    lengths: dict[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Slot:
    """A job on a box, from minute to minute; its end is the time limit's. short: on its shortest plan."""

    job: int
    box: int
    start: float
    end: float
    short: bool


@dataclass(frozen=True, slots=True)
class Schedule:
    """slots: of the jobs that keep their deadlines, in order of starting; late: the others, each with the
    earliest minute at which it could end behind them (None: it fits no box)."""

    slots: tuple[Slot, ...]
    late: tuple[tuple[int, float | None], ...]

    def cost(self, boxes: Sequence[PricedOffer]) -> float | None:
        """At most, all together; None where a box that is used has no price."""
        parts = [boxes[slot.box].offer.cost(slot.end - slot.start) for slot in self.slots]
        return None if None in parts else sum(part for part in parts if part is not None)


def schedule(jobs: Sequence[Job], n_boxes: int) -> Schedule:
    """Every job on its wanted plan where that keeps all deadlines; else some on their shortest, the fewest
    that help in this order; jobs that even so are late are left out, and said."""
    order = sorted(range(len(jobs)), key=lambda place: (jobs[place].deadline is None, jobs[place].deadline))
    short: set[int] = set()
    left_out: dict[int, float | None] = {}
    while True:
        slots, late = _placed(jobs, [place for place in order if place not in left_out], n_boxes, short)
        if late is None:
            return Schedule(tuple(sorted(slots, key=lambda slot: slot.start)), tuple(left_out.items()))
        job, end = late
        before = [slot for slot in slots if slot.job not in short] + [Slot(job, 0, 0.0, 0.0, short=False)]
        longer = {slot.job: _gain(jobs[slot.job]) for slot in before if slot.job not in short}
        gives_way = max(longer, key=lambda place: longer[place], default=None)
        if gives_way is not None and longer[gives_way] > 1e-9:
            short.add(gives_way)
        else:
            left_out[job] = end
            short.clear()  # nobody gives way to it any more


def _gain(job: Job) -> float:
    """Minutes that the shortest plan saves, on the box where that is most."""
    return max((wanted - least for wanted, least in job.lengths.values()), default=0.0)


def _placed(
    jobs: Sequence[Job], order: Sequence[int], n_boxes: int, short: set[int]
) -> tuple[list[Slot], tuple[int, float | None] | None]:
    """Slots until the first job that is late; that job, with the minute at which it would end."""
    free, slots = [0.0] * n_boxes, list[Slot]()
    for place in order:
        job = jobs[place]
        ends = [(free[box] + pair[place in short], box) for box, pair in job.lengths.items()]
        end, box = min(ends, default=(None, -1))
        if end is None or (job.deadline is not None and end > job.deadline + 1e-9):
            return slots, (place, end)
        slots.append(Slot(place, box, free[box], end, place in short))
        free[box] = end
    return slots, None
