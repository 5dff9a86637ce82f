"""Training jobs of public tables predicted: decoders by formula, several cards, sharded weights."""

from dataclasses import dataclass, replace
from math import log2
from typing import Literal

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.cost.decoders.generation import cache_bytes, forward_kernels, token_seconds
from memory_service.domain.cost.decoders.tower import tuned_profile
from memory_service.domain.cost.memory import GIB, optimizer_bytes
from memory_service.domain.cost.multi_gpu import cards_of, profile_on, profile_with, step_on
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.step_config import StepConfig
from memory_service.domain.learning.measured_jobs import Job
from memory_service.domain.learning.measured_rows import MeasuredRow
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.errors import wrong_value

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
