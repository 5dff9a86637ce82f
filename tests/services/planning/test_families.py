"""The table of families in docs/methods/models.md says what the service answers."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl

from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from memory_service.services.planning.script_choice import has_script

DOCS = Path(__file__).parents[3] / "docs" / "methods" / "models.md"
ROW = re.compile(r"^\| ([^|]+) \| `(task=[^`]+)` \| (yes|no) \| (yes|no) \| [^|]+ \|$", re.MULTILINE)


def test_each_family_has_the_plan_and_the_script_that_the_table_says(seeded_sqlite: Database) -> None:
    rows = ROW.findall(DOCS.read_text(encoding="utf-8"))
    assert len(rows) > 50
    wrong = []
    for family, question, plan, script in rows:
        asked = {k: int(v) if v.isdigit() else v for k, v in parse_qsl(question.replace(" ", "&"))}
        answer = recommend(seeded_sqlite, asked)
        found = tuple("yes" if each else "no" for each in (answer["feasible"], has_script(answer)))
        if found != (plan, script):
            wrong.append((family, found, answer.get("why")))
    assert not wrong
