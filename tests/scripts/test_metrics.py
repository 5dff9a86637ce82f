"""Is the score of a script the plan's metric, and its submission of the form that this metric judges?

Each runs on generated tables (network and boosted trees share the code of score and submission with all
other kinds), masks on generated images. The score is computed here again, by other means, from what the
script says of its held-out rows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_service.domain.judging import judged_by
from tests.scripts.data import Size
from tests.scripts.workshop import Trial, Workshop, rows_of, write_rows

NETWORK, TREES = "tabular-classification-network", "tabular-classification-lightgbm"
VALUES, VALUE_TREES = "tabular-regression-network", "tabular-regression-lightgbm"

Spoil = Callable[[Path], None]


def target(values: Callable[[list[str]], list[Any]], names: tuple[str, ...], shown: Any = 0) -> Spoil:
    """The last column becomes these, computed from its row; the sample shows `shown`."""

    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        changed = [[*row[:-1], *(str(one) for one in values(row))] for row in rows]
        write_rows(folder / "train.csv", [[*head[:-1], *names], *changed])
        sample = rows_of(folder / "sample_submission.csv")
        kept = [[row[0], *[str(shown)] * len(names)] for row in sample[1:]]
        write_rows(folder / "sample_submission.csv", [["row", *names], *kept])

    return spoil


two_classes = target(lambda row: ["yes" if float(row[1]) > 120 else "no"], ("fits",))
two_in_fractions = target(lambda row: [int(float(row[1]) > 120)], ("fits",), 0.5)
three_labels = target(
    lambda row: [int(float(row[1]) > at) for at in (100, 130, 150)], ("wide", "wider", "widest")
)
grades = target(lambda row: [max(0, min(4, round((float(row[1]) - 40) / 30)))], ("grade",))
prices = target(lambda row: [round(2 ** (float(row[-1]) / 900), 3)], ("price",))
whole_values = target(lambda row: [3 + max(0, min(4, round((float(row[1]) - 40) / 30)))], ("points",))


def trial_of(workshop: Workshop, name: str, metric: str, spoil: Spoil | None) -> Trial:
    task = workshop.plan(name)["task"]
    said = judged_by(metric, "as asked", task).as_dict()
    return workshop.trial(name, size=Size(160, 30), spoil=spoil, metric=said)


def ran(trial: Trial) -> tuple[str, list[list[str]]]:
    """(the log, the submission without its header); it is whole and was made of all folds."""
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    assert "Warning" not in ended.log
    assert len(trial.checkpoints()) == trial.plan["folds"], ended.log
    head, *rows = rows_of(trial.submission)
    assert head == rows_of(trial.data.folder / "sample_submission.csv")[0]
    assert len(rows) == 30
    return ended.log, rows


def answers(rows: list[list[str]]) -> set[str]:
    return {cell for row in rows for cell in row[1:]}


CLASSES: tuple[tuple[str, str, Spoil | None, set[str]], ...] = (
    (NETWORK, "F1", two_classes, {"yes", "no"}),
    (TREES, "Matthews correlation", two_classes, {"yes", "no"}),
    (TREES, "accuracy", two_classes, {"yes", "no"}),
    (NETWORK, "balanced accuracy", None, {"1", "2", "5"}),
    (NETWORK, "macro F1", three_labels, {"0", "1"}),
    (TREES, "micro F1", three_labels, {"0", "1"}),
    (NETWORK, "mean F1", three_labels, {"0", "1"}),
    (NETWORK, "quadratic weighted kappa", grades, {*"01234"}),
    (TREES, "QWK", grades, {*"01234"}),
    (VALUES, "QWK", whole_values, {*"34567"}),
    (VALUE_TREES, "QWK", whole_values, {*"34567"}),
)


@pytest.mark.parametrize(("name", "metric", "spoil", "known"), CLASSES)
def test_a_metric_of_classes_gets_classes(
    workshop: Workshop, name: str, metric: str, spoil: Spoil | None, known: set[str]
) -> None:
    log, rows = ran(trial_of(workshop, name, metric, spoil))
    assert answers(rows) <= known, log
    assert len(answers(rows)) > 1, log
