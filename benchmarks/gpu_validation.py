"""Does a calibrated card keep what is predicted for real models? One command on a machine with CUDA.

    python -m benchmarks.gpu_validation                              cuda:0, nine models at three batches each
    python -m benchmarks.gpu_validation --device cpu --models resnet18 --image-size 64 --batches 4,8,16 --dry

Calibrates the device, predicts step time, driver's peak and the largest batch of the ladder, then trains
every case in a process of its own and finds the largest batch by trying. Writes a dated table into
docs/accuracy.md. Weights are drawn at random: nothing is fetched.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from memory_service.domain.calibration.calibration import Calibration, Fingerprint, Measurement
from memory_service.domain.calibration.corrected_rates import calibrated_rates
from memory_service.domain.calibration.registered_device import device_card
from memory_service.domain.cost.batch_ladder import BATCH_LADDER
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.hardware.gpu_spec import gpu_from_row, resolve_gpu
from memory_service.domain.planning.model_catalogue import CatalogueModel, resolve_model
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.domain.prediction.device_memory import largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import InvalidInput
from memory_service.measure.calibrate import command
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import catalogue_models, profile_model, read_profiles

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- gpu_validation -->", "<!-- /gpu_validation -->"
GIB = 2.0**30

MODELS = (
    "resnet50", "efficientnet_b0", "efficientnet_b4", "convnext_tiny", "convnext_base",
    "vit_base_patch16_224", "swin_tiny_patch4_window7_224", "deberta-v3-base", "unet/efficientnet_b3",
)  # fmt: skip
BATCHES = (16, 32, 64)
OPTIMIZER = "adamw"
WARM_STEPS, TIMED_STEPS, MOST_SECONDS = 5, 20, 30.0
PATIENCE_SECONDS = 600.0
OUT_OF_MEMORY = 3
"""Exit status of a child whose batch did not fit."""


@dataclass(frozen=True)
class Asked:
    """What one child process trains."""

    device: str
    model: str
    size: int | None
    precision: str
    layout: str
    batch: int
    steps: int = TIMED_STEPS


@dataclass(frozen=True)
class Row:
    """One model at one batch; None: out of memory, or not told on this device."""

    model: str
    batch: int
    predicted_per_second: float
    measured_per_second: float | None
    predicted_gib: float
    measured_gib: float | None


@dataclass(frozen=True)
class Largest:
    """Rungs of the ladder; tried is None where trying is no good idea (a processor swaps)."""

    model: str
    predicted: int
    tried: int | None


def calibrated_card(device: str, budget_seconds: float) -> tuple[TargetDevice, Calibration]:
    """The device as a card with rates of a calibration made now; RuntimeError when it does not end well."""
    run = subprocess.Popen(
        command(device, budget_seconds, True),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    fingerprint: Fingerprint | None = None
    sections: dict[str, Measurement] = {}
    end: dict[str, Any] = {}
    for line in run.stdout:
        event = json.loads(line)
        if event["event"] == "identity":
            fingerprint = Fingerprint.from_dict(event["fingerprint"])
        elif event["event"] == "section":
            sections[event["name"]] = Measurement(**event["measurement"])
        elif event["event"] == "end":
            end = event
    run.wait()
    if fingerprint is None or not sections:
        raise RuntimeError(f"the calibration failed: {end.get('why')}")
    began = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    calibration = Calibration(
        "validation", device, fingerprint, end["status"], budget_seconds, sections, started_at=began
    )
    sheets = {gpu.slug: gpu for gpu in map(gpu_from_row, _rows("gpus.jsonl"))}
    try:
        slug = "cpu" if fingerprint.kind == "cpu" else resolve_gpu(fingerprint.name, sheets).slug
    except InvalidInput:
        slug = None
    card = device_card(device, fingerprint, sheets, slug)
    references = tuple(read_profiles(resource("seeds") / "reference_profiles.jsonl.gz"))
    return target_device(card, calibrated_rates(calibration, (), (), card, references)), calibration


def _rows(name: str) -> list[dict[str, Any]]:
    lines = (resource("seeds") / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def profile_of(model: str, size: int | None, precision: str) -> tuple[Profile, CatalogueModel | None]:
    """The profile to predict from, traced now so that its input size is the asked one."""
    row = _row_of(model)
    kind: Any = "amp" if precision in ("fp16", "bf16") else "fp32"
    options: dict[str, Any] = {}
    if row is not None:
        options = {"library": row.library, "config": row.config, "family": row.family}
        size = size if row.input_kind == "image_size" and size else row.default_input_size
    return profile_model(row.name if row else model, input_size=size, precision=kind, **options), row


def _row_of(model: str) -> CatalogueModel | None:
    try:
        return resolve_model(model, {row.name: row for row in catalogue_models(resource("seeds"))})
    except InvalidInput:
        return None


def validate(given: argparse.Namespace) -> tuple[TargetDevice, Calibration, list[Row], list[Largest]]:
    """Calibrate, predict and measure everything; progress on stderr."""
    card, calibration = calibrated_card(given.device, given.budget_seconds)
    precision = given.precision or card.preferred_precision()
    rows: list[Row] = []
    largest: list[Largest] = []
    for model in given.models:
        profile, _ = profile_of(model, given.image_size, precision)
        step = prepare(profile, card, StepConfig(precision, given.layout, OPTIMIZER))
        for batch in given.batches:
            asked = Asked(given.device, model, given.image_size, precision, given.layout, batch)
            told = measured(asked, calibration.fingerprint.uuid)
            peak = peak_memory(
                profile, batch, card, StepConfig(precision, optimizer=OPTIMIZER)
            ).driver_gib.value
            per_second = batch / step.seconds(batch)
            real = batch / told["seconds"] if told else None
            rows.append(Row(model, batch, per_second, real, peak, told["peak_gib"] if told else None))
            print(rows[-1], file=sys.stderr, flush=True)
        predicted = largest_batch(profile, card, StepConfig(precision, optimizer=OPTIMIZER), confidence="p50")
        tried = None
        if card.kind == "cuda":
            first = Asked(given.device, model, given.image_size, precision, given.layout, predicted, steps=2)
            tried = by_trying(first, calibration.fingerprint.uuid)
        largest.append(Largest(model, predicted, tried))
        print(largest[-1], file=sys.stderr, flush=True)
    return card, calibration, rows, largest


def by_trying(asked: Asked, uuid: str) -> int:
    """The largest rung of the ladder that trains, walked from the predicted one; 0 when none does."""
    rungs = list(BATCH_LADDER)
    place = max((i for i, rung in enumerate(rungs) if rung <= asked.batch), default=0)
    fits = measured(replace(asked, batch=rungs[place]), uuid) is not None
    while fits and place + 1 < len(rungs) and measured(replace(asked, batch=rungs[place + 1]), uuid):
        place += 1
    while not fits and place > 0:
        place -= 1
        fits = measured(replace(asked, batch=rungs[place]), uuid) is not None
    return rungs[place] if fits else 0


def measured(asked: Asked, uuid: str) -> dict[str, float] | None:
    """{"seconds", "peak_gib"} of a fresh process; None when the batch does not fit."""
    how = ["--train", json.dumps(asdict(asked)), "--uuid", uuid]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu_validation", *how],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode == OUT_OF_MEMORY:
        return None
    done.check_returncode()
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def train(asked: Asked, uuid: str) -> dict[str, float]:
    """Median seconds of a step, and the driver's peak (of a processor: of this process)."""
    import torch

    device = torch.device(asked.device)
    on_card = device.type == "cuda"
    before = _used_gib(uuid) if on_card else 0.0
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = asked.precision == "tf32"
    step = _step(asked, device)
    taken: list[float] = []
    began = time.perf_counter()
    for index in range(asked.steps + (WARM_STEPS if asked.steps > 2 else 0)):
        started = time.perf_counter()
        step()
        if on_card:
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
        if index > WARM_STEPS and time.perf_counter() - began > MOST_SECONDS:
            break
    warm = min(WARM_STEPS, len(taken) - 1)
    peak = _used_gib(uuid) - before if on_card else _peak_gib()
    return {"seconds": statistics.median(taken[warm:]), "peak_gib": peak}


