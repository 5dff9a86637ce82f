"""What a client and the log of a run both tell: an epoch counts once, however each of them numbers it."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import product
from statistics import fmean
from typing import Any

from memory_service.domain.monitoring.event import AS_TOLD, SERVER_SEQ, loss_of
from memory_service.domain.monitoring.summary import Summary

RENUMBERED = frozenset(("epoch", "fold"))
_SCORES = ("train_loss", "valid_loss", "metric")
_LEAST = 2  # scores: one may be the same by chance
_Fields = dict[str, Any]
_Epochs = Mapping[tuple[int, int], Mapping[str, Any]]
"""(fold, epoch) -> what is told of it."""


def renumbered(summary: Summary, told: Sequence[tuple[int, str, _Fields]]) -> dict[int, _Fields]:
    """Place of an event -> its fields with fold and epoch as the run's other teller, who began first, counts
    them. Scores of a log that the client tells, too, are left out: they are rounded, or in percent."""
    of_log, shift, others = told[0][0] >= SERVER_SEQ, None, dict[tuple[int, int], _Fields]()
    for key, record in summary.epochs.items():
        for name, (_, seq, value) in record.items():
            is_own = (seq >= SERVER_SEQ) == of_log
            if name == AS_TOLD:
                shift = value if is_own else (0, 0)
            elif not is_own:
                others.setdefault(key, {})[name] = value
    if not others and not any(shift or ()):
        return {}
    own = {_place(fields): fields for _, kind, fields in told if kind == "epoch" and "epoch" in fields}
    shift = shift or (_shift(own, others) if own and others else (0, 0))
    changed = {}
    for n, (_, kind, fields) in enumerate(told):
        if kind not in RENUMBERED or AS_TOLD in fields:
            continue
        numbers = {name: max(0, fields[name] - by) for name, by in zip(("fold", "epoch"), shift, strict=True)
                   if by and fields.get(name) is not None}  # fmt: skip
        place = _place({**fields, **numbers})
        twice = [name for name in _SCORES if of_log and name in fields and name in others.get(place, ())]
        if as_told := {name: fields[name] for name in (*numbers, *twice)}:
            left = {name: value for name, value in fields.items() if name not in twice}
            changed[n] = {**left, **numbers, AS_TOLD: as_told}
    return changed


def _place(fields: Mapping[str, Any]) -> tuple[int, int]:
    fold = fields.get("fold")
    return 1 if fold is None else fold, fields.get("epoch") or 0


def _shift(own: _Epochs, others: _Epochs) -> tuple[int, ...]:
    """What own numbers of folds and epochs are above the others': what makes most scores the same, for a log
    may lack its first lines; where none does, as one counts from 0 and the other from 1."""
    firsts = [[min(place[axis] for place in told) for told in (own, others)] for axis in (0, 1)]
    by_first = tuple(one - other if {one, other} == {0, 1} else 0 for one, other in firsts)
    share = dict[tuple[int, ...], float]()
    for by in product((0, 1, -1), repeat=2):
        pairs = [
            [loss_of(one.get(name)) for one in (fields, others.get((fold - by[0], epoch - by[1]), {}))]
            for (fold, epoch), fields in own.items()
            for name in _SCORES
        ]
        same = [_is_same(a, b) for a, b in pairs if a is not None and b is not None]
        if len(same) >= _LEAST or (same and by == by_first):
            share[by] = fmean(same)
    most = max(share, key=lambda by: (share[by], by == by_first), default=by_first)
    return most if share.get(most, 0.0) >= 0.5 else by_first


def _is_same(a: float, b: float) -> bool:
    """As far as the one with fewer digits says, but for 1 %; a share may be in percent."""
    step = max(10.0 ** int(Decimal(repr(x)).as_tuple().exponent) for x in (a, b))
    step = min(step, abs(a) / 100, abs(b) / 100)
    return min(abs(a - b), abs(100 * a - b), abs(a - 100 * b)) <= 0.51 * step
