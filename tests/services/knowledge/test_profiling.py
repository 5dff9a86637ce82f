"""The catalogue is profiled with resume; a model that fails is reported and passed over."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import quantiles

import pytest
from typer.testing import CliRunner

from memory_service.domain.cost.memory import allocated_bytes
from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.errors import InvalidInput
from memory_service.resources import path as resource
from memory_service.services.knowledge import profiling
from memory_service.services.knowledge.profile_library import ProfileLibrary
from memory_service.services.knowledge.profiling import (
    Wanted,
    catalogue_models,
    profile_catalogue,
    profile_in_child_process,
    profile_model,
    read_profiles,
    wanted_profiles,
)


def model(name: str, sizes: tuple[int, ...] = (160, 224), **config: object) -> CatalogueModel:
    return CatalogueModel(
        name, "timm", ("image-classification",), "test", 1.0, "image_size", sizes, sizes[-1], True, 50.0,
        config=config,
    )  # fmt: skip


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tracing replaced by a stand-in that notes what it was asked and refuses "broken"."""
    asked: list[str] = []

    def stand_in(name: str, *, input_size: int, precision: str, **_: object) -> Profile:
        asked.append(f"{name}@{input_size}/{precision}")
        if name == "broken":
            raise InvalidInput("'broken' cannot be traced: it is broken")
        made = Profile(name, "timm", "image_size", input_size, precision, 1, 0, (), {}, {})  # type: ignore[arg-type]
        return replace(made, extra={"half": 0.5, "whole": 2.0})

    monkeypatch.setattr("memory_service.services.knowledge.profiling.profile_model", stand_in)
    return asked


@pytest.mark.parametrize(
    ("kind", "between", "beyond"), [("image_size", 0.006, 0.003), ("seq_len", 0.003, 0.012)]
)
def test_a_size_left_out_is_met_by_the_laws_through_the_others(
    kind: str, between: float, beyond: float
) -> None:
    """Nine in ten of the shipped networks with three sizes or more, at three batches; not where maps of
    attention have outgrown all else, whose peak lies elsewhere in the step."""
    rows = {row.name: row for row in catalogue_models(resource("seeds"))}
    sizes: dict[str, list[Profile]] = {}
    for profile in read_profiles(resource("seeds") / "profiles.jsonl.gz"):
        holes = "holes" in profile.extra.get("largest_conv_bytes", ())
        if profile.precision == "amp" and profile.input_kind == kind and profile.model in rows and not holes:
            sizes.setdefault(profile.model, []).append(profile)
    errors: dict[bool, list[float]] = {False: [], True: []}
    for name, known in sizes.items():
        known.sort(key=lambda profile: profile.input_size)
        for place in range(1, len(known)) if len(known) > 2 else ():
            true = known[place]
            made = ProfileLibrary(p for p in known if p is not true).plain(rows[name], true.input_size, "amp")
            assert made is not None
            ratios = (allocated_bytes(made, batch) / allocated_bytes(true, batch) for batch in (1, 8, 64))
            errors[true is known[-1]].extend(abs(log(ratio)) for ratio in ratios)
    assert len(errors[True]) > 250
    assert quantiles(errors[False], n=10)[-1] < between
    assert quantiles(errors[True], n=10)[-1] < beyond


def test_a_model_is_traced_under_the_name_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profile_model("test_vit", input_size=160, precision="amp")
    assert (profile.model, profile.input_size, profile.precision) == ("test_vit", 160, "amp")
    assert profile.peak
    assert profile.inference_peak
    assert profile.forward["attention"].flops_per_sample > 0
    assert Profile.from_dict(json.loads(json.dumps(profile.as_dict()))) == profile
    monkeypatch.setattr(profiling.TRACING, "seconds", 3600.0)  # in a child process, as by a server
    assert profile_in_child_process("test_vit", input_size=160, precision="amp") == profile


