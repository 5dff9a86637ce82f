"""Predictions against public tables: every row predicted and compared.

A row that cannot be predicted says why and stops nothing.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any, Literal

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.boosted_trees import TREE_SPREAD
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.cost.decoders.generation import cache_bytes, forward_kernels, token_seconds
from memory_service.domain.cost.decoders.tower import tuned_profile
from memory_service.domain.cost.interpolation import interpolate_profile
from memory_service.domain.cost.memory import GIB, optimizer_bytes
from memory_service.domain.cost.multi_gpu import cards_of, profile_on, profile_with, step_on
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import Stack, StepConfig
from memory_service.domain.cost.tree_seconds import TREE_LAWS, seconds_per_tree
from memory_service.domain.hardware.gpu_spec import resolve_gpu
from memory_service.domain.learning.corrections import LearnedCorrections, learn
from memory_service.domain.learning.measured_jobs import Job
from memory_service.domain.learning.measured_rows import MeasuredRow, parse_row
from memory_service.domain.learning.observation import (
    BaselinePrediction,
    Observation,
    observation_of,
    prediction_key,
)
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import TargetDevice, target_device
from memory_service.domain.prediction.device_memory import Confidence, largest_batch, peak_memory
from memory_service.domain.prediction.device_step_time import baseline_prediction, prepare
from memory_service.errors import InvalidInput, MemoryServiceError, unknown_name, wrong_value
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.profiling import read_profiles
from memory_service.services.prediction.profile_store import ProfileKey, ProfileStore
from memory_service.services.tables.table_rows import keep_profiles
from memory_service.services.tables.usable_rows import usable
from memory_service.store.queries.rows import all_rows

SLOW_LANES_GB_S = 3.0
"""Of PCIe on boards with few lanes a card."""

NODE_GB_S = 20.0
"""Between boxes, a card: InfiniBand or RoCE of 200 Gbit/s."""

PADDING = 0.25
"""Share by which each doubling of a batch lengthens the longest of its texts."""


USUAL_TOKENS = 2048
WRITTEN_TOKENS = 300
"""Of a row of generation that does not say how long its texts are."""


@dataclass(frozen=True, slots=True)
class JobProfiles:
    """longest: for the peak, a batch of the longest texts; usual: for the time, of usual ones."""

    longest: Profile
    usual: Profile
    tokens: float


def decoder_profiles(row: MeasuredRow, job: Job, model: CatalogueModel) -> JobProfiles | None:
    """The profiles of a decoder's row; None where the model is none. InvalidInput for a cut network.

    What is known of adapters beyond the table is of their memory alone: predicted speeds, already too high of
    LoRA, are no better for it."""
    if decoder_of(model.config) is None:
        return None
    if job.model_parallel:
        detail = "Networks cut over several cards are not predicted"
        raise wrong_value("sharding", "data parallel", row.model, detail=detail)
    longest = row.input_size or USUAL_TOKENS
    padded = longest
    if job.tokens is not None:  # a batch is as long as the longest of its texts
        padded = max(1, min(longest, round(job.tokens * (1.0 + PADDING * log2(row.batch or 1)))))
    kind: Literal["fp32", "amp"] = "fp32" if row.precision in ("fp32", "tf32") else "amp"

    tuned = replace(job.tuning, checkpointing=row.checkpointing, compiled=row.compiled)
    if job.generates and tuned.method == "full":
        tuned = replace(tuned, method="lora")  # weights are frozen

    def at(length: int, shards: int) -> Profile:
        how = replace(tuned, shards=shards)
        return tuned_profile(model.name, model.config, length, how, precision=kind, family=model.family)

    shards = job.n_gpus if job.sharded else 1
    return JobProfiles(at(longest, shards), at(padded, 1), float(min(longest, job.tokens or longest)))


def predict_job(
    row: MeasuredRow, job: Job, profiles: JobProfiles, gpu: TargetDevice, config: StepConfig, batch: int
) -> dict[str, Estimate]:
    """Peak of one card and speed of the whole job."""
    if job.generates:
        return _generation(row, profiles.longest, gpu, batch)
    cards = cards_of(gpu, job.n_gpus, "pcie" if job.link == "slow" else job.link)
    if job.link == "slow":
        cards = replace(cards, gb_s=SLOW_LANES_GB_S)
    if job.nodes > 1:
        cards = replace(cards, gb_s=min(cards.gb_s, NODE_GB_S))
    resident = profiles.longest if job.sharded or row.mode == "infer" else profile_on(profiles.longest, cards)
    memory = peak_memory(profile_with(resident, _own_state(resident, job, config)), batch, gpu, config)
    peak: Estimate = getattr(memory, f"{job.meter}_gib")
    if job.meter == "allocated" and profiles.longest.extra.get("largest_conv_bytes"):
        peak = memory.reserved_gib  # PyTorch counts cuDNN's workspace as allocated
    alone = prepare(profiles.usual, gpu, config)
    together = step_on(alone, profiles.longest if job.sharded else profiles.usual, cards)
    step = together.step_seconds(batch)
    if not job.one_batch and job.accumulation > 1:  # optimizer and exchange of gradients once an update
        micro = together if job.sharded else alone
        others = micro.seconds(batch) - alone.optimizer_seconds
        step = step.scaled(1.0 + (job.accumulation - 1) * others / step.value)
    samples = batch * job.n_gpus * (1 if job.one_batch else job.accumulation)
    out = {"peak_gib": peak, "seconds_per_step": step, "samples_per_s": step.reciprocal(samples)}
    if profiles.usual.input_kind == "seq_len":
        out["tokens_per_s"] = step.reciprocal(samples * profiles.tokens)
    if job.n_gpus > 1:
        out["speedup"] = together.step_seconds(batch).reciprocal(alone.seconds(batch) * job.n_gpus)
    return out


def _own_state(profile: Profile, job: Job, config: StepConfig) -> float:
    """Bytes that the states of half-precision weights take beyond half of those of fp32 ones, where a state's
    type is its own: fp32, 8 or 4 bits in bitsandbytes and torchao, whatever the weight's."""
    share = 4.0 / profile.extra.get("weight_bytes", 4.0) - 1.0
    return share * optimizer_bytes(profile.params, config.optimizer) if job.own_state else 0.0


