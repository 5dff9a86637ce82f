"""Which pages are made from the program? `make docs` writes docs/settings.md, the tables of routes
in docs/security.md and of techniques in docs/methods/scripts.md, and the answer in the README anew."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from memory_service.api.security.route_scopes import OPEN, ROUTES
from memory_service.client.config import CLIENT_SETTINGS
from memory_service.domain.common.api_keys import SCOPES, allows
from memory_service.services.operations.database import open_database
from memory_service.services.planning.recommend import recommend
from memory_service.services.planning.script_choice import TECHNIQUES
from memory_service.settings import Settings

__all__ = ["access_table", "settings_page", "with_answer", "with_table", "with_techniques"]

ROOT = Path(__file__).resolve().parent.parent
QUESTION = {"task": "image", "size": "medium", "gpu": "a100"}
SHOWN = (
    ("plan_id", "feasible", "task"),
    ("model",),
    ("batch_size", "grad_accumulation", "precision", "channels_last"),
    ("folds", "epochs", "early_stopping_patience", "optimizer", "learning_rate"),
    ("data_loader",),
)
"""Fields of the answer in the README, a line each."""

EXPECTED = ("peak_memory_gib", "total_minutes")
PARTS = {
    "model": ("name", "image_size", "pretrained"),
    "expected": ("value", "low", "high", "grade"),
    "timetable": ("stage", "deadline_minute"),
}
"""What is shown of a field that has parts."""

OF_TABLES = re.compile("/(competitions|solutions|patterns|models|gpus|strategies|claims)(?=/|$)")
TABLE = re.compile(r"(<!-- routes -->\n).*?(<!-- /routes -->)", re.DOTALL)
OF_SCRIPTS = re.compile(r"(<!-- techniques -->\n).*?(<!-- /techniques -->)", re.DOTALL)
BLOCK = re.compile(r"(<!-- answer -->\n).*?(<!-- /answer -->)", re.DOTALL)


def main() -> None:
    """Write them."""
    (ROOT / "docs" / "settings.md").write_text(settings_page(), encoding="utf-8")
    security = ROOT / "docs" / "security.md"
    security.write_text(with_table(security.read_text(encoding="utf-8")), encoding="utf-8")
    scripts = ROOT / "docs" / "methods" / "scripts.md"
    scripts.write_text(with_techniques(scripts.read_text(encoding="utf-8")), encoding="utf-8")
    readme = ROOT / "README.md"
    with tempfile.TemporaryDirectory() as folder:
        database = open_database(f"sqlite:///{folder}/docs.sqlite3")
        answer = recommend(database, QUESTION)
        database.close()
    readme.write_text(with_answer(readme.read_text(encoding="utf-8"), answer), encoding="utf-8")


def settings_page() -> str:
    """docs/settings.md: every setting with its default and what it does."""
    lines = [
        "# Settings",
        "",
        "Environment variables, read once at start. An empty value counts as not set; a wrong one",
        "is refused. `serve` warns about a `MEMORY_…` variable that nothing reads.",
        "`make docs` writes this page from `memory_service/settings.py`.",
        "",
        "| variable | default | what it does |",
        "|---|---|---|",
    ]
    for name, field in Settings.model_fields.items():
        default = "see right" if field.default is PydanticUndefined else f"`{field.default}`"
        default = "empty" if field.default == "" else default
        lines.append(f"| `MEMORY_{name.upper()}` | {default} | {field.description} |")
    lines += [
        "",
        "## Client",
        "",
        "Read, with MEMORY_HOME, in the process that trains ([client](client.md)).",
    ]
    lines.append("")
    lines += ["| variable | default | what it does |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {f'`{default}`' if default else 'empty'} | {about} |"
        for name, (default, about) in CLIENT_SETTINGS.items()
    ]
    return "\n".join([*lines, ""])


def access_table() -> str:
    """What routes answer to whom, by `api.security.route_scopes`: one row for all that answer alike."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for route, scopes in ROUTES.items():
        method, path = route.split(" ")
        page = path == "/" or path == "/docs" or path.startswith("/browse")
        without = "yes" if scopes == OPEN else "sign in" if method == "GET" and page else "401"
        wrong = "yes" if scopes == OPEN else "401"
        each = ("yes" if scopes == OPEN or allows((scope,), scopes) else "403" for scope in SCOPES)
        routes = alike.setdefault((without, wrong, *each), [])
        name = f"`{OF_TABLES.sub('/TABLE', route)}`"
        if name not in routes:
            routes.append(name)
    lines = ["| routes | no key | not valid | " + " | ".join(SCOPES) + " |", "|---" * (3 + len(SCOPES)) + "|"]
    lines += [f"| {', '.join(routes)} | {' | '.join(answers)} |" for answers, routes in alike.items()]
    return "\n".join([*lines, ""])


def with_table(page: str) -> str:
    """docs/security.md with this table in its place."""
    return TABLE.sub(lambda m: f"{m[1]}\n{access_table()}\n{m[2]}", page)


def with_techniques(page: str) -> str:
    """docs/methods/scripts.md with what scripts do of a recipe in its place."""
    rows = (f"| {each.name} | {each.how} | {each.scripts} |" for each in TECHNIQUES.values())
    table = "\n".join(["| technique | what the script does | scripts |", "|---|---|---|", *rows])
    return OF_SCRIPTS.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", page)


def with_answer(readme: str, answer: dict[str, Any]) -> str:
    """The README with this answer, shortened to ten lines, in its place."""
    lines = ["".join(f"{_text(name)}: {_text(_part(name, answer[name]))}, " for name in row) for row in SHOWN]
    lines.append(f"{_text('expected')}: {{")
    lines += [f" {_text(name)}: {_text(_part('expected', answer['expected'][name]))}, " for name in EXPECTED]
    lines[-1] = lines[-1].rstrip(", ") + "}, "
    first, *between, last = answer["timetable"]
    stages = [_text(_part("timetable", stage)) for stage in (first, between[0], last)]
    lines += [f"{_text('timetable')}: [{stages[0]}, {stages[1]},", f" …, {stages[2]}], …}}"]
    text = "\n ".join(line.rstrip() for line in lines)
    return BLOCK.sub(lambda m: f"{m[1]}```json\n{{{text}\n```\n{m[2]}", readme)


def _part(field: str, value: Any) -> Any:
    return {name: value[name] for name in PARTS[field]} if field in PARTS else value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
