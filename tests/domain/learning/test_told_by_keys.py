"""However much one key tells, what others are taught costs no more."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from memory_service.domain.learning.observation import Observation
from memory_service.domain.prediction import trust

ONE = Observation("a100", "resnet50", "resnet", 224, "bf16", 8, step_seconds=0.1, reporter="key eve")


def told(who: str, number: int, model: str = "resnet50", seconds: float = 0.1) -> list[Observation]:
    return [
        replace(ONE, reporter=who, model=model, batch_size=1 + n, step_seconds=seconds * (1 + n))
        for n in range(number)
    ]


def test_reports_are_held_against_those_near_their_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    agree = mock.Mock(wraps=trust._agree)
    monkeypatch.setattr(trust, "_agree", agree)
    apart = [*told("key eve", 64), *told("key ada", 64, seconds=9.0)]
    assert all(trust.told_alone(apart))
    near = sum(a.batch_size <= 2 * b.batch_size and b.batch_size <= 2 * a.batch_size
               for a in told("x", 64) for b in told("x", 64))  # fmt: skip
    assert agree.call_count == 2 * near
    alone = trust.told_alone([*apart, *told("key bob", 64)])
    assert alone == (False,) * 64 + (True,) * 64 + (False,) * 64
