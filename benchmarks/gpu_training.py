"""Models trained on a device, one after the other in one process; what `gpu_validation` compares with.

    python -m benchmarks.gpu_training CASES.json --uuid GPU-...     prints a line of JSON for each case

Of each batch: median seconds of a step and the peaks of memory; then the largest batch that trains.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_service.domain.cost.throughput_knee import BATCH_LADDER, floor_to_ladder
from memory_service.domain.planning.model_catalogue import CatalogueModel, resolve_model
from memory_service.errors import InvalidInput
from memory_service.resources import path as resource

GIB = 2.0**30
WARM_STEPS, TIMED_STEPS, MOST_SECONDS = 5, 20, 8.0


@dataclass(frozen=True)
class Case:
    """batches: ascending. method: how a decoder is tuned, "full", "lora" or "qlora". largest: look for it."""

    model: str
    batches: tuple[int, ...]
    size: int | None = None
    precision: str = "bf16"
    layout: str = "nhwc"
    method: str | None = None
    checkpointing: bool = False
    largest: bool = True
    optimizer: str = "adamw"
    lora_rank: int = 16


@dataclass(frozen=True)
class Peak:
    """One batch trained; GiB by the driver (growth since before the process), the allocator, live tensors."""

    batch: int
    seconds: float
    driver_gib: float
    reserved_gib: float | None = None
    allocated_gib: float | None = None


def catalogue_row(model: str) -> CatalogueModel | None:
    """The row of a listed name; None for one that `build_model` alone knows."""
    from memory_service.services.knowledge.profiling import catalogue_models

    try:
        return resolve_model(model, {row.name: row for row in catalogue_models(resource("seeds"))})
    except InvalidInput:
        return None


def measured(case: Case, device: str, uuid: str, before_gib: float) -> dict[str, Any]:
    """{"peaks": [...], "out_of_memory": batch or None, "largest": batch or None}.

    before_gib   what the driver counted before this process used the device
    """
    import torch

    place = torch.device(device)
    on_card = place.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = case.precision == "tf32"
    built = _built(case, place)
    module, optimizer = _on_device(built, case, place)

    def clean() -> None:
        optimizer.zero_grad(set_to_none=True)
        gc.collect()
        if on_card:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def tried(batch: int, steps: int) -> Peak | None:
        clean()
        try:
            step = _step(built, module, optimizer, case, place, batch)
            taken = _taken(step, steps, torch.cuda.synchronize if on_card else lambda: None)
        except (torch.OutOfMemoryError, MemoryError):
            return None
        seconds = statistics.median(taken[min(WARM_STEPS, len(taken) - 1) :])
        if not on_card:
            return Peak(batch, seconds, _peak_gib())
        reserved, live = torch.cuda.max_memory_reserved() / GIB, torch.cuda.max_memory_allocated() / GIB
        return Peak(batch, seconds, _used_gib(uuid) - before_gib, reserved, live)

    tried(case.batches[0], WARM_STEPS + TIMED_STEPS)  # kernels are loaded at their first use: not a step
    found: dict[str, Any] = {"peaks": [], "out_of_memory": None, "largest": None}
    for batch in case.batches:
        peak = tried(batch, WARM_STEPS + TIMED_STEPS)
        if peak is None:
            found["out_of_memory"] = batch
            break
        found["peaks"].append(peak)
    if on_card and case.largest and len(found["peaks"]) > 1:
        total = torch.cuda.get_device_properties(place).total_memory / GIB
        found["largest"] = _largest(found["peaks"], total, lambda batch: tried(batch, 2) is not None)
    found["peaks"] = [asdict(peak) for peak in found["peaks"]]
    return found


def _largest(peaks: list[Peak], total_gib: float, fits: Callable[[int], bool]) -> int:
    """The largest rung that trains, walked from where the line through two peaks meets the card's memory."""
    first, last = peaks[0], peaks[-1]
    slope = max((last.driver_gib - first.driver_gib) / (last.batch - first.batch), 1e-6)
    guess = last.batch + (total_gib - last.driver_gib) / slope
    rungs = list(BATCH_LADDER)
    place = rungs.index(max(floor_to_ladder(guess), 1))
    if not fits(rungs[place]):
        while place > 0:
            place -= 1
            if fits(rungs[place]):
                return rungs[place]
        return 0
    while place + 1 < len(rungs) and fits(rungs[place + 1]):
        place += 1
    return rungs[place]


def _taken(step: Callable[[], None], steps: int, wait: Callable[[], object]) -> list[float]:
    taken: list[float] = []
    began = time.perf_counter()
    for index in range(steps):
        started = time.perf_counter()
        step()
        wait()
        taken.append(time.perf_counter() - started)
        if index > WARM_STEPS and time.perf_counter() - began > MOST_SECONDS:
            break
    return taken


