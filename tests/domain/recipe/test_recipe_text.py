"""Is a recipe told in few words, each with where it is from?"""

from __future__ import annotations

from typing import Any

from memory_service.domain.planning.explanation.plan_text import MOST_TOKENS, plan_markdown, rough_tokens
from memory_service.domain.recipe.recipe_text import (
    LONGEST,
    lesson_lines,
    recipe_lines,
    split_setting,
    undone_lines,
)
from tests.planning import plan

FROM = ["lungs-2021#1", "lungs-2021#2"]


def vote(name: str, share: float, **more: Any) -> dict[str, Any]:
    return {"name": name, "share": share, "lift": 2.0, "n": 3, "from": FROM, **more}


def technique(name: str, stage: str, in_script: bool) -> dict[str, Any]:
    return vote(name, 0.5, stage=stage, in_script=in_script, setting=f"Do {name}.")


def lessons(*texts: str) -> list[dict[str, Any]]:
    return [{"text": text, "from": ["lungs-2021#1"]} for text in texts]


RECIPE: dict[str, Any] = {
    "validation": {
        "split": "group", "by": "patient", "folds": 4, "why": 'The text says "of 300 patients".',
        "from": FROM, "grade": "claimed",
    },
    "families": [vote("resnet", 0.62, planned="resnet50"), vote("vit", 0.3, lift=None, planned=None)],
    "techniques": [technique("tta", "after", False), technique("mean-blend", "ensemble", True)],
    "loss": [vote("focal", 0.4)],
    "features": [],
    "mattered": lessons("Larger pictures", "Clean labels", "Seeds", "A fourth thing"),
    "failed": lessons("Mixup"),
    "pitfalls": lessons("Scanners differ\nbetween sites"),
    "basis": "9 of 80 known solutions, from 4 similar competitions",
}  # fmt: skip
TARGETS = {
    "metric": "AUC",
    "direction": "max",
    "by_rank": [{"rank": 2, "score": 0.951, "from": "lungs-2021#2"}],
}


def test_each_line_says_what_how_often_and_where_it_is_from():
    assert list(recipe_lines({"recipe": RECIPE, "targets": TARGETS})) == [
        'validation: group by patient, 4 folds. The text says "of 300 patients". [lungs-2021#1]',
        "families: resnet 62 % (x2), vit 30 % [lungs-2021#1, lungs-2021#2]",
        "loss: focal 40 %",
        "ensemble: mean-blend 50 % (in the script)",
        "after: tta 50 %",
        "targets: AUC (higher is better): rank 2 0.951 [lungs-2021#2]",
    ]
    assert lesson_lines({"recipe": RECIPE}) == [
        'mattered: "Larger pictures" [lungs-2021#1]',
        'failed: "Mixup" [lungs-2021#1]',
        'pitfalls: "Scanners differ between sites" [lungs-2021#1]',
        'mattered: "Clean labels" [lungs-2021#1]',
        'mattered: "Seeds" [lungs-2021#1]',
    ]


def test_a_plan_without_a_recipe_reads_as_it_did():
    answer = plan(task="image", size="medium", gpu="a100")
    new = ("recipe", "targets", "split", "group_by")
    old = {name: value for name, value in answer.items() if name not in new}
    assert plan_markdown(old) == plan_markdown({**old, "recipe": None, "targets": None})
    assert "won" not in plan_markdown(old)
    assert undone_lines(old) == []
    assert split_setting(old) == ("stratified", None)
    assert split_setting({**old, "task": "tabular-regression"}) == ("random", None)


def test_warnings_come_first_then_the_plan_then_the_recipe_and_none_is_lost_to_sentences_of_winners():
    answer = plan(task="image", size="medium", gpu="a100", minutes=30)
    answer |= {"recipe": RECIPE | {"mattered": lessons(*["so and so " * 40] * 5)}, "targets": TARGETS}
    mind = {"code": "gap", "text": "Mind the gap.", "severity": "warning", "values": {}}
    answer |= {"warnings": [mind]}
    text = plan_markdown(answer)
    assert rough_tokens(text) <= MOST_TOKENS
    told = [
        "- WARNING: Mind the gap",
        "folds=",
        "How similar ones were won (9 of 80",
        "- validation: group by patient",
    ]
    assert [text.index(each) for each in told] == sorted(text.index(each) for each in told)
    assert all(len(line) < LONGEST + 60 for line in text.splitlines() if line.startswith("- mattered"))


def test_a_refusal_tells_the_recipe_too():
    refusal = plan(task="image", size="large", gpu="t4", minutes=1) | {"recipe": RECIPE}
    assert not refusal["feasible"]
    assert "- validation: group by patient, 4 folds." in plan_markdown(refusal)


def test_a_script_names_only_what_it_does_not_do():
    text = "\n".join(undone_lines({"recipe": RECIPE}))
    assert "tta 50 %: Do tta. [lungs-2021#1]" in text
    assert "mean-blend" not in text
    assert split_setting({"recipe": RECIPE}) == ("group", "patient")