def _step(asked: Asked, device: Any) -> Any:
    """One training step as a script takes it: mixed precision, AdamW, gradients set to None."""
    import torch

    built = _built(asked)
    layout = torch.channels_last if asked.layout == "nhwc" else torch.contiguous_format
    module: Any = built.module.to(device, memory_format=layout).train()
    for part in module.modules():
        if isinstance(getattr(part, "fused_attn", None), bool):
            part.fused_attn = True
    optimizer: Any = torch.optim.AdamW(module.parameters(), lr=1e-5)
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(asked.precision)
    scaler: Any = torch.amp.GradScaler(device.type, enabled=asked.precision == "fp16")
    inputs = {
        name: x.normal_().contiguous(memory_format=layout) if x.dim() == 4 and x.is_floating_point() else x
        for name, x in built.inputs(asked.batch, str(device)).items()
    }

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, dtype=half, enabled=half is not None):
            loss = built.loss(built.forward(inputs), inputs)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def _built(asked: Asked) -> Any:
    """The model with real weights: what the tracer builds without memory, built with it."""
    from memory_service.measure import traceable_model as built

    built.on_meta = lambda construct: construct()
    from memory_service.measure.build_model import build_model

    row = _row_of(asked.model)
    if row is None:
        return build_model(asked.model, input_size=asked.size)
    size = asked.size if row.input_kind == "image_size" and asked.size else row.default_input_size
    return build_model(row.name, input_size=size, library=row.library, config=row.config, family=row.family)