def _generation(row: MeasuredRow, profile: Profile, gpu: TargetDevice, batch: int) -> dict[str, Estimate]:
    """Of a decoder without adapters: weights, keys and values, and what unpacking a layer takes."""
    kernels = forward_kernels(profile) - profile.extra["adapter_kernels"]
    cache = batch * cache_bytes(profile, row.input_size or WRITTEN_TOKENS)
    weights = float(profile.buffers_bytes or profile.params * 4)
    peak = (weights + cache + profile.extra["unpacked_bytes"]) / GIB
    return {
        "peak_gib": Estimate(
            peak, peak * 0.9, peak * 1.15, basis="weights, cache, the largest layer unpacked"
        ),
        "tokens_per_s": token_seconds(kernels, weights + cache, gpu.bandwidth_gb_s).reciprocal(float(batch)),
    }


USUAL_LEAVES = 31.0


Raw = Mapping[str, str | None]

GRID = 64
"""Networks that halve their input up to six times take multiples of this."""

DEFAULT_OPTIMIZERS = {"image_size": "sgd"}
"""Where a table does not say: SGD for images, AdamW for all else."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One row: what it asked, what was predicted (None where not possible), and why not.

    predicted   "max_batch_size" (samples), "samples_per_s", "peak_gib" -> Estimate; the peak is the
                driver's view, or what PyTorch allocated where the row says so
    batch       the predicted speed and peak are of this
    """

    index: int
    raw: Raw
    row: MeasuredRow | None = None
    predicted: Mapping[str, Estimate] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    case: "RowCase | None" = None
    batch: int = 1
    why_not: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The wire form of a row of `evaluate --json`: what the table said, what was predicted or why not."""
        return {
            "row": self.index,
            **{name: value for name, value in self.raw.items() if name not in ("source", "notes")},
            "measured": measured_figures(self.row) if self.row else measured_trees(self.raw),
            "predicted": {name: value.as_dict() for name, value in self.predicted.items()} or None,
            "assumed": list(self.assumed),
            "why_not": self.why_not,
        }


@dataclass(frozen=True, slots=True)
class RowCase:
    """What a row asks, with what it leaves open filled in."""

    row: MeasuredRow
    profile: Profile
    gpu: TargetDevice
    precision: str
    optimizer: str
    decoder: JobProfiles | None = None

    @property
    def config(self) -> StepConfig:
        row = self.row
        stack: Stack = "torch1" if row.torch_before_2 else "torch2"
        return StepConfig(self.precision, row.layout, self.optimizer, row.mode, row.compiled, stack)


def read_rows(path: Path) -> list[dict[str, str | None]]:
    """The rows of a CSV file with a header; InvalidInput when it cannot be read as one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines)
            rows = [{k: v for k, v in row.items() if isinstance(k, str)} for row in reader]
            columns = reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        detail = f"{path} cannot be read as CSV: {error}"
        raise wrong_value("file", "a readable CSV file", str(path), detail=detail) from error
    if "model" not in columns and "library" not in columns:
        detail = f"{path} has no column 'model'; it has: {', '.join(map(str, columns)) or 'nothing'}"
        raise wrong_value("file", "a header with a column 'model'", str(path), detail=detail)
    return rows