def _built(case: Case, place: Any) -> Any:
    """The model with random weights: what the tracer builds without memory, built with it on the device."""
    from memory_service.measure import traceable_model

    def construct_there(construct: Callable[[], Any]) -> Any:
        with place:
            return construct()

    traceable_model.on_meta = construct_there
    from memory_service.measure.build_model import build_model

    row = catalogue_row(case.model)
    if row is None:
        return build_model(case.model, input_size=case.size)
    size = case.size or row.default_input_size
    return build_model(row.name, input_size=size, library=row.library, config=row.config, family=row.family)


def _on_device(built: Any, case: Case, place: Any) -> tuple[Any, Any]:
    """(module, optimizer) as a script has them: a decoder's frozen weights in half, its adapters in fp32."""
    import torch

    module = built.module
    if case.method in ("lora", "qlora"):
        from peft import LoraConfig, TaskType, get_peft_model

        module = module.to(torch.bfloat16)
        if case.method == "qlora":
            _quantise(module)
        adapters = LoraConfig(
            task_type=TaskType.SEQ_CLS, target_modules="all-linear", r=case.lora_rank,
            lora_alpha=2 * case.lora_rank, lora_dropout=0.05,
        )  # fmt: skip
        module = get_peft_model(module.to(place), adapters)
        for weight in module.parameters():
            if weight.requires_grad:
                weight.data = weight.data.float()
    if case.checkpointing:
        module.gradient_checkpointing_enable({"use_reentrant": False})
    layout = torch.channels_last if case.layout == "nhwc" else torch.contiguous_format
    module = module.to(place) if case.method else module.to(place, memory_format=layout)
    for part in module.modules():
        if isinstance(getattr(part, "fused_attn", None), bool):
            part.fused_attn = True
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    return module.train(), torch.optim.AdamW(trained, lr=1e-5)


def _quantise(module: Any) -> None:
    """Every linear layer but the head in four bits (NF4, doubly quantised), as bitsandbytes stores it."""
    import torch
    from bitsandbytes.nn import Linear4bit, Params4bit
    from torch import nn

    found = [
        (parent, name, child)
        for path, parent in module.named_modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.Linear) and name not in ("score", "lm_head")
    ]
    for parent, name, child in found:
        biased = child.bias is not None
        small = Linear4bit(child.in_features, child.out_features, biased, torch.bfloat16, True, "nf4")
        small.weight = Params4bit(child.weight.data, requires_grad=False, quant_type="nf4")
        if biased:
            small.bias = child.bias
        setattr(parent, name, small)


def _step(built: Any, module: Any, optimizer: Any, case: Case, place: Any, batch: int) -> Callable[[], None]:
    """One training step as a script takes it: mixed precision, AdamW, gradients set to None."""
    import torch

    layout = torch.channels_last if case.layout == "nhwc" else torch.contiguous_format
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(case.precision)
    scaler: Any = torch.amp.GradScaler(place.type, enabled=case.precision == "fp16")
    words = getattr(getattr(built.module, "config", None), "vocab_size", None)
    inputs = {name: _values(x, name, words, layout) for name, x in built.inputs(batch, str(place)).items()}
    forward: Mapping[bool, Callable[[], Any]] = {
        True: lambda: module(*inputs.values()),
        False: lambda: module(**inputs),
    }

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(place.type, dtype=half, enabled=half is not None):
            loss = built.loss(forward[built.positional](), inputs)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def _values(x: Any, name: str, words: int | None, layout: Any) -> Any:
    """Random pixels and tokens: with zeros a card needs less power and one row of the embedding is read."""
    if name.endswith("input_ids") and words:
        return x.random_(1, words)
    if x.is_floating_point() and x.dim() == 4 and "mask" not in name:
        return x.normal_().contiguous(memory_format=layout)
    return x


def _used_gib(uuid: str) -> float:
    from memory_service.measure import nvml

    return nvml.used_gib(uuid) or 0.0


def _peak_gib() -> float:
    from benchmarks.cpu_epochs import peak_gib

    return peak_gib()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("cases", type=Path)
    arguments.add_argument("--device", default="cuda:0")
    arguments.add_argument("--uuid", default="")
    arguments.add_argument("--seconds", type=float, default=600.0, help="after which no further case begins")
    given = arguments.parse_args()
    before, ends = _used_gib(given.uuid) if given.uuid else 0.0, time.monotonic() + given.seconds
    for row in json.loads(given.cases.read_text(encoding="utf-8")):
        if time.monotonic() > ends:
            break
        case, began = Case(**row), time.monotonic()
        try:
            found = measured(case, given.device, given.uuid, before)
        except Exception as error:  # noqa: BLE001 - a model that does not train here costs its case alone
            found = {"error": repr(error)[:500]}
        print(json.dumps({"case": row, **found, "took": round(time.monotonic() - began, 1)}), flush=True)
        gc.collect()


if __name__ == "__main__":
    main()