def test_fp32_beyond_its_sizes_is_what_a_trace_would_say() -> None:
    """Attention grows with the square of the pixels; what autocast was traced at tells by how much."""
    row = model("test_vit", (160, 320))
    small, fp32 = (profile_model("test_vit", input_size=160, precision=kind) for kind in ("amp", "fp32"))
    large, true = (profile_model("test_vit", input_size=320, precision=kind) for kind in ("amp", "fp32"))
    made = ProfileLibrary([small, fp32, large]).plain(row, 320, "fp32")
    assert made is not None
    assert made.peak[-1].per_sample_bytes == pytest.approx(true.peak[-1].per_sample_bytes, rel=0.01)
    for phase in ("forward", "backward"):
        got, wanted = (sum(w.flops_per_sample for w in getattr(p, phase).values()) for p in (made, true))
        assert got == pytest.approx(wanted, rel=0.01)


def test_an_unknown_model_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InvalidInput, match="nearest"):
        profile_model("resnet5000")


def test_default_sizes_under_autocast_come_first() -> None:
    plan = wanted_profiles([model("a"), model("trees", cost="gbdt"), model("b", (224,))])
    assert [(w.model, w.input_size, w.precision) for w in plan] == [
        ("a", 224, "amp"), ("b", 224, "amp"), ("a", 160, "amp"),
        ("a", 224, "fp32"), ("b", 224, "fp32"), ("a", 160, "fp32"),
    ]  # fmt: skip


def test_texts_are_traced_in_fp32_at_longer_sizes_too() -> None:
    text = replace(model("t", (128, 256, 512)), library="transformers", default_input_size=256)
    plan = {(w.input_size, w.precision) for w in wanted_profiles([replace(text, input_kind="seq_len")])}
    assert plan == {(size, kind) for size in (128, 256, 512) for kind in ("amp", "fp32")}


def test_a_bad_model_is_reported_and_passed_over(tmp_path: Path, traced: list[str]) -> None:
    file = tmp_path / "profiles.jsonl.gz"
    seen: list[tuple[str, str | None]] = []
    report = profile_catalogue(
        [Wanted("a", 224, "amp"), Wanted("broken", 224, "amp"), Wanted("b", 224, "amp")],
        file,
        lambda job, why: seen.append((job.model, why)),
    )
    assert (report.made, report.kept) == (2, 0)
    assert set(report.failed) == {"broken @ 224"}
    assert [name for name, _ in seen] == ["a", "broken", "b"]
    assert [profile.model for profile in read_profiles(file)] == ["a", "b"]


def test_what_is_there_is_not_made_again_and_the_file_stays_the_same(
    tmp_path: Path, traced: list[str]
) -> None:
    file = tmp_path / "profiles.jsonl.gz"
    wanted = [Wanted("b", 224, "amp"), Wanted("a", 224, "amp")]
    profile_catalogue(wanted, file)
    before = file.read_bytes()
    report = profile_catalogue(wanted, file)
    assert (report.made, report.kept) == (0, 2)
    assert file.read_bytes() == before
    assert traced == ["b@224/amp", "a@224/amp"]
    assert b'"whole":2,' in gzip.decompress(before) or b'"whole":2}' in gzip.decompress(before)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path, traced: list[str]) -> None:
    file = tmp_path / "profiles.jsonl.gz"

    def stop(job: Wanted, _why: str | None) -> None:
        if job.model == "b":
            raise KeyboardInterrupt

    wanted = [Wanted(name, 224, "amp") for name in ("a", "b", "c")]
    with pytest.raises(KeyboardInterrupt):
        profile_catalogue(wanted, file, stop)
    part = file.with_name(file.name + ".part")
    part.write_text(part.read_text() + '{"model": "c", "cut o')
    report = profile_catalogue(wanted, file)
    assert (report.made, report.kept) == (1, 2)
    assert [profile.model for profile in read_profiles(file)] == ["a", "b", "c"]
    assert not part.exists()


def test_the_command_prints_a_profile() -> None:
    from memory_service.cli import app

    result = CliRunner().invoke(app, ["profile", "test_vit", "--image-size", "160", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["input_size"] == 160
    drawn = CliRunner().invoke(app, ["profile", "test_vit", "--precision", "fp32"])
    assert "per sample" in drawn.output


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["profile"], 2), (["profile", "resnet5000"], 1), (["profile", "a", "--catalogue"], 2)],
)
def test_the_command_refuses_what_it_cannot_do(arguments: list[str], code: int) -> None:
    from memory_service.cli import app

    assert CliRunner().invoke(app, arguments).exit_code == code