def evaluate_rows(
    rows: Iterable[Raw], profile_store: ProfileStore, gpus: Mapping[str, TargetDevice]
) -> Iterator[Evaluated]:
    """Each row predicted, in order; missing profiles are traced and stored on the way."""
    for index, raw in enumerate(rows):
        yield _evaluated(index, raw, profile_store, gpus)
    profile_store.close()


def open_profile_store(
    database: Database, files: Iterable[Path] = ()
) -> tuple[ProfileStore, dict[str, TargetDevice]]:
    """The profiles and models of the database, and its cards; what is traced is stored in the database.

    files   further profiles (`.jsonl` or `.jsonl.gz`), read but not kept
    """
    with database.read() as transaction:
        known, models, sheets = (
            usable(table, all_rows(transaction.session, table))[0] for table in ("profiles", "models", "gpus")
        )
        gpus = [target_device(sheet) for sheet in sheets]
    known += [profile for file in files for profile in read_profiles(file)]

    def keep(fresh: Sequence[Profile]) -> None:
        with database.write() as transaction:
            keep_profiles(transaction, fresh, source="traced for an evaluation")

    return ProfileStore({m.name: m for m in models}, known, keep), {gpu.slug: gpu for gpu in gpus}


def case_of(row: MeasuredRow, profile_store: ProfileStore, gpus: Mapping[str, TargetDevice]) -> RowCase:
    """The row's profile, card, precision and optimizer; InvalidInput where one of them is not known."""
    gpu = card_of(row, gpus)
    model = profile_store.listed(row.model) if row.job else None
    decoder = decoder_profiles(row, row.job, model) if row.job and model else None
    key = profile_key(row)
    profile = decoder.longest if decoder else profile_of(profile_store, key)
    precision = row.precision
    if precision == "fp32-or-tf32":
        precision = "tf32" if "tf32" in gpu.tflops else "fp32"
    optimizer = row.optimizer or DEFAULT_OPTIMIZERS.get(profile.input_kind, "adamw")
    return RowCase(row, profile, gpu, precision, "none" if row.mode == "infer" else optimizer, decoder)


def learn_from_rows(
    rows: Iterable[Raw], profile_store: ProfileStore, gpus: Mapping[str, TargetDevice]
) -> tuple[dict[str, TargetDevice], int]:
    """The cards with what the rows teach, as if each had been a run, and how many rows could be used.

    Nothing is kept in a database.
    """
    cases: dict[Observation, RowCase] = {}
    used = 0
    for raw in rows:
        try:
            case = case_of(parse_row(raw), profile_store, gpus)
        except MemoryServiceError:
            continue
        found = observations_of(case)
        used += bool(found)
        cases.update(dict.fromkeys(found, case))
    profile_store.close()

    def predict(observation: Observation) -> BaselinePrediction:
        case = cases[observation]
        return baseline_prediction(observation, case.profile, case.gpu)

    learned: LearnedCorrections = learn(cases, predict)
    return {slug: replace(gpu, learned=learned) for slug, gpu in gpus.items()}, used


