"""Public measurements are predicted row by row; a row that cannot be says why and stops nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.accuracy import (
    Summary,
    markdown,
    summarise,
    with_sections,
)
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import gpu_from_row
from memory_service.domain.learning.measured_rows import parse_row
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.errors import InvalidInput, MemoryServiceError
from memory_service.resources import path
from memory_service.services.knowledge.profiling import profile_model, read_profiles
from memory_service.services.prediction.evaluate import evaluate_rows, learn_from_rows, read_rows
from memory_service.services.prediction.profile_store import ProfileKey, ProfileStore

DATA = Path(__file__).parents[3] / "benchmarks" / "data" / "oracle_profiles.jsonl.gz"
ORACLES = Path(__file__).parents[3].parent / "shared" / "oracles"
HEADER = (
    "source,gpu,vram_gib,model,precision,layout,batch,image_size_or_seq_len,mode,samples_per_s,peak_gib,notes"
)
LADDER = "first batch that fits of 512 384 256 192 128 96 64 48 32 24 16 12 8 6; torch 1.12; SGD"


class NoTracing(ProfileStore):
    """A shelf that holds what it was given and traces nothing."""

    def _trace(self, key: ProfileKey) -> Profile:
        raise MemoryServiceError(f"{key.model} is not on the shelf")


@pytest.fixture(scope="module")
def profiles() -> list[Profile]:
    return list(read_profiles(DATA))


@pytest.fixture(scope="module")
def gpus() -> dict[str, TargetDevice]:
    with (path("seeds") / "gpus.jsonl").open(encoding="utf-8") as lines:
        return {gpu.slug: gpu for gpu in (target_device(gpu_from_row(json.loads(line))) for line in lines)}


def table(tmp_path: Path, *rows: str) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("\n".join((HEADER, *rows)) + "\n", encoding="utf-8")
    return file


def test_a_row_is_read_with_what_its_notes_say() -> None:
    row = parse_row(
        {
            "model": "resnet50", "gpu": "rtx3090", "precision": "amp-fp16", "layout": "nhwc", "batch": "512",
            "image_size_or_seq_len": "224", "mode": "train", "samples_per_s": "1218.1", "notes": LADDER,
        }
    )  # fmt: skip
    assert (row.precision, row.layout, row.optimizer, row.torch_before_2) == ("fp16", "nhwc", "sgd", True)
    assert row.largest == 512
    assert row.ladder is not None
    assert row.ladder[-3:] == (256, 384, 512)


@pytest.mark.parametrize(
    ("stated", "meant"),
    [
        ("amp", "fp16"), ("amp-bf16", "bf16"), ("fp32(tf32 on Ampere+)", "fp32-or-tf32"),
        ("fp32-noTF32", "fp32"), ("tf32", "tf32"), ("fp16-amp+grad ckpt", "fp16"), ("", "fp32"),
    ],
)  # fmt: skip
def test_precisions_of_measurement_files_are_understood(stated: str, meant: str) -> None:
    assert parse_row({"model": "m", "precision": stated}).precision == meant


def test_rows_that_cannot_be_predicted_say_why_and_stop_nothing(
    tmp_path: Path, profiles: list[Profile], gpus: dict[str, TargetDevice]
) -> None:
    file = table(
        tmp_path,
        f"x,rtx3090,24,resnet50,amp-fp16,nhwc,512,224,train,1218,,{LADDER}",
        "x,rtx3091x,24,resnet50,amp,nhwc,512,224,train,1218,,",
        "x,rtx3090,24,resnotnet,amp,nhwc,512,224,train,1218,,",
        "x,v100-sxm(8x),,resnet50,amp,nhwc,512,224,train,1218,,",
        "x,rtx3090,24,resnet50,amp,nhwc,512,224,train,many,,",
        "x,rtx3090,24,,amp,nhwc,512,224,train,1,,",
    )
    profile_store = NoTracing({}, profiles)
    good, *bad = evaluate_rows(read_rows(file), profile_store, gpus)
    assert set(good.as_dict()["predicted"]) == {"max_batch_size", "samples_per_s", "peak_gib"}
    assert good.predicted["max_batch_size"].value == 512
    assert [row.predicted for row in bad] == [{}] * 5
    reasons = " | ".join(row.why_not or "" for row in bad)
    for word in ("rtx3091x", "resnotnet", "Several cards", "samples_per_s", "names no model"):
        assert word in reasons


def test_an_intervals_low_batch_is_planned_and_high_is_hoped_for(
    profiles: list[Profile], gpus: dict[str, TargetDevice], tmp_path: Path
) -> None:
    file = table(tmp_path, f"x,rtx3090,24,resnet50,amp-fp16,nhwc,512,224,train,1218,,{LADDER}")
    (row,) = evaluate_rows(read_rows(file), NoTracing({}, profiles), gpus)
    for estimate in row.predicted.values():
        assert 0 < estimate.low <= estimate.value <= estimate.high


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "\x00\x01"])
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput):
        read_rows(file)


def test_what_is_missing_is_traced_once_and_kept(
    monkeypatch: pytest.MonkeyPatch, profiles: list[Profile]
) -> None:
    kept: list[Profile] = []
    calls: list[str] = []

    def traced(name: str, **_: object) -> Profile:
        calls.append(name)
        return replace(profiles[0], model=name)

    monkeypatch.setattr("memory_service.services.prediction.profile_store.profile_model", traced)
    profile_store = ProfileStore({}, (), kept.extend)
    key = ProfileKey("resnet18", 224, "amp")
    assert profile_store.get(key) is profile_store.get(key)
    profile_store.close()
    assert calls == ["resnet18"]
    assert [p.model for p in kept] == ["resnet18"]


def test_a_refusal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def refused(name: str, **_: object) -> Profile:
        calls.append(name)
        raise InvalidInput("cannot be traced")

    monkeypatch.setattr("memory_service.services.prediction.profile_store.profile_model", refused)
    profile_store = ProfileStore({})
    for _ in range(2):
        with pytest.raises(InvalidInput):
            profile_store.get(ProfileKey("resnet18", 224, "amp"))
    assert calls == ["resnet18"]


def row_of(gpu: str, model: str, rate: float, **more: str) -> str:
    cells = {"precision": "amp-fp16", "layout": "nhwc", "batch": "64", "peak": "", "notes": "", **more}
    return (
        f"x,{gpu},24,{model},{cells['precision']},{cells['layout']},{cells['batch']},224,train,{rate},"
        f"{cells['peak']},{cells['notes']}"
    )


def rates(file: Path, profiles: list[Profile], gpus: dict[str, TargetDevice]) -> list[float]:
    rows = evaluate_rows(read_rows(file), NoTracing({}, profiles), gpus)
    return [row.predicted["samples_per_s"].value for row in rows]


def test_rows_learned_from_first_correct_their_family_on_the_card(
    tmp_path: Path, profiles: list[Profile], gpus: dict[str, TargetDevice]
) -> None:
    models = ("resnet18", "resnet34", "resnet50", "resnet101")
    asked = table(tmp_path, *(row_of(gpu, m, 1000.0) for gpu in ("rtx3090", "t4") for m in models))
    cold = rates(asked, profiles, gpus)
    seen = [row_of("rtx3090", m, rate * 0.7) for m, rate in zip(models[:3], cold, strict=False)]
    (tmp_path / "seen").mkdir()
    observed = table(
        tmp_path / "seen", *seen, row_of("rtx3090", "resnotnet", 5.0), row_of("x", "resnet50", 5.0)
    )
    learned, used = learn_from_rows(read_rows(observed), NoTracing({}, profiles), gpus)
    assert used == 3
    warm = rates(asked, profiles, learned)
    here, elsewhere = [w / c for w, c in zip(warm, cold, strict=True)][3::4]
    assert 0.7 <= here < 0.85
    assert here < elsewhere <= 1.0
    assert all(gpu.learned is None for gpu in gpus.values())


def test_what_a_search_for_the_largest_batch_found_is_believed(
    tmp_path: Path, profiles: list[Profile], gpus: dict[str, TargetDevice]
) -> None:
    found = row_of("rtx3090", "resnet50", 1000.0, batch="96", notes=LADDER)
    learned, _ = learn_from_rows(read_rows(table(tmp_path, found)), NoTracing({}, profiles), gpus)
    (row,) = evaluate_rows(read_rows(table(tmp_path, found)), NoTracing({}, profiles), learned)
    assert [row.predicted["max_batch_size"].value, row.predicted["max_batch_size"].high] == [96, 96]


def test_one_absurd_row_moves_nothing(
    tmp_path: Path, profiles: list[Profile], gpus: dict[str, TargetDevice]
) -> None:
    asked = table(tmp_path, row_of("rtx3090", "resnet50", 1000.0))
    (cold,) = rates(asked, profiles, gpus)
    (tmp_path / "seen").mkdir()
    absurd = table(tmp_path / "seen", row_of("rtx3090", "resnet50", cold / 100))
    learned, used = learn_from_rows(read_rows(absurd), NoTracing({}, profiles), gpus)
    assert used == 1
    assert rates(asked, profiles, learned) == [cold]


def test_a_page_written_anew_keeps_what_other_commands_wrote() -> None:
    before = "# Old\n\n<!-- observe -->\nrows\n<!-- /observe -->\n\ntext\n<!-- gpu -->\nran\n<!-- /gpu -->\n"
    page = with_sections("# New\n", before)
    assert page.startswith("# New\n\n<!-- observe -->")
    assert page.endswith("<!-- gpu -->\nran\n<!-- /gpu -->\n")
    assert "text" not in page
    assert with_sections("# New\n", page) == page


needs_oracles = pytest.mark.skipif(not ORACLES.is_dir(), reason="../shared/oracles is not here")


def evaluated(name: str, profiles: Sequence[Profile], gpus: dict[str, TargetDevice]) -> Summary:
    return summarise(list(evaluate_rows(read_rows(ORACLES / name), NoTracing({}, profiles), gpus)))


@pytest.fixture(scope="module")
def speed_and_fit(profiles: list[Profile], gpus: dict[str, TargetDevice]) -> Summary:
    return evaluated("throughput_and_fit.csv", profiles, gpus)


@needs_oracles
def test_the_largest_batch_of_the_rtx_3090_rows_is_hit(speed_and_fit: Summary) -> None:
    ours, naive = dict(speed_and_fit.fit)["train, rtx3090"]
    assert ours.n >= 710
    assert ours.exact >= 0.95
    assert ours.too_large <= 0.02
    assert ours.exact > naive.exact


@needs_oracles
@pytest.mark.parametrize("group", ["train, rtx3090", "infer, rtx4090"])
def test_speed_on_public_rows_is_within_seven_percent_at_the_median(
    speed_and_fit: Summary, group: str
) -> None:
    ours, naive, *_ = dict(speed_and_fit.throughput)[group]
    assert ours.n >= 240
    assert ours.median <= 0.07 < naive.median
    assert ours.p90 <= 0.25
    assert ours.covered is not None
    assert 0.8 <= ours.covered <= 0.95


def test_the_profiles_behind_these_figures_are_what_a_trace_gives_today(profiles: list[Profile]) -> None:
    traced = profile_model("resnet50", input_size=224, fused_attention=False)
    assert traced in profiles


@needs_oracles
def test_driver_seen_memory_of_the_a100_rows_beats_the_naive_line(
    profiles: list[Profile], gpus: dict[str, TargetDevice]
) -> None:
    summary = evaluated("peak_memory_a100_40gb.csv", profiles, gpus)
    ours, naive = dict(summary.peak)["train, a100"]
    assert ours.n >= 2200
    assert ours.median <= 0.03 < naive.median
    assert ours.p90 <= 0.09 < naive.p90
    assert ours.covered is not None
    assert 0.75 <= ours.covered <= 0.9
    report = markdown([("peak_memory_a100_40gb.csv", summary)])
    assert "1976 MiB + 1.108 x fake tensor" in report


@needs_oracles
@pytest.mark.parametrize(("n", "at_most"), [(8, 0.12), (40, 0.09)])
def test_observed_rows_of_a_card_serve_its_other_rows(
    n: int, at_most: float, profiles: list[Profile], gpus: dict[str, TargetDevice], tmp_path: Path
) -> None:
    rows = [r for r in read_rows(ORACLES / "throughput_and_fit.csv") if r["gpu"] == "rtx4090"]
    random.Random(n).shuffle(rows)
    learned, used = learn_from_rows(rows[:n], NoTracing({}, profiles), gpus)
    assert used == n
    rest = [r for r in evaluate_rows(rows[n:], NoTracing({}, profiles), learned) if r.predicted]
    assert len(rest) > 150
    ours, *_ = dict(summarise(rest).throughput)["infer, rtx4090"]
    assert ours.median <= at_most
