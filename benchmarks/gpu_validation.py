"""What is predicted of a card against what it did: before it was calibrated, and after.

    python -m benchmarks.gpu_validation --record benchmarks/data/h200   on a machine with CUDA: measures, too
    python -m benchmarks.gpu_validation benchmarks/data/h200            from what was recorded; needs no card

Recorded are `calibration.jsonl` (the events of a calibration), `training.jsonl` (`gpu_training` of
gpu_cases.json) and, made by hand, `together.jsonl`: steps of trainings side by side. Writes a section into
docs/methods/accuracy.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.gpu_training import Case, catalogue_row
from benchmarks.page import Section
from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement, device_card
from memory_service.domain.calibration.corrected_rates import calibrated_rates
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.decoders.decoder import Method, Tuning, decoder_of
from memory_service.domain.cost.decoders.decoder_profile import decoder_profile
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.hardware.gpu_spec import gpu_from_row, resolve_gpu
from memory_service.domain.parallel.gpu_sharing import Demand, paces_of
from memory_service.domain.planning.run_seconds import Seconds
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.measure.calibrate import command
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import profile_model, read_profiles

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "methods" / "accuracy.md"
CASES = ROOT / "benchmarks" / "data" / "gpu_cases.json"
SECTION = Section("gpu_validation", PAGE)
CALIBRATION_SECONDS, TRAINING_SECONDS = 80.0, 600.0
KINDS = ("networks", "decoders")
TEXT = """## A real card: predicted, calibrated, measured

{day}, {name} ({versions}); {count} figures calibrated in {seconds:g} s. Written by
`python -m benchmarks.gpu_validation benchmarks/data/{folder}` from what was recorded there: the median of 20
steps after 5, AdamW, channels last, without `cudnn.benchmark`, weights drawn at random, all in one process;
memory by the driver, less what it counted before. Decoders carry a language model's head. `inside`: share of
the measurements in the interval. Largest batch: found by trying, in brackets the predicted one."""


@dataclass(frozen=True)
class Row:
    """One model at one batch: seconds of a step by data sheet, by calibration and measured; likewise GiB.

    kind        "networks" or "decoders", whose layers launch more than they compute
    allocated   (predicted, measured) live GiB
    """

    kind: str
    model: str
    batch: int
    sheet: Estimate
    calibrated: Estimate
    seconds: float
    sheet_gib: float
    calibrated_gib: float
    driver_gib: float
    allocated: tuple[float, float]


@dataclass(frozen=True)
class Largest:
    """The largest rung predicted (median) and found by trying."""

    model: str
    predicted: int
    tried: int

    @property
    def rungs_apart(self) -> int:
        return abs(
            sum(self.predicted >= r for r in BATCH_LADDER) - sum(self.tried >= r for r in BATCH_LADDER)
        )


@dataclass(frozen=True)
class Side:
    """Trainings side by side: how many times one's work is done, measured and predicted from each alone."""

    names: tuple[str, ...]
    measured: float
    predicted: float