def observations_of(case: RowCase) -> list[Observation]:
    """What a row observed: a step's time, a peak, and on a ladder of batches also the first that failed."""
    row = case.row
    if row.batch is None or "do not score" in row.notes.lower():
        return []
    reported = "max allocated" in row.notes.lower()
    peak = None if "fill" in row.notes else row.peak_gib
    ran = observation_of(
        prediction_key(case.profile, case.gpu, case.config),
        row.batch,
        input_kind=case.profile.input_kind,
        step_seconds=row.batch / row.samples_per_s if row.samples_per_s else None,
        peak_allocated_gib=peak if reported else None,
        peak_driver_gib=None if reported else peak,
        source=row.source,
    )
    larger = [batch for batch in row.ladder or () if batch > row.batch]
    failed = [
        replace(
            ran, batch_size=min(larger), step_seconds=None, peak_allocated_gib=None, peak_driver_gib=None,
            out_of_memory=True,
        )
    ] if larger and row.largest == row.batch else []  # fmt: skip
    has_figures = ran.step_seconds is not None or peak is not None
    return ([ran] if has_figures else []) + failed


def _evaluated(
    index: int, raw: Raw, profile_store: ProfileStore, gpus: Mapping[str, TargetDevice]
) -> Evaluated:
    row: MeasuredRow | None = None
    try:
        if is_trees_row(raw):
            return Evaluated(index, raw, predicted=predict_trees(raw, gpus))
        row = parse_row(raw)
        return _predicted(Evaluated(index, raw, row), case_of(row, profile_store, gpus))
    except MemoryServiceError as error:
        return Evaluated(index, raw, row, why_not=error.detail)


def card_of(row: MeasuredRow, gpus: Mapping[str, TargetDevice]) -> TargetDevice:
    """The row's card, with the memory the row states where that differs from the card of that name.

    InvalidInput for several cards and for a name that none has.
    """
    name, _, remark = row.gpu.partition("(")
    name = _CARDS.get(name, name)
    if remark and remark[0].isdigit() and not remark.startswith("1x") and not row.per_card:
        raise wrong_value("gpu", "one card", row.gpu, detail=f"Several cards ({row.gpu}) are not predicted")
    gpu = resolve_gpu(name.strip(), gpus)
    if row.vram_gib is None or abs(row.vram_gib - gpu.memory_gib) <= 0.12 * row.vram_gib:
        return gpu
    reserve = gpu.memory_gib - gpu.usable_gib
    return replace(gpu, memory_gib=row.vram_gib, usable_gib=row.vram_gib * 0.99 - reserve)


_CARDS = {"unknown": "a100-80gb", "h100-96gb-500w": "h100", "a800-80gb": "a100-80gb", "titan": "titanxp"}
"""Cards of tables that no data sheet names -> one that behaves like them; `unknown`: memory means the same
there."""


def profile_key(row: MeasuredRow) -> ProfileKey:
    """What must be traced for the row: remarks in brackets behind the model's name are left out."""
    return ProfileKey(
        row.model.partition("(")[0].strip(),
        row.input_size,
        "fp32" if row.precision in ("fp32", "tf32", "fp32-or-tf32") else "amp",
        fused_attention=row.fused_attention,
        checkpointing=row.checkpointing,
    )


def profile_of(profile_store: ProfileStore, key: ProfileKey) -> Profile:
    """The profile of a key; one between two sizes where the network wants multiples of its stride."""
    try:
        return profile_store.get(key)
    except InvalidInput:
        size = key.input_size
        if size is None or size % GRID == 0 or size < GRID:
            raise
    below = size // GRID * GRID
    lower, upper = (profile_store.get(replace(key, input_size=n)) for n in (below, below + GRID))
    return interpolate_profile(lower, upper, size)


