"""Precision and recall of the review of scripts on each labelled set (tests/review/scripts).

    python -m benchmarks.review_quality [--details] [--save FILE] [--against FILE] [--database FILE]
        [--public FOLDER]

`--save` writes every finding of every script as JSON lines; `--against` shows what differs from such a file.
`--public` reads the public texts of data/review_public.json that are in FOLDER instead. They are
not kept here; its labels name repository, path and commit. A label is found by a finding of one of its rules
at a line that holds one of its `at`; `wrong` are findings that were judged wrong by hand.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from memory_service.review.findings import RULES
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
    parser.add_argument("--public", type=Path, help="the folder with the public texts")
    options = parser.parse_args(arguments)
    by_set: dict[str, Score] = defaultdict(Score)
    total = Score()
    answers: dict[str, Any] = {}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        database = _seeded(options.database or Path(folder) / "review.db")
        if options.public:
            return _public(database, options.public, options.details)
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
        print(_by_rule(total))
        print(details(total))
    if options.save:
        options.save.write_text(json.dumps(answers, sort_keys=True), "utf-8")
    if options.against:
        return _compare(json.loads(options.against.read_text("utf-8")), answers)
    return 0


def _by_rule(score: Score) -> str:
    """Found, missed and wrong findings of each rule."""
    counts = [Counter(rule for rule, _ in found) for found in (score.found, score.missed, score.false)]
    return "\n".join(f"{name:32} {' '.join(f'{each[name]:6}' for each in counts)}" for name in RULES)


def _public(database: Database, folder: Path, details: bool) -> int:
    """Prints precision of findings and recall of labels, for errors and for warnings."""
    shown: Counter[tuple[str, bool]] = Counter()
    labels: Counter[tuple[str, bool]] = Counter()
    facts: Counter[bool] = Counter()
    for text in json.loads(_PUBLIC.read_text("utf-8")):
        if not (folder / text["text"]).exists():
            continue
        script = (folder / text["text"]).read_text("utf-8")
        answer = review_script(database, {"script": script})
        cells = json.loads(script)["cells"] if text["text"].endswith(".ipynb") else [{"source": script}]
        of_cells = [["", *"".join(cell["source"]).splitlines()] for cell in cells]
        for one in answer["findings"]:
            line = of_cells[(one.get("cell") or 1) - 1][one["line"]]
            wrong = any(one["rule"] == rule and at in line for rule, at in text.get("wrong", []))
            shown[one["severity"], not wrong] += 1
            if details and wrong:
                print(f"{text['text']} wrong: {one['line']} {one['rule']}")
        for label in text["findings"]:
            found = any(
                one["rule"] in label["rules"]
                and any(
                    at in text_line
                    for at in label["at"]
                    for text_line in of_cells[(one.get("cell") or 1) - 1][one["line"] : one["end_line"] + 1]
                )
                for one in answer["findings"]
            )
            labels[label["severity"], found] += 1
            if details and not found:
                print(f"{text['text']} missed: {label['severity']} {label['what']}")
        for key, value in text["facts"].items():
            told = answer["read"].get(key)
            facts[told == value or (key == "model" and str(value) in str(told))] += 1
    for kind in ("error", "warning"):
        every, named = (count[kind, True] + count[kind, False] for count in (shown, labels))
        print(f"{kind}s: {shown[kind, True]} of {every} right, {labels[kind, True]} of {named} labels found")
    print(f"facts: {facts[True]} of {facts.total()} read")
    return 0


_PUBLIC = Path(__file__).parent / "data" / "review_public.json"


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