def record(folder: Path, device: str) -> None:
    """Calibrate the device and train the cases on it, into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        command(device, CALIBRATION_SECONDS, True), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    ) as run:  # fmt: skip
        assert run.stdout is not None  # stdin stays open meanwhile: closed, it would end the calibration
        events = [line.rstrip("\n") for line in run.stdout if '"progress"' not in line]
    (folder / "calibration.jsonl").write_text("\n".join(events) + "\n", encoding="utf-8")
    uuid = json.loads(events[0])["fingerprint"]["uuid"]
    options = ["--device", device, "--uuid", uuid, "--seconds", f"{TRAINING_SECONDS:g}"]
    with (folder / "training.jsonl").open("w", encoding="utf-8") as out:
        train = [sys.executable, "-m", "benchmarks.gpu_training", str(CASES), *options]
        subprocess.run(train, cwd=ROOT, stdout=out, check=True)


def calibration_of(lines: Sequence[str]) -> Calibration:
    """The calibration that these events tell of; RuntimeError for one that measured nothing."""
    events = [json.loads(line) for line in lines]
    sections = {e["name"]: Measurement(**e["measurement"]) for e in events if e["event"] == "section"}
    found = [e["fingerprint"] for e in events if e["event"] == "identity"]
    if not found or not sections:
        raise RuntimeError(f"the calibration failed: {events[-1:]}")
    end = events[-1]
    return Calibration(
        "recorded", "cuda:0", Fingerprint.from_dict(found[0]), end["status"], CALIBRATION_SECONDS, sections
    )


def cards_of(calibration: Calibration) -> tuple[TargetDevice, TargetDevice]:
    """The card by its data sheet, and calibrated."""
    lines = (resource("seeds") / "gpus.jsonl").read_text(encoding="utf-8").splitlines()
    sheets = {gpu.slug: gpu for gpu in (gpu_from_row(json.loads(line)) for line in lines if line.strip())}
    slug = resolve_gpu(calibration.fingerprint.name, sheets).slug
    card = device_card("cuda:0", calibration.fingerprint, sheets, slug)
    references = tuple(read_profiles(resource("seeds") / "reference_profiles.jsonl.gz"))
    return target_device(card), target_device(card, calibrated_rates(calibration, (), (), card, references))


@cache
def profile_of(case: Case) -> Profile:
    """The profile to predict from: of a decoder by formula with a language model's head, else traced now."""
    row = catalogue_row(case.model)
    if case.method is not None and row is not None and case.size is not None:
        shape = decoder_of(row.config)
        assert shape is not None, row.name
        method: Method = case.method  # type: ignore[assignment]
        tuning = Tuning(method, case.lora_rank, checkpointing=case.checkpointing, head="lm")
        return decoder_profile(row.name, shape, case.size, tuning, family=row.family)
    options: dict[str, Any] = {}
    if row is not None:
        options = {"library": row.library, "config": row.config, "family": row.family}
    size = case.size or (row.default_input_size if row else None)
    precision: Any = "amp" if case.precision in ("fp16", "bf16") else "fp32"
    return profile_model(row.name if row else case.model, input_size=size, precision=precision, **options)


def compared(
    found: Sequence[Mapping[str, Any]], sheet: TargetDevice, calibrated: TargetDevice
) -> tuple[list[Row], list[Largest]]:
    """Predictions beside the lines of `gpu_training`; a case that ended in an error is left out."""
    rows: list[Row] = []
    largest: list[Largest] = []
    for line in found:
        if "peaks" not in line:
            continue
        case = Case(**{**line["case"], "batches": tuple(line["case"]["batches"])})
        profile, config = profile_of(case), StepConfig(case.precision, case.layout, case.optimizer)
        steps = [prepare(profile, card, config) for card in (sheet, calibrated)]
        name = " ".join([case.model, case.precision, *filter(None, (case.method, ""))])
        for peak in line["peaks"]:
            batch = peak["batch"]
            by_sheet, by_own = (peak_memory(profile, batch, card, config) for card in (sheet, calibrated))
            rows.append(Row(
                KINDS[case.method is not None], name, batch, steps[0].step_seconds(batch),
                steps[1].step_seconds(batch), peak["seconds"], by_sheet.driver_gib.value,
                by_own.driver_gib.value, peak["driver_gib"],
                (by_sheet.allocated_gib.value, peak["allocated_gib"]),
            ))  # fmt: skip
        if line["largest"]:
            fits = largest_batch(profile, calibrated, config, confidence="p50")
            largest.append(Largest(name, fits, line["largest"]))
    return rows, largest


def sharing(lines: Sequence[str], sheet: TargetDevice) -> list[Side]:
    """Each set of together.jsonl: [{"case", "idle", "steps", "elapsed"}, ...]; idle: seconds a step in which
    a process leaves the card alone."""
    sets = [json.loads(line) for line in lines]
    alone = {_name(s[0]): s[0]["elapsed"] / s[0]["steps"] for s in sets if len(s) == 1}
    out = []
    for together in (s for s in sets if len(s) > 1):
        demands, done = [], 0.0
        for each in together:
            case = Case(**{**each["case"], "batches": tuple(each["case"]["batches"])})
            step = prepare(profile_of(case), sheet, StepConfig(case.precision))
            takes = alone[_name(each)]
            active = takes - each["idle"]
            busy = min(float(step.seconds_and_busy(case.batches)[1][0]), active)
            demands.append(Demand(*map(_exactly, (0.0, takes, 0.0, busy, active - busy))))
            done += each["steps"] / each["elapsed"] * takes
        pace = paces_of(demands, "value")[-1]
        shares = sum(p * demand.work.value for p, demand in zip(pace, demands, strict=True))
        out.append(Side(tuple(map(_name, together)), done, shares))
    return out


def _name(each: Mapping[str, Any]) -> str:
    pause = f", {1e3 * each['idle']:.0f} ms idle" if each["idle"] else ""
    return f"{each['case']['model']} {each['case']['batches'][0]}{pause}"


