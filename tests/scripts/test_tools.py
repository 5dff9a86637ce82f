"""Would the checks of submissions see a bad one, and is a run by the fork server like one by `python`?"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.scripts.harness import data
from tests.scripts.harness.data import Data, Size
from tests.scripts.harness.runner import plainly
from tests.scripts.harness.submission import check_submission, decode, gain
from tests.scripts.harness.workshop import Workshop, write_rows

Rows = list[list[str]]


def changed(line: int, column: int, cell: str) -> Callable[[Rows], None]:
    def change(rows: Rows) -> None:
        rows[line][column] = cell

    return change


SPOILED: dict[str, Callable[[Rows], object]] = {
    "one id twice": lambda rows: rows.append(rows[1]),
    "one id missing": lambda rows: rows.pop(),
    "another order": lambda rows: rows.insert(1, rows.pop()),
    "an id without its zeros": changed(1, 0, "11"),
    "other columns": changed(0, 1, "cat"),
    "not a number": changed(2, 1, "nan"),
    "no value": changed(2, 1, ""),
    "a probability over 1": changed(2, 1, "1.2"),
    "probabilities that do not sum to 1": changed(2, 1, "0.9"),
}


def correct(given: Data) -> Rows:
    rows = [
        [name, *(str(float(given.truth[name] == one)) for one in given.columns[1:])] for name in given.ids
    ]
    return [list(given.columns), *rows]


@pytest.mark.parametrize("fault", SPOILED)
def test_a_bad_submission_is_refused(tmp_path: Path, fault: str) -> None:
    given = data.images_of_classes(tmp_path, Size(train=9, test=6))
    rows = correct(given)
    write_rows(tmp_path / "good.csv", rows)
    assert gain(given, check_submission(given, tmp_path / "good.csv")) > 1
    SPOILED[fault](rows)
    write_rows(tmp_path / "bad.csv", rows)
    with pytest.raises((AssertionError, ValueError)):
        check_submission(given, tmp_path / "bad.csv")


def test_runs_are_counted_from_one_down_the_columns() -> None:
    assert decode("2 2 6 1", (3, 2)).tolist() == [[0, 0], [1, 0], [1, 1]]
    for runs in ("0 1", "6 2", "1 1 1 1", "1 1 2 1", "3 0", "1"):
        with pytest.raises(AssertionError):
            decode(runs, (3, 2))


TELLING = """
import json, os, sys, __main__
import torch
seen = [sys.argv, os.getcwd(), sorted(os.environ), __name__, __main__.__dict__ is globals(), sys.path[0]]
print(json.dumps(seen))
rows = torch.utils.data.DataLoader(torch.arange(4), num_workers=1)
print(sum(int(row) for row in rows))
sys.exit(3)
"""


def test_a_forked_run_sees_what_a_run_by_python_sees(workshop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TELLING)
    own = {"DATA_DIR": "here"}
    forked = workshop.forks.run(tmp_path, "predict", environment=own)
    plain = plainly(tmp_path, "predict", environment=own)
    assert (forked.status, plain.status) == (3, 3)
    [a, sum_a], [b, sum_b] = forked.log.splitlines(), plain.log.splitlines()
    told_a, told_b = json.loads(a), json.loads(b)
    assert told_a[0][1:] == told_b[0][1:] == ["predict"]
    assert told_a[1:] == told_b[1:]
    assert sum_a == sum_b == "6"
