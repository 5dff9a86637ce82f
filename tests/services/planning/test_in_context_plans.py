"""Plans of tables in context and of forecasting models: when they are planned, and why not."""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.rank import rank
from memory_service.services.planning.recommend import recommend

TABLE = {"task": "tabular-classification", "n_train": 20_000, "gpu": "a100", "minutes": 30}
SERIES = {"task": "time-series-regression", "n_train": 100_000, "gpu": "a100", "minutes": 30, "horizon": 28}


def models(answer: dict[str, Any]) -> set[str]:
    return {answer["model"]["name"], *(run["model"] for run in answer["portfolio"])}


def codes(answer: dict[str, Any]) -> set[str]:
    return {each["code"] for each in answer["warnings"] if isinstance(each, dict)}


def test_a_table_of_like_rows_on_a_card_is_read_in_context_beside_trees(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, TABLE)
    assert "tabicl-v2" in models(answer)
    assert models(answer) & {"lightgbm", "catboost", "xgboost"}
    assert answer["expected"]["peak_memory_gib"]["value"] > 0.5


@pytest.mark.parametrize(
    "more",
    [
        {"weights": "none"}, {"gpu": "cpu"}, {"n_train": 200_000}, {"n_groups": 40, "group_by": "site"},
        {"n_features": 3_000},
    ],
)  # fmt: skip
def test_where_it_cannot_be_had_or_is_known_to_lose_trees_are_planned(
    seeded_sqlite: Database, more: dict[str, Any]
) -> None:
    assert "tabicl-v2" not in models(recommend(seeded_sqlite, TABLE | more))


def test_models_whose_licence_forbids_or_a_hand_must_fetch_are_planned_when_named_alone(
    seeded_sqlite: Database,
) -> None:
    assert not any(name.startswith("tabpfn") for name in models(recommend(seeded_sqlite, TABLE)))
    pinned = TABLE | {"model": "tabpfn-3"}
    assert recommend(seeded_sqlite, pinned)["feasible"]
    refused = recommend(seeded_sqlite, pinned | {"licence": "commercial"})
    assert refused["why"] == "licence=commercial leaves out tabpfn-3."
    assert recommend(seeded_sqlite, TABLE | {"licence": "commercial"})["feasible"]


def test_a_refusal_names_its_true_cause(seeded_sqlite: Database) -> None:
    refused = recommend(seeded_sqlite, TABLE | {"model": "tabpfn-v2"})
    assert refused["why"] == "Limit: tabpfn-v2 takes at most 10,000 rows, not 20,000."
    assert refused["closest"]["set"] == {"n_train": 10_000}
    large = {"n_train": 100_000, "n_features": 300, "gpu": "t4", "model": "tabpfn-2.6"}
    assert recommend(seeded_sqlite, TABLE | large)["why"].startswith("Memory: tabpfn-2.6 takes ")
    on_cores = recommend(seeded_sqlite, TABLE | {"gpu": "cpu", "model": "tabpfn-3"})
    assert on_cores["why"] == "Limit: tabpfn-3 takes at most 5,000 rows on a processor, not 20,000."
    assert on_cores["closest"]["set"] == {"n_train": 5_000}
    far = recommend(seeded_sqlite, SERIES | {"model": "chronos-2", "horizon": 3_000})
    assert far["why"] == "Limit: chronos-2 takes at most 1,024 steps of horizon, not 3,000."


def test_grouped_rows_are_warned_of(seeded_sqlite: Database) -> None:
    grouped = TABLE | {"model": "tabicl-v2", "n_groups": 40, "group_by": "site"}
    answer = recommend(seeded_sqlite, grouped)
    assert any("drawn alike" in str(each) for each in answer["warnings"])


def test_series_that_go_on_are_forecast_without_training(seeded_sqlite: Database) -> None:
    answer = recommend(seeded_sqlite, SERIES | {"n_series": 300})
    assert answer["model"]["name"] == "chronos-2"
    assert {"horizon", "n_series"} <= {fact["name"] for fact in answer["facts"]}
    assert "none of fev-bench" in next(w["text"] for w in answer["warnings"] if w["code"] == "pretrained-on")
    on_cores = recommend(seeded_sqlite, SERIES | {"n_series": 300, "gpu": "cpu"})
    assert on_cores["model"]["name"] == "chronos-bolt-base"
    offline = recommend(seeded_sqlite, SERIES | {"weights": "none"})
    assert "chronos-2" not in models(offline)
    assert models(offline) & {"lightgbm", "catboost", "xgboost"}


@pytest.mark.parametrize(
    "model",
    ["chronos-bolt-base", "timesfm-2.5", "timesfm-2.0", "tirex-2", "toto-2", "toto-1.0", "moirai-2",
     "flowstate", "patchtst", "tft", "deepar", "nhits",
     "autoets", "theta", "seasonal-naive", "autogluon-best"],
)  # fmt: skip
def test_each_forecaster_has_a_plan_and_says_whether_it_has_a_script(
    seeded_sqlite: Database, model: str
) -> None:
    asked = SERIES | {"model": model, "n_series": 100, "n_train": 20_000, "minutes": 120}
    answer = recommend(seeded_sqlite, asked)
    assert answer["feasible"], answer.get("why")
    unscripted = any("There is no script" in str(each) for each in answer["warnings"])
    scripted = model in ("chronos-bolt-base", "timesfm-2.5", "toto-2", "autoets", "theta", "seasonal-naive")
    assert unscripted is not scripted
    if scripted:
        compile(plan_script(answer, single=True), "train.py", "exec")


@pytest.mark.parametrize(
    ("model", "hub"),
    [("tabicl-v2", ""), ("tabpfn-2.5", ""), ("chronos-2", "amazon/chronos-2"),
     ("timesfm-2.5", "google/timesfm-2.5-200m-pytorch"), ("toto-2-22m", "Datadog/Toto-2.0-22m")],
)  # fmt: skip
def test_their_scripts_say_where_weights_are_from(seeded_sqlite: Database, model: str, hub: str) -> None:
    asked = (SERIES if hub else TABLE) | {"model": model}
    script = plan_script(recommend(seeded_sqlite, asked))
    assert 'WEIGHTS = os.environ.get("WEIGHTS", "hub")' in script
    assert 'PLANNED_FROM = "' in script
    assert (f'HUB_NAME = "{hub}"' in script) is bool(hub)


def test_rank_knows_forecasters_and_judges_trees_beside_them_as_such(seeded_sqlite: Database) -> None:
    names = ["lightgbm", "chronos-2", "Moirai-2.0", "Seasonal_Naive", "Auto_Theta", "TFT"]
    rows = [{"dataset": "a", "task": "time-series-regression", "model": name} for name in names]
    found = rank(seeded_sqlite, rows)
    assert [row["rank"] for row in found if row["model"] == "chronos-2"] == [1]
    assert all(row["quality"] for row in found)
    order = sorted(found, key=lambda row: row["rank"])
    assert order[-1]["model"] in ("Seasonal_Naive", "Auto_Theta")
    alone = rank(seeded_sqlite, [rows[0]])[0]["quality"]["value"]
    assert alone != found[0]["quality"]["value"], "no forecaster, no horizon: a series has one answer"
    ahead = rank(seeded_sqlite, [rows[0] | {"horizon": 28}])[0]["quality"]["value"]
    assert ahead == found[0]["quality"]["value"]
