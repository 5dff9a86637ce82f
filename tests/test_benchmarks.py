"""What the benchmarks write into pages leaves the rest of the page alone and says what was missed."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import (
    fit_rates,
    gpu_validation,
    kill_matrix,
    many_clients,
    review_signatures,
    soak,
)
from benchmarks.gpu_training import Case
from benchmarks.page import Section
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.prediction.device_step_time import prepare, rates_of
from memory_service.services.knowledge.profiling import profile_model, read_profiles
from tests.synthetic import sheets


def test_a_part_of_the_page_replaces_itself_alone() -> None:
    own, other = Section("own"), Section("other")
    page = own.written(other.written("# Title\n", other.marked("theirs")), own.marked("old \\1"))
    assert own.written(page, own.marked("new")) == page.replace("old \\1", "new")
    assert page.startswith("# Title\n\n<!-- other -->\ntheirs\n<!-- /other -->\n")
    assert own.written(page, own.marked("old \\1")) == page


def recorded(name: str) -> list[str]:
    """Lines recorded on a real H200 on 2026-11-26."""
    return (Path(gpu_validation.__file__).parent / "data" / "h200" / name).read_text().splitlines()


def test_the_validation_compares_what_was_predicted_of_a_recorded_card() -> None:
    found = gpu_validation.calibration_of(recorded("calibration.jsonl"))
    sheet, calibrated = gpu_validation.cards_of(found)
    assert sheet.slug == "h200"
    assert calibrated.calibrated is not None
    line = next(line for line in map(json.loads, recorded("training.jsonl")) if line["case"].get("method"))
    rows, largest = gpu_validation.compared([line, {"case": line["case"], "error": "no"}], sheet, calibrated)
    assert [row.batch for row in rows] == line["case"]["batches"]
    assert largest == []
    assert all(row.allocated[0] == pytest.approx(row.allocated[1], rel=0.03) for row in rows)
    tried = [gpu_validation.Largest(rows[0].model, 384, 256)]
    text = gpu_validation.section(
        found, "2026-11-26", rows, tried, [gpu_validation.Side(("a", "b"), 1.5, 1.2)]
    )
    assert "NVIDIA H200 (driver 580.159.04, torch 2.11.0+cu130" in text
    assert "| 256 (384) |" in text
    assert "| a + b | 1.50 | 1.20 |" in text


@pytest.mark.parametrize(
    ("model", "batch", "milliseconds"), [("resnet50", 256, 56.1), ("vit_base_patch16_224", 256, 93.0)]
)
def test_a_card_whose_reference_networks_wait_for_the_host_is_not_taken_for_another(
    model: str, batch: int, milliseconds: float
) -> None:
    """Its launches were taken for the card's and its arithmetic for free: ViT came out a third too fast."""
    _, card = gpu_validation.cards_of(gpu_validation.calibration_of(recorded("calibration.jsonl")))
    profile = gpu_validation.profile_of(Case(model, (batch,)))
    step = prepare(profile, card, StepConfig("bf16"))
    assert step.seconds(batch) * 1e3 == pytest.approx(milliseconds, rel=0.15)
    assert 20e-6 < rates_of(card, StepConfig("bf16")).host_seconds < 45e-6


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


def test_kills_count_what_is_missing_and_what_is_there_too_often() -> None:
    result = kill_matrix.Result("backup", "SQLite", kills=4, alive=3)
    result.compare(Counter({"runs": 3, "a:1:epoch": 1}), Counter({"runs": 3, "a:1:epoch": 1}))
    assert (result.lost, result.doubled) == (0, 0)
    result.compare(Counter({"runs": 3, "a:1:epoch": 1}), Counter({"runs": 1, "a:1:epoch": 2}))
    assert (result.lost, result.doubled) == (2, 1)
    assert result.row == "| `backup` | SQLite | 4 | 3 | 2 | 1 | 0 |"


def test_a_soak_fails_by_a_lost_event_a_5xx_and_memory_that_goes_on_growing() -> None:
    flat = [(n * 5.0, 400.0 if n < 20 else 500.0, 14.0, 40.0) for n in range(100)]
    asked = [("ask", 10.0, "200"), ("log", 20.0, "429")]
    sound = many_clients.Outcome("SQLite", 2, 495.0, asked, {"a": 5}, {"a": (5, 5)}, flat)
    assert soak.failures(sound) == [], "refused is not failed, and growth while caches fill is none"
    growing = [(n * 5.0, 400.0 + 2 * n, 14.0, 40.0) for n in range(100)]
    worse = replace(sound, asked=[*asked, ("ask", 1.0, "500")], kept={"a": (4, 4)}, memory=growing)
    assert soak.failures(worse) == [
        "1 acknowledged events are lost",
        "1 requests failed: ask: 1 x 500; log: 1 x 429",
        "memory grew by 16% over the second half",
    ]


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


def test_parameters_of_an_installed_library_stand_before_what_a_release_before_took() -> None:
    taken = review_signatures.parameters("sklearn.model_selection.KFold")
    assert taken == ["n_splits", "shuffle", "random_state"]
    assert review_signatures.merged(taken, ["indices", "shuffle"])[3:] == ["indices"]
    assert review_signatures.parameters("sklearn.no_such.Call") is None