def _exactly(seconds: float) -> Seconds:
    return Seconds(seconds, seconds, seconds)


def section(
    calibration: Calibration, day: str, rows: Sequence[Row], largest: Sequence[Largest], sides: Sequence[Side]
) -> str:
    """The dated part of docs/methods/accuracy.md between its markers."""
    now = calibration.fingerprint
    known = {
        "driver": now.driver,
        "torch": now.torch,
        "CUDA": now.cuda,
        "cuDNN": now.cudnn,
        "host": now.host_cpu,
    }
    versions = ", ".join(f"{name} {version}" for name, version in known.items() if version)
    how = TEXT.format(
        day=day, name=now.name, versions=versions, count=len(calibration.sections),
        seconds=CALIBRATION_SECONDS, folder=now.name.rpartition(" ")[2].lower(),
    )  # fmt: skip
    lines = [how, "", "| figure | cases | median error | 90th percentile | bias | inside |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for kind in KINDS:
        mine = [row for row in rows if row.kind == kind]
        lines += [
            _summary(f"step time, {kind}, data sheet", [(r.sheet.value, r.seconds) for r in mine],
                     [r.sheet.low <= r.seconds <= r.sheet.high for r in mine]),
            _summary(f"step time, {kind}, calibrated", [(r.calibrated.value, r.seconds) for r in mine],
                     [r.calibrated.low <= r.seconds <= r.calibrated.high for r in mine]),
            _summary(f"live memory, {kind}", [r.allocated for r in mine]),
            _summary(f"driver's peak, {kind}, data sheet", [(r.sheet_gib, r.driver_gib) for r in mine]),
            _summary(f"driver's peak, {kind}, calibrated", [(r.calibrated_gib, r.driver_gib) for r in mine]),
        ]  # fmt: skip
    if sides:
        lines.append(_summary("work done side by side", [(s.predicted, s.measured) for s in sides]))
    lines += ["", "| model | batch: ms (data sheet, calibrated), driver's GiB (data sheet) | largest |"]
    lines.append("|---|---|---|")
    tried = {x.model: f"{x.tried} ({x.predicted})" for x in largest}
    for name, each in groupby(rows, key=lambda row: row.model):
        cells = "; ".join(
            f"{r.batch}: {1e3 * r.seconds:.0f} ({1e3 * r.sheet.value:.0f}, {1e3 * r.calibrated.value:.0f}), "
            f"{r.driver_gib:.1f} ({r.sheet_gib:.1f})"
            for r in each
        )
        lines.append(f"| {name} | {cells} | {tried.get(name, '')} |")
    if sides:
        lines += ["", "| side by side | work done, times one alone | predicted |", "|---|---:|---:|"]
        lines += [f"| {' + '.join(s.names)} | {s.measured:.2f} | {s.predicted:.2f} |" for s in sides]
    return SECTION.marked("\n".join(lines))


def _summary(figure: str, pairs: Sequence[tuple[float, float]], inside: Sequence[bool] | None = None) -> str:
    errors = [predicted / measured - 1.0 for predicted, measured in pairs]
    if len(errors) < 2:
        return f"| {figure} | {len(errors)} | not measured |  |  |  |"
    sizes = list(map(abs, errors))
    ninth = quantiles(sizes, n=10, method="inclusive")[-1]
    share = "" if inside is None else f"{sum(inside) / len(inside):.0%}"
    return (
        f"| {figure} | {len(errors)} | {median(sizes):.1%} | {ninth:.1%} | {median(errors):+.1%} | {share} |"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--record", action="store_true", help="measure first; takes a card ten minutes")
    arguments.add_argument("--device", default="cuda:0")
    arguments.add_argument("--day", default="", help="of the recording; default: the calibration's own")
    arguments.add_argument("--dry", action="store_true", help="print, and leave the page alone")
    given = arguments.parse_args()
    if given.record:
        record(given.folder, given.device)
    calibration = calibration_of(_lines(given.folder / "calibration.jsonl"))
    sheet, calibrated = cards_of(calibration)
    rows, largest = compared(
        list(map(json.loads, _lines(given.folder / "training.jsonl"))), sheet, calibrated
    )
    together = given.folder / "together.jsonl"
    sides = sharing(_lines(together), sheet) if together.exists() else []
    text = section(calibration, given.day, rows, largest, sides)
    print(text)
    if not given.dry:
        SECTION.keep(text)


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    main()
