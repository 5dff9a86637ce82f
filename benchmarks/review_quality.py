"""Precision and recall of the review of scripts on each labelled set (tests/review/scripts).

    python -m benchmarks.review_quality [--details] [--save FILE] [--against FILE] [--database FILE]

`--save` writes every finding of every script as JSON lines; `--against` shows what differs from such a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.operations import database as databases
from memory_service.services.review.review import review_script
from tests.review.corpus import SETS, Score, details, examples, score, table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--details", action="store_true", help="name each miss and each false alarm")
    parser.add_argument("--save", type=Path, help="write all findings here")
    parser.add_argument("--against", type=Path, help="compare all findings with these")
    parser.add_argument("--database", type=Path, help="a seeded database to use again")
    options = parser.parse_args(arguments)
    by_set: dict[str, Score] = defaultdict(Score)
    total = Score()
    answers: dict[str, Any] = {}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        database = _seeded(options.database or Path(folder) / "review.db")
        for example in examples():
            answer = review_script(database, {"script": example.text, **example.facts})
            answers[example.name] = answer
            one = score(example, answer["findings"])
            by_set[example.set_name] += one
            total += one
        database.close()
    order = {name: f"{at:02} {name}" for at, name in enumerate(("tuning", *SETS))}
    print(table({order[name]: one for name, one in by_set.items()} | {"all": total}))
    print(f"{len(answers)} scripts in {time.process_time() - started:.1f} s of processor time")
    if options.details:
        print(details(total))
    if options.save:
        options.save.write_text(json.dumps(answers, sort_keys=True), "utf-8")
    if options.against:
        return _compare(json.loads(options.against.read_text("utf-8")), answers)
    return 0


def _seeded(path: Path) -> Database:
    """A database with the models' profiles; filled where it is new."""
    database = Database(f"sqlite:///{path}")
    databases.upgrade(database)
    if not seeding.is_seeded(database):
        seeding.seed(database)
    return database


def _compare(before: dict[str, Any], now: dict[str, Any]) -> int:
    """Prints what findings came and went."""
    changed = 0
    for name, answer in now.items():
        was = before.get(name, {"findings": [], "read": {}, "not_checked": []})
        old, new = ({(f["line"], f["rule"], f["message"]) for f in one["findings"]} for one in (was, answer))
        lines = [f"  - {one}" for one in sorted(old - new)] + [f"  + {one}" for one in sorted(new - old)]
        lines += [
            f"  {key}: {was[key]} -> {answer[key]}"
            for key in ("read", "not_checked")
            if was[key] != answer[key]
        ]
        if lines:
            changed += 1
            print("\n".join([name, *lines]))
    print(f"{changed} scripts differ")
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
