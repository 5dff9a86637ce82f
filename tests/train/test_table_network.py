"""Networks of tables: do those that a plan may name learn as members, by the plan's settings?"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from memory_service.train.engine import members_of
from memory_service.train.problem import Problem
from memory_service.train.table_network import NETWORKS, TableNetwork
from tests.train.conftest import Prepare

torch = pytest.importorskip("torch")
ROWS = 240


class Clock:
    def __init__(self, seconds: float = 60.0) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return self.end - time.monotonic()


def problem_of(kind: str) -> Problem:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS)})
    table["k"] = rng.choice(list("xyz"), ROWS)
    hidden = (table["a"] + 0.5 * table["b"] + (table["k"] == "x")).to_numpy()
    targets = {
        "values": 100 + 20 * hidden[:, None],
        "classes": (hidden > 0).astype(int),
        "labels": np.column_stack([hidden > 0, hidden > 1]).astype(np.float32),
    }[kind]
    outputs = {"values": ["y"], "classes": ["no", "yes"], "labels": ["a", "b"]}[kind]
    columns = {"a": "number", "b": "number", "k": "category"}
    loss = "squared" if kind == "values" else "log_loss"
    return Problem(kind, table, table[:9], targets, outputs, lambda *_: 0.0, loss, columns=columns)  # type: ignore[arg-type]


KINDS = ("classes", "values", "labels")


@pytest.mark.parametrize(("name", "kind"), list(zip(NETWORKS, KINDS * 2, strict=True)))
def test_each_network_learns_what_a_constant_does_not_know(name: str, kind: str) -> None:
    problem, train, valid = problem_of(kind), np.arange(200), np.arange(200, ROWS)
    member = TableNetwork(name or "network (TabM)", batch_size=50, epochs=6, learning_rate=2e-3)
    assert member.applies(problem)
    assert member.price(problem) > 0
    found = member.fit(problem, train, valid, 0, Clock(), {})
    shares = (
        np.bincount(problem.targets[train]) / 200 if kind == "classes" else problem.targets[train].mean(0)
    )
    constant = problem.losses(valid, np.tile(shares, (len(valid), 1)))
    assert problem.losses(valid, found.valid).mean() < 0.9 * constant.mean()
    assert found.test.shape == (9, problem.width)
    assert 1 <= found.memo["epochs"] <= 6


def test_where_memory_runs_out_fewer_rows_are_learned_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = torch.nn.functional.cross_entropy

    def short(outputs: Any, wanted: Any, **how: Any) -> Any:
        if len(outputs) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        return real(outputs, wanted, **how)

    monkeypatch.setattr(torch.nn.functional, "cross_entropy", short)
    problem = problem_of("classes")
    found = TableNetwork("mlp", batch_size=64, epochs=4).fit(
        problem, np.arange(200), np.arange(200, ROWS), 0, Clock(), {}
    )
    assert np.isfinite(found.test).all()
    assert "mlp learns 16 rows at once" in capsys.readouterr().out


def test_the_network_that_a_plan_names_is_the_first_member_by_its_settings(prepared: Prepare) -> None:
    prepared("labels", MODEL="realmlp", BATCH_SIZE=48, EPOCHS=9, LEARNING_RATE=3e-4, PATIENCE=4)
    first, *others = members_of(problem_of("classes"))
    assert isinstance(first, TableNetwork)
    told = (first.name, first.batch_size, first.epochs, first.learning_rate, first.patience)
    assert told == ("realmlp", 48, 9, 3e-4, 4)
    assert {"LightGBM", "network (TabM)"} <= {member.name for member in others}
