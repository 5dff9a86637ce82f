"""One folder for each trial of a script: its text, its data, its output, and the ways to run it."""

from __future__ import annotations

import csv
import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from tests.scripts.harness.data import Data, Size
from tests.scripts.harness.kinds import KINDS, OTHERS, TINY_BERT, Kind, asked, cut_down, tiny_models
from tests.scripts.harness.runner import Ended, Forks, plainly
from tests.scripts.harness.submission import check_submission

__all__ = ["Trial", "Workshop"]

NOBODY = "http://127.0.0.1:9"
ALL = KINDS | OTHERS


@dataclass
class Trial:
    """`folder` holds train.py and, once it has run, out/ and log.txt; `data` may be shared: only to read."""

    folder: Path
    kind: Kind
    plan: Mapping[str, Any]
    data: Data
    forks: Forks
    own: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def submission(self) -> Path:
        return self.out / "submission.csv"

    @property
    def environment(self) -> dict[str, str]:
        reporting = {
            "MEMORY_SERVER": NOBODY,
            "MEMORY_HOME": str(self.folder / "memory"),
            "MEMORY_FLUSH_SECONDS": "0.05",
        }
        if self.kind.minutes:
            reporting["MINUTES"] = str(self.kind.minutes)
        return reporting | {"DATA_DIR": str(self.data.folder), "OUT_DIR": str(self.out)} | self.own

    def train(self, **fault: Any) -> Ended:
        return self.forks.run(self.folder, environment=self.environment, **fault)

    def predict(self, **fault: Any) -> Ended:
        return self.forks.run(self.folder, "predict", environment=self.environment, **fault)

    def plainly(self, *arguments: str) -> Ended:
        return plainly(self.folder, *arguments, environment=self.environment)

    def checkpoints(self) -> list[str]:
        """The names of what a fold left, in order; not its temporary files."""
        ends = (".pt", ".txt", ".json", ".cbm", ".joblib")
        return sorted(path.name for path in self.out.glob("fold_*") if path.suffix in ends)

    def cells(self) -> dict[str, list[str]]:
        """Of the submission, which must be valid."""
        return check_submission(self.data, self.submission)

    def anew(self) -> None:
        """As if it had never run."""
        for path in (self.out, self.folder / "memory"):
            shutil.rmtree(path, ignore_errors=True)
        (self.folder / "log.txt").unlink(missing_ok=True)

    def logged_bytes(self) -> int:
        """Bytes that a run has logged so far; -1 before it began."""
        try:
            return (self.folder / "log.txt").stat().st_size
        except FileNotFoundError:
            return -1


@dataclass
class Workshop:
    folder: Path
    database: Database
    forks: Forks
    _plans: dict[str, dict[str, Any]] = field(default_factory=dict)
    _scripts: dict[str, str] = field(default_factory=dict)
    _data: dict[tuple[str, Size], Data] = field(default_factory=dict)
    _numbers: Any = field(default_factory=itertools.count)
    _models: Path | None = None

    def trial(
        self,
        name: str,
        *,
        size: Size | None = None,
        spoil: Callable[[Path], object] | None = None,
        own: Mapping[str, str] | None = None,
        **changes: Any,
    ) -> Trial:
        """Of the kind of that name. `spoil` gets a copy of the data's folder; `changes` go into the plan."""
        kind = ALL[name]
        plan = self.plan(name, **changes)
        if plan.get("method") in ("lora", "qlora"):
            pytest.importorskip("peft")
        folder = self.folder / f"{name}-{next(self._numbers)}"
        folder.mkdir()
        text = self._script(plan)
        for old, new in kind.edits.items():
            text = text.replace(old, new)
        (folder / "train.py").write_text(text, encoding="utf-8")
        data = self.data(name, size or kind.rows)
        if spoil is not None:
            shutil.copytree(data.folder, folder / "data")
            spoil(folder / "data")
            data = Data(folder / "data", data.form, data.ids, data.columns, data.truth, data.seen)
        return Trial(folder, kind, plan, data, self.forks, dict(own or {}))

    def short_trial(self, name: str, **more: Any) -> Trial:
        """All steps of a training, in as little time as they take."""
        return self.trial(name, size=ALL[name].few, **{"epochs": ALL[name].few_epochs, **more})

    def plan(self, name: str, **changes: Any) -> dict[str, Any]:
        kind = ALL[name]
        if name not in self._plans:
            self._plans[name] = asked(self.database, kind)
        return cut_down(self._plans[name], kind, self.models, **changes)

    def data(self, name: str, size: Size) -> Data:
        if (name, size) not in self._data:
            self._data[name, size] = ALL[name].write(self.folder / f"data-{len(self._data)}", size)
        return self._data[name, size]

    @property
    def models(self) -> Path:
        """The folder of those that are too small for any hub."""
        if self._models is None:
            tiny_models(self.folder)
            self._models = self.folder
        return self._models

    @property
    def bert(self) -> Path:
        return self.models / TINY_BERT

    def _script(self, plan: Mapping[str, Any]) -> str:
        key = json.dumps(plan, sort_keys=True)
        if key not in self._scripts:
            self._scripts[key] = plan_script(plan, single=True)
        return self._scripts[key]


def rows_of(path: Path) -> list[list[str]]:
    """Of a CSV file, its header first."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def write_rows(path: Path, rows: list[list[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)