def _used_gib(uuid: str) -> float:
    from memory_service.measure import nvml

    return nvml.used_gib(uuid) or 0.0


def _peak_gib() -> float:
    from benchmarks.cpu_epochs import peak_gib

    return peak_gib()


def section(
    card: TargetDevice, calibration: Calibration, rows: Sequence[Row], largest: Sequence[Largest]
) -> str:
    """The dated part of docs/accuracy.md between its markers."""
    now = calibration.fingerprint
    versions = ", ".join(f"{name} {v}" for name, v in _versions(now).items() if v)
    speed = [_off(r.predicted_per_second, r.measured_per_second) for r in rows if r.measured_per_second]
    memory = [_off(r.predicted_gib, r.measured_gib) for r in rows if r.measured_gib]
    rungs = [_rungs_apart(x) for x in largest if x.tried is not None]
    what = "driver's peak" if now.kind == "cuda" else "peak of the process"
    basis = card.calibrated.basis if card.calibrated else "data sheet"
    lines = [
        BEGIN,
        "## Calibrated predictions against real training",
        "",
        f"{calibration.started_at[:10]}, {now.name} ({versions}), {basis}.",
        "",
        "| figure | cases | median error | largest | meant to be |\n|---|---:|---:|---:|---|",
        _summary("throughput", speed, "median ≤ 10 %"),
        _summary(what, memory, "median ≤ 5 %"),
        f"| largest batch, rungs of the ladder apart | {len(rungs)} | "
        + (f"{statistics.median(rungs):g} | {max(rungs)}" if rungs else "not tried | ")
        + " | ≤ 1 |",
        "",
        f"| model | batch | predicted samples/s | measured | predicted {what}, GiB | measured |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.model} | {r.batch} | {r.predicted_per_second:.1f} | {_shown(r.measured_per_second, '.1f')} "
        f"| {r.predicted_gib:.2f} | {_shown(r.measured_gib, '.2f')} |"
        for r in rows
    ]
    lines += ["", "| model | largest batch predicted | found by trying |", "|---|---:|---:|"]
    lines += [
        f"| {x.model} | {x.predicted} | {'not tried' if x.tried is None else x.tried} |" for x in largest
    ]
    return "\n".join([*lines, END])


def _versions(now: Fingerprint) -> Mapping[str, str | None]:
    return {"driver": now.driver, "torch": now.torch, "CUDA": now.cuda, "cuDNN": now.cudnn}


def _off(predicted: float, real: float | None) -> float:
    return abs(predicted / (real or predicted) - 1.0)


def _rungs_apart(x: Largest) -> int:
    def place(batch: int | None) -> int:
        return sum(1 for rung in BATCH_LADDER if rung <= (batch or 0))

    return abs(place(x.predicted) - place(x.tried))


def _summary(name: str, errors: Sequence[float], goal: str) -> str:
    if not errors:
        return f"| {name} | 0 | not measured |  | {goal} |"
    return f"| {name} | {len(errors)} | {statistics.median(errors):.1%} | {max(errors):.1%} | {goal} |"


def _shown(value: float | None, form: str) -> str:
    return "out of memory" if value is None else f"{value:{form}}"


def written(page: str, text: str) -> str:
    """The page with this section replaced, or added at its end."""
    block = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    if block.search(page):
        return block.sub(lambda _: text, page, count=1)
    return f"{page.rstrip()}\n\n{text}\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--device", default="cuda:0")
    arguments.add_argument("--models", type=lambda text: tuple(text.split(",")), default=MODELS)
    arguments.add_argument("--batches", type=lambda text: tuple(map(int, text.split(","))), default=BATCHES)
    arguments.add_argument("--image-size", type=int, default=None, help="default: each model's own")
    arguments.add_argument("--precision", default=None, help="default: the device's best")
    arguments.add_argument("--layout", default="nhwc", choices=("nhwc", "nchw"))
    arguments.add_argument("--budget-seconds", type=float, default=60.0)
    arguments.add_argument("--dry", action="store_true", help="print, and leave docs/accuracy.md as it is")
    arguments.add_argument("--train", default="", help=argparse.SUPPRESS)
    arguments.add_argument("--uuid", default="", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.train:
        sys.exit(_child(Asked(**json.loads(given.train)), given.uuid))
    text = section(*validate(given))
    print(text)
    if not given.dry:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


def _child(asked: Asked, uuid: str) -> int:
    import torch

    try:
        print(json.dumps(train(asked, uuid)))
    except (torch.OutOfMemoryError, MemoryError):
        return OUT_OF_MEMORY
    return 0


if __name__ == "__main__":
    main()