def _predicted(known: Evaluated, case: RowCase) -> Evaluated:
    row, profile, gpu, optimizer = case.row, case.profile, case.gpu, case.optimizer
    assumed = [] if row.optimizer or row.mode == "infer" else [f"optimizer {optimizer}"]
    if row.input_size is None:
        assumed.append(f"input size {profile.input_size}")
    predicted = {"max_batch_size": _largest(case)}
    batch = row.batch or (1 if case.decoder else max(1, int(predicted["max_batch_size"].low)))
    if row.batch is None:
        assumed.append(f"batch {batch}")
    if row.job is not None:
        profiles = case.decoder or JobProfiles(profile, profile, float(profile.input_size))
        predicted |= predict_job(row, row.job, profiles, gpu, case.config, batch)
    else:
        predicted["samples_per_s"] = prepare(profile, gpu, case.config).samples_per_second(batch)
        memory = peak_memory(profile, batch, gpu, case.config)
        reported = "max allocated" in row.notes.lower()
        # PyTorch counts cuDNN's workspace as allocated, as `reserved_gib` does and `allocated_gib` does not.
        predicted["peak_gib"] = memory.reserved_gib if reported else memory.driver_gib
    return replace(known, predicted=predicted, assumed=tuple(assumed), case=case, batch=batch)


def _largest(case: RowCase) -> Estimate:
    """Value: what is expected to fit; low: the batch to plan with; high: what fits if everything goes
    well."""
    row = case.row

    def fits(confidence: Confidence) -> float:
        most = largest_batch(case.profile, case.gpu, case.config, ladder=row.ladder, confidence=confidence)
        return float(most)

    return Estimate(fits("p50"), fits("p90"), fits("p10"), basis="trace against usable memory")


def measured_trees(raw: Raw) -> dict[str, float]:
    """What a row of a table of trees measured."""
    found = {name: raw.get(name) for name in ("seconds_per_tree", "seconds")}
    return {name: float(text) for name, text in found.items() if text}


def measured_figures(row: MeasuredRow) -> dict[str, float | int | None]:
    """What a row measured, by the names of what is predicted."""
    figures: dict[str, float | int | None] = {"max_batch_size": row.largest}
    figures |= {name: getattr(row, name) for name in ("samples_per_s", "peak_gib")}
    if row.job is not None:
        figures |= {name: getattr(row.job, name) for name in ("tokens_per_s", "seconds_per_step", "speedup")}
    return {name: value for name, value in figures.items() if value is not None}


def is_trees_row(raw: Mapping[str, str | None]) -> bool:
    return "seconds_per_tree" in raw and "library" in raw


def predict_trees(raw: Mapping[str, str | None], gpus: Mapping[str, TargetDevice]) -> dict[str, Estimate]:
    """Seconds of a tree, and of all of them; InvalidInput for a library or device nobody knows."""
    row = {name: (value or "").strip() for name, value in raw.items()}
    library = row["library"].lower()
    if library not in TREE_LAWS:
        raise unknown_name("model", library, tuple(TREE_LAWS))
    rows, features = (_number(row, name) for name in ("rows", "features"))
    device = row.get("device", "cpu")
    card = None if device.startswith("cpu") or not device else resolve_gpu(device, gpus)
    seconds = seconds_per_tree(
        library, rows, features, _leaves(row.get("depth_or_leaves", "")),
        threads=int(_number(row, "threads_or_gpus", 1.0)), card_gb_s=card.bandwidth_gb_s if card else None,
    )  # fmt: skip
    if seconds is None:
        detail = f"{library} on a card is not predicted"
        raise wrong_value("device", "a processor", device, detail=detail)
    where = "a card" if card else f"{row.get('threads_or_gpus') or 1} threads"
    basis = f"law of {library} trees on {where}"
    one = Estimate(seconds, seconds / TREE_SPREAD, seconds * TREE_SPREAD, basis=basis)
    trees = _number(row, "trees", 0.0)
    return {"seconds_per_tree": one, **({"seconds": one.scaled(trees)} if trees else {})}


def _number(row: Mapping[str, str], name: str, usual: float | None = None) -> float:
    try:
        return float(row.get(name) or ("" if usual is None else usual))
    except ValueError:
        raise wrong_value(name, "a number", row.get(name), detail=f"{name} must be a number") from None


def _leaves(text: str) -> float:
    """ "depth 10 (leaves 512)" -> 512, "depth 6" -> 64."""
    stated = re.search(r"leaves (\d+)", text)
    depth = re.search(r"depth (\d+)", text)
    return float(stated[1]) if stated else 2.0 ** int(depth[1]) if depth else USUAL_LEAVES
