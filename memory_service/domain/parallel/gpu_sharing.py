"""Time of several processes on one card: turns on the device, and gaps that others can use.

Without MPS the kernels of two processes never run at the same time: the device gives each a slice in turn
(NVIDIA's guide to MPS, "Reduced GPU Context Switching"), so busy seconds add up. What may overlap is what
leaves the device idle: imports, waiting for the data loader, checkpoints, gaps between launches. Each process
thus alternates between the device and something else, which is a closed queueing network with one shared
station; mean value analysis (Reiser and Lavenberg 1980) gives the pace of every subset of the processes. It
never promises more than the device has, nor more than a process reaches alone.

Checked against what was published (tests/domain/parallel/test_gpu_sharing.py): two and three trainings
sharing a card
took 1.744 and 2.584 times as long as one (IEEE COMPSAC 2024, 769600b456, KubeRay with time slices), which is
what one busy share of 0.86 gives for both; two trainings that fill the card run at half speed each
(NVlabs/stylegan2-ada-pytorch issue 310); ResNet-18 on ImageNet, whose loader leaves the card idle, gains up
to 2.56 times (arXiv 2410.22254).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

from memory_service.domain.planning.run_seconds import Seconds

MOST_PROCESSES = 4
"""R33 says 3-4; every subset of the processes is looked at."""

TURNS = {"value": 0.03, "high": 0.10}
"""Median and 90th percentile of what taking turns adds to the busy time of processes that share: two
time-sliced workers lost "a few percent" of throughput on a GTX 1080 (insureai360.com, GPU time-slicing for
concurrent agents, 2026); nobody published a figure for training."""

GAPS_USED = {"value": 0.8, "high": 0.0}
"""Share of the gaps between launches that another process can use. On an H200 (driver 580, no MPS;
benchmarks/data/h200/together.jsonl) all were: two and three ResNet-18 of eight pictures, which wait for the
host, did 1.76 and 2.79 times one's steps. Elsewhere less: two launch-bound processes at 50 % use each took
twice as long (pytorch/pytorch issue 14531), and a context that has run dry was observed to stay on the device
for 0.8 ms (NVIDIA forum 181203). The interval holds both."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process wants, as it would take alone on the cores that it has in the set; plain floats.

    setup   before its first step; write: after its last. The device is idle in both
    work    training and inference, wall clock
    busy    of work: kernels run (0 for a model on the processor); gaps: of work, between launches
    """

    setup: Seconds
    work: Seconds
    write: Seconds
    busy: Seconds
    gaps: Seconds

    @property
    def alone(self) -> Seconds:
        """All of it, when nothing else is there."""
        return one_after_another([self])


@dataclass(frozen=True, slots=True)
class Shared:
    """Seconds until everything is over, and until each process is."""

    total: Seconds
    ends: tuple[Seconds, ...]


def one_after_another(demands: Sequence[Demand]) -> Seconds:
    """Seconds until the last of them is over; errors of speed are common to all, those of setup are not."""
    rest = [part for demand in demands for part in (demand.setup, demand.write)]
    value = sum(part.value for part in rest)
    return _spread(
        sum(demand.work.low for demand in demands) + value,
        sum(demand.work.value for demand in demands) + value,
        sum(demand.work.high for demand in demands) + value,
        rest,
    )


def side_by_side(demands: Sequence[Demand]) -> Shared:
    """Seconds when all begin at once; percentile by percentile never under the longest of them alone, nor
    under their busy time. The low ends are those of nobody ever waiting for a turn.

    ValueError for none or more than `MOST_PROCESSES`.
    """
    if not 1 <= len(demands) <= MOST_PROCESSES:
        raise ValueError(f"1 to {MOST_PROCESSES} processes, not {len(demands)}")
    ends = []
    for demand, value, high in zip(demands, _ends(demands, "value"), _ends(demands, "high"), strict=True):
        end = _spread(value, value, high, (demand.setup, demand.write))
        ends.append(Seconds(demand.alone.low, end.value, max(end.high, demand.alone.high)))
    low = max(sum(demand.busy.low for demand in demands), *(end.low for end in ends))
    total = Seconds(low, max(end.value for end in ends), max(end.high for end in ends))
    return Shared(total, tuple(ends))


def _spread(low: float, value: float, high: float, rest: Sequence[Seconds]) -> Seconds:
    """With the independent errors of setups and writing, whose medians the seconds already hold."""
    less = hypot(value - low, *(part.value - part.low for part in rest))
    more = hypot(high - value, *(part.high - part.value for part in rest))
    return Seconds(value - less, value, value + more)


def _ends(demands: Sequence[Demand], part: str) -> list[float]:
    """When each process is over: all set up at once, then work at the pace of those that are still there."""
    pace = paces_of(demands, part)
    waits = [demand.setup.value for demand in demands]
    left, ends, clock = [1.0] * len(waits), [0.0] * len(waits), 0.0
    there = list(range(len(waits)))
    while there:
        at_it = [i for i in there if waits[i] <= clock]
        paces = pace[sum([1 << i for i in at_it])]
        begins = [waits[i] - clock for i in there if waits[i] > clock]
        step = min([left[i] / paces[i] for i in at_it] + begins)
        clock += step
        for i in at_it:
            left[i] -= step * paces[i]
            if left[i] < 1e-9:
                ends[i] = clock + demands[i].write.value
                there.remove(i)
    return ends


_SUBSETS = {
    n: [(subset, [(i, subset ^ 1 << i) for i in range(n) if subset >> i & 1]) for subset in range(1, 1 << n)]
    for n in range(1, MOST_PROCESSES + 1)
}
"""Every subset of n processes as bits, each after its own subsets: its members, and it without each."""


def paces_of(demands: Sequence[Demand], part: str) -> list[list[float]]:
    """Shares of its work a second that each process gets done in every subset, by mean value analysis."""
    n, longer, kept = len(demands), 1.0 + TURNS[part], 1.0 - GAPS_USED[part]
    work = [max(getattr(demand.work, part), 1e-9) for demand in demands]
    at_device, elsewhere = [], []
    for demand, whole in zip(demands, work, strict=True):
        busy = getattr(demand.busy, part)
        busy = min(busy + kept * getattr(demand.gaps, part), whole) if busy else 0.0
        at_device.append(busy * longer)
        elsewhere.append(whole - busy)
    alone = [1.0 / whole for whole in work]
    waiting, pace = [0.0] * (1 << n), [alone] * (1 << n)
    users = sum(1 << i for i in range(n) if at_device[i])
    for subset, members in _SUBSETS[n]:
        paces, there = alone[:], [0.0] * n
        for i, others in members:
            if at_device[i]:
                turn = at_device[i] * (1.0 + waiting[others])
                there[i] = turn / (elsewhere[i] + turn)
                if others & users:
                    paces[i] = 1.0 / (elsewhere[i] + turn)
        pace[subset], waiting[subset] = paces, sum(there)
    return pace
