"""Is the score of a script the plan's metric, and its submission of the form that this metric judges?

Each runs on generated texts or tables: the other kinds, masks apart, share their code of score and
submission. What the scores mean is tested in tests/services/planning/test_script_scores.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_service.domain.description.metric_resolution import resolve_metric
from memory_service.domain.logs.parser import read_log
from tests.scripts.harness.data import POSITIVE, Size
from tests.scripts.harness.workshop import Trial, Workshop, rows_of, write_rows

NETWORK, MEMBERS = "text-classification", "tabular-classification-members"
VALUES = "text-regression"

Spoil = Callable[[Path], None]


def target(values: Callable[[list[str]], list[Any]], names: tuple[str, ...], shown: Any = 0) -> Spoil:
    """The last column becomes these, computed from its row; the sample shows `shown`."""

    def spoil(folder: Path) -> None:
        head, *rows = rows_of(folder / "train.csv")
        changed = [[*row[:-1], *(str(one) for one in values(row))] for row in rows]
        write_rows(folder / "train.csv", [[*head[:-1], *names], *changed])
        sample = rows_of(folder / "sample_submission.csv")
        kept = [[row[0], *[str(shown)] * len(names)] for row in sample[1:]]
        write_rows(folder / "sample_submission.csv", [[head[0], *names], *kept])

    return spoil


def level(row: list[str]) -> float:
    """From 40 to 160: the first number of a table, or how many words of a text are good ones."""
    with suppress(ValueError):
        return float(row[1])
    return 40 + 24 * sum(word in POSITIVE for word in row[1].split())


two_classes = target(lambda row: ["yes" if level(row) > 120 else "no"], ("fits",))
two_in_fractions = target(lambda row: [int(level(row) > 120)], ("fits",), 0.5)
three_labels = target(
    lambda row: [int(level(row) > at) for at in (100, 130, 150)], ("wide", "wider", "widest")
)
three_classes = target(lambda row: ["c" if level(row) > 100 else "ab"[len(row[1]) % 2]], ("letter",))
grades = target(lambda row: [max(0, min(4, round((level(row) - 40) / 30)))], ("grade",))
prices = target(lambda row: [round(2 ** (float(row[-1]) / 3), 3)], ("price",))
whole_values = target(lambda row: [3 + max(0, min(4, round((level(row) - 40) / 30)))], ("points",))


def trial_of(workshop: Workshop, name: str, metric: str, spoil: Spoil | None) -> Trial:
    task = workshop.plan(name)["task"]
    said = resolve_metric(metric, "as asked", task).as_dict()
    own = {"MINUTES": "0.35"} if name == MEMBERS else {}
    return workshop.trial(name, size=Size(160, 30), spoil=spoil, own=own, metric=said)


def ran(trial: Trial) -> tuple[str, list[list[str]]]:
    """(the log, the submission without its header); it is whole and was made of all folds."""
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Traceback" not in ended.log
    assert "Warning" not in ended.log
    assert trial.kind.minutes or len(trial.checkpoints()) == trial.plan["folds"], ended.log
    head, *rows = rows_of(trial.submission)
    assert head == rows_of(trial.data.folder / "sample_submission.csv")[0]
    assert len(rows) == 30
    return ended.log, rows


def answers(rows: list[list[str]]) -> set[str]:
    return {cell for row in rows for cell in row[1:]}


CLASSES: tuple[tuple[str, str, Spoil | None, set[str]], ...] = (
    (MEMBERS, "F1", two_classes, {"yes", "no"}),
    (NETWORK, "macro F1", three_labels, {"0", "1"}),
    (NETWORK, "quadratic weighted kappa", grades, {*"01234"}),
    (VALUES, "QWK", whole_values, {*"34567"}),
)


@pytest.mark.parametrize(("name", "metric", "spoil", "known"), CLASSES)
def test_a_metric_of_classes_gets_classes(
    workshop: Workshop, name: str, metric: str, spoil: Spoil | None, known: set[str]
) -> None:
    log, rows = ran(trial_of(workshop, name, metric, spoil))
    assert answers(rows) <= known, log
    assert len(answers(rows)) > 1, log


@pytest.mark.parametrize("name", [NETWORK, MEMBERS])
def test_a_metric_of_chances_gets_them_in_a_column_of_whole_numbers(workshop: Workshop, name: str) -> None:
    log, rows = ran(trial_of(workshop, name, "ROC AUC", two_classes))
    chances = [float(row[1]) for row in rows]
    assert all(0 <= one <= 1 for one in chances)
    assert any(one % 1 for one in chances), log


def test_a_metric_of_ranks_gets_the_likeliest_classes_in_their_order(workshop: Workshop) -> None:
    log, rows = ran(trial_of(workshop, NETWORK, "MAP@2", three_classes))
    assert all(len(set(row[1].split())) == 2 for row in rows), log
    assert answers(rows) <= {f"{a} {b}" for a in "abc" for b in "abc"}


def test_errors_of_logarithms_are_learned_as_such_and_written_as_values(workshop: Workshop) -> None:
    trial = trial_of(workshop, VALUES, "RMSLE", prices)
    log, rows = ran(trial)
    truth = {name: 2 ** (value / 3) for name, value in trial.data.truth.items()}
    found = {row[0]: float(row[1]) for row in rows}
    assert min(found.values()) >= 0
    off = [np.log1p(found[name]) - np.log1p(value) for name, value in truth.items()]
    constant = np.std([np.log1p(value) for value in truth.values()])
    assert np.sqrt(np.mean(np.square(off))) < constant, log


def test_a_metric_that_is_not_computed_leaves_the_loss_and_is_told_to_nobody(workshop: Workshop) -> None:
    log, rows = ran(trial_of(workshop, NETWORK, "weighted ROC AUC", two_in_fractions))
    assert "VALIDATION: validation loss=" in log
    events = [told.fields for told in read_log(log, final=True).events if told.kind == "epoch"]
    assert events
    assert all("metric" not in fields and fields["valid_loss"] > 0 for fields in events)
    assert all(0 <= float(row[1]) <= 1 for row in rows)


def test_masks_are_scored_by_the_metric_of_masks(workshop: Workshop) -> None:
    said = resolve_metric("global Dice", "as asked", "image-segmentation").as_dict()
    trial = workshop.trial("image-segmentation", size=Size(24, 6), epochs=2, metric=said)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "VALIDATION: global Dice=" in ended.log
    assert trial.cells()


def test_only_the_asked_images_get_their_nearest_others_among_all(workshop: Workshop) -> None:
    def three(folder: Path) -> None:
        rows = rows_of(folder / "sample_submission.csv")
        write_rows(folder / "sample_submission.csv", rows[:4])

    said = resolve_metric("MAP@5", "as asked", "image-retrieval").as_dict()
    trial = workshop.trial("image-retrieval", size=Size(48, 16), epochs=1, spoil=three, metric=said)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "VALIDATION: MAP@5=" in ended.log
    rows = rows_of(trial.submission)[1:]
    asked = [row[0] for row in rows_of(trial.data.folder / "sample_submission.csv")[1:]]
    assert sorted(row[0] for row in rows) == sorted(asked)
    for name, found in rows:
        assert name not in found.split()
        assert len({*found.split()} & {*trial.data.truth}) == 5
