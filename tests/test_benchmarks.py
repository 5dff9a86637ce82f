"""What the benchmarks write into pages leaves the rest of the page alone and says what was missed."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import cpu_epochs, events, fit_rates, gpu_validation, many_clients, many_runs, pages
from benchmarks.mlflow_peer import Peer
from benchmarks.page import Section
from memory_service.domain.calibration.corrected_rates import calibrated_rates
from memory_service.services.knowledge.profiling import profile_model, read_profiles
from tests.synthetic import Truth, calibration, references, sheets


def test_a_table_replaces_only_its_own_part_of_the_page() -> None:
    for module in (cpu_epochs, gpu_validation):
        page = f"# Title\n\nbefore\n\n{module.BEGIN}\nold\n{module.END}\n\nafter\n"
        new = module.written(page, f"{module.BEGIN}\nnew \\1\n{module.END}")
        assert new == page.replace("old", "new \\1")
        added = module.written("# Title\n", f"{module.BEGIN}\nnew\n{module.END}")
        assert added.startswith("# Title\n\n")
        assert module.written(added, f"{module.BEGIN}\nnew\n{module.END}") == added


def test_a_part_of_the_page_replaces_itself_alone() -> None:
    own, other = Section("own"), Section("other")
    page = own.written(other.written("# Title\n", other.marked("theirs")), own.marked("old \\1"))
    assert own.written(page, own.marked("new")) == page.replace("old \\1", "new")
    assert page.startswith("# Title\n\n<!-- other -->\ntheirs\n<!-- /other -->\n")


def test_events_are_shown_beside_mlflow_or_why_it_is_missing() -> None:
    both = [events.Figures("SQLite", 1, 6000.0, 10_000.0, 100.0, 80.0)]
    text = events.section(Peer("3.17.2", 5000), both)
    assert "| SQLite | 1 | 6000 | 10000 | **0.60** | 100 | **60.0** | 80 | **75.0** |" in text
    assert "MLflow 3.17.2" in text
    alone = events.section(Peer(why_not="no such release"), [replace(both[0], metrics=None, alike=None)])
    assert "MLflow's server is missing: no such release." in alone
    assert "| **0.60** | — | — | — | — |" in alone


def test_what_grows_with_the_runs_shows_in_its_ratio() -> None:
    slow = many_runs.Figure("`GET /runs`", 0.002, 0.008)
    assert "| `GET /runs` | 8.0 | **4.00** | 8.0 | **4.00** |" in many_runs.section(
        {"SQLite": [slow], "PostgreSQL": [slow]}
    )


def test_a_case_past_its_target_is_said_to_be_missed() -> None:
    case = cpu_epochs.CASES[0]
    good = cpu_epochs.Row(case, 10.0, 8.0, 12.0, 9.0, 0.9, 0.85)
    slow, heavy = replace(good, measured_seconds=7.0), replace(good, measured_gib=1.4)
    assert good.met
    assert not slow.met
    assert not heavy.met
    told = {"status": "done", "budget_seconds": 60.0, "sections": {}, "self_check": None}
    text = cpu_epochs.section(cpu_epochs.Outcome(told, 61.0, [good, slow]))
    assert text.count(": met") == 1
    assert text.count(": missed") == 1
    assert "0.90" in text


def test_the_validation_table_counts_rungs_and_names_what_did_not_fit() -> None:
    gpu = sheets()["a100"]
    found = calibration(gpu, Truth(1))
    card = replace(gpu, calibrated=calibrated_rates(found, (), (), gpu, references()))
    rows = [
        gpu_validation.Row("resnet50", 64, 110.0, 100.0, 10.0, 10.2),
        gpu_validation.Row("resnet50", 4096, 110.0, None, 99.0, None),
    ]
    largest = [gpu_validation.Largest("resnet50", 384, 256), gpu_validation.Largest("swin", 64, None)]
    text = gpu_validation.section(card, found, rows, largest)
    assert "| throughput | 1 | 10.0% |" in text
    assert "out of memory" in text
    assert "| largest batch, rungs of the ladder apart | 1 | 1 | 1 |" in text
    assert "| swin | 64 | not tried |" in text


def test_pages_say_the_widest_ratio_and_the_heaviest_first_paint() -> None:
    text = pages.page([pages.Figure("/a", 0.001, 0.002, 2048), pages.Figure("/b", 0.010, 0.045, 300 * 1024)])
    assert "widest ratio is 4.50 (`/b`, target ≤ 3)" in text
    assert "300 KiB compressed (`/b`, target ≤ 300)" in text
    assert "| `/a` | 1.0 | 2.0 | 1.00 | 2 |" in text


def test_many_clients_count_what_was_refused_lost_or_doubled_and_how_memory_grows() -> None:
    asked = [("ask", 10.0, "200"), ("ask", 20.0, "503"), ("begin", 5.0, "201"), ("events", 7.0, "ReadError")]
    memory = [(n * 5.0, 1000.0 + n) for n in range(20)]
    told, kept = {"a": 10, "b": 5, "c": 1}, {"a": (10, 10), "b": (5, 4)}
    outcome = many_clients.Outcome("SQLite", 200, 100.0, asked, told, kept, memory)
    assert (outcome.lost, outcome.doubled) == (2, 1)
    assert many_clients.slope_per_minute(memory) == pytest.approx(12.0)
    text = many_clients.page([outcome])
    assert "errors: ask: 1 x 503; events: 1 x ReadError" in text
    assert "| ask | 2 | 1 |" in text
    assert "+12.0 MiB a minute" in text


@pytest.mark.parametrize("name", ["kept.jsonl", "kept.jsonl.gz"])
def test_profiles_traced_for_a_fit_are_added_to_those_kept(tmp_path: Path, name: str) -> None:
    table = tmp_path / "rows.csv"
    table.write_text(
        "gpu,model,precision,layout,batch,image_size_or_seq_len,mode,samples_per_s,notes\n"
        "rtx3090,resnet10t,amp-fp16,nhwc,64,64,train,9000,torch 1.12\n",
        encoding="utf-8",
    )
    kept = tmp_path / name
    with gzip.open(kept, "wt") if kept.suffix == ".gz" else kept.open("w") as out:
        out.write(json.dumps(profile_model("resnet18", input_size=64).as_dict()) + "\n")
    (row,) = fit_rates.load([table], kept, sheets(), {})
    assert row[1].model == "resnet10t"
    assert [profile.model for profile in read_profiles(kept)] == ["resnet18", "resnet10t"]
