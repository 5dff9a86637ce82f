"""Does the review see what an edit did to the script of a plan?"""

from __future__ import annotations

import re

import pytest

from memory_service.services.planning.plan_script import plan_files, plan_script
from memory_service.services.planning.recommend import recommend
from memory_service.services.review.review import review_script

HUGE = {"n_train": 2_000_000, "n_features": 30, "minutes": 60, "gpu": "a100"}


@pytest.mark.parametrize(("task", "name", "size"), [("image", "IMAGE_SIZE", 1024), ("text", "SEQ_LEN", 4096)])
def test_the_review_sizes_an_input_that_nobody_profiled(seeded_sqlite, task, name, size):
    plan = recommend(seeded_sqlite, {"task": task, "gpu": "t4", "minutes": 60, "n_train": 20_000})
    text = re.sub(rf"^{name} = \d+", f"{name} = {size}", plan_script(plan), flags=re.MULTILINE)
    answer = review_script(seeded_sqlite, {"script": text, "plan": plan})
    (large,) = (one for one in answer["findings"] if one["rule"] == "batch-does-not-fit")
    assert f" at {size} in " in large["message"]
    assert answer["not_checked"] == []


@pytest.mark.parametrize(
    ("asked", "name", "value", "rule"),
    [
        ({"task": "image"}, "NUM_WORKERS", "0", "loader-workers"),
        ({"task": "image"}, "LEARNING_RATE", "1.0", "wrong-parameter"),
        ({"task": "image"}, "PRECISION", '"fp64"', "wrong-parameter"),
        ({"task": "image"}, "PRETRAINED", "False", "wrong-parameter"),
        ({"task": "image"}, "PATIENCE", "0", "wrong-parameter"),
        ({"task": "image"}, "SEED", "None", "wrong-parameter"),
        ({"task": "image"}, "GROUP_BY", '"patient"', "groups-across-folds"),
        ({"task": "text", "gpu": "t4"}, "PRECISION", '"bf16"', "wrong-parameter"),
        ({"task": "text"}, "LEARNING_RATE", "0.01", "wrong-parameter"),
    ],
)
def test_the_review_sees_a_setting_that_makes_no_sense(
    seeded_sqlite, asked, name: str, value: str, rule: str
):
    """In the short file of a folder: a whole one costs twelve times as much."""
    plan = recommend(seeded_sqlite, {"gpu": "a100", "minutes": 60, "n_train": 40_000} | asked)
    short = plan_files(plan)["train.py"]
    text, n = re.subn(rf"^{name} = \S+", f"{name} = {value}", short, flags=re.MULTILINE)
    assert n == 1
    (found,) = review_script(seeded_sqlite, {"script": text, "plan": plan})["findings"]
    shown = text.splitlines()[found["line"] - 1].split(" = ")[0]
    assert (found["rule"], shown) == (rule, "SPLIT" if name == "GROUP_BY" else name)
