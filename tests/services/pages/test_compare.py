"""Does the column of a running run say what the list and the run's page say?"""

from __future__ import annotations

import datetime as dt

from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.pages.choose import compare_page
from memory_service.services.pages.run_list import runs_page
from memory_service.services.pages.runs import one_run_page
from memory_service.services.runs.runs import begin_run, run_page
from tests.telling import take_events

BEGUN = dt.datetime(2026, 11, 1, 12, 0, tzinfo=dt.UTC)


def test_a_running_run_is_compared_with_what_it_has_reached(seeded_sqlite: Database) -> None:
    slug = "cassava-leaf-disease-classification"
    facts = {
        "task": "image-classification",
        "gpu": "t4",
        "model": "resnet50",
        "minutes": 60,
        "competition": slug,
    }
    key = begin_run(seeded_sqlite, {**facts, "started_at": BEGUN.isoformat(), "batch_size": 32})[0]["run_id"]
    events = [
        {"seq": n, "kind": "epoch", "at": (BEGUN + dt.timedelta(minutes=5 * n + 5)).isoformat(), "fold": 0,
         "epoch": n, "seconds": 290.0, "metric": metric, "samples": 9_000}
        for n, metric in enumerate((0.8, 0.9, 0.85))
    ]  # fmt: skip
    take_events(seeded_sqlite, key, {"events": events})
    now = BEGUN + dt.timedelta(minutes=40)
    (listed,) = [row for row in runs_page(seeded_sqlite, {}, now)["items"] if row["id"] == key]
    shown = compare_page(seeded_sqlite, knowledge_of(seeded_sqlite), [key], now)
    told = {line["name"]: line["values"][0] for line in shown["results"]}
    watch = run_page(seeded_sqlite, key)["watch"]
    own = one_run_page(seeded_sqlite, knowledge_of(seeded_sqlite), key, now)
    assert (own["best_so_far"], own["latest_metric"]) == (0.9, 0.85)
    assert abs(told["took_minutes"] - listed["took_minutes"]) < 0.01
    assert told["took_minutes"] == watch["used_minutes"]
    assert told["best_metric"] == listed["best_so_far"] == 0.9
    assert told["best_epoch"] == 1
    assert told.get("samples_per_second") == watch["samples_per_second"]
    assert told["epoch_seconds"] == 290.0
