"""What a row of a public table says of a training job: how a decoder was tuned, on how many cards, what was
metered.

Columns: `method, lora_rank, n_gpus, n_nodes, interconnect, sharding, batch_per_gpu, grad_accumulation,
seq_len_or_image_size, gradient_checkpointing, attention, memory_kind, samples_per_s, tokens_per_s,
seconds_per_step, speedup, notes`. Speeds are of the whole job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.decoders.decoder import USUAL_RANK, Loss, Method, Targets, Tuning
from memory_service.errors import FieldError, InvalidInput

Row = Mapping[str, str]
Meter = Literal["allocated", "reserved", "driver"]

ALPACA_TOKENS = {"alpaca max 1304": 110, "alpaca2k max 512": 150}
"""About what a text takes on average; tables state the longest alone."""


@dataclass(frozen=True, slots=True)
class Job:
    """A training job; None or the default where the row does not say.

    tuning        of a decoder, without what `MeasuredRow` says (checkpointing, compilation)
    tokens        of a text on average, where texts are shorter than the longest
    link          "nvlink" | "pcie" | "slow" (lanes of a mining board)
    sharded       weights, gradients and optimizer are spread over the cards
    own_state     the optimizer's state has a type of its own, not the weights'
    one_batch     seconds_per_step is that of one batch, not of an update
    model_parallel   the network itself is cut: not predicted
    generates     texts are written, nothing is trained
    """

    tuning: Tuning
    n_gpus: int = 1
    nodes: int = 1
    link: str | None = None
    sharded: bool = False
    accumulation: int = 1
    tokens: int | None = None
    own_state: bool = False
    one_batch: bool = False
    model_parallel: bool = False
    meter: Meter = "driver"
    tokens_per_s: float | None = None
    seconds_per_step: float | None = None
    speedup: float | None = None
    out_of_memory: bool = False
    generates: bool = False


def is_job(row: Row) -> bool:
    return "batch_per_gpu" in row or "n_gpus" in row


def job_of(row: Row) -> Job:
    """The job of a row; InvalidInput for a method nobody prices and for counts that are none."""
    notes, version = row.get("notes", "").lower(), row.get("framework_version", "").lower()
    method, double = _method(row.get("method", ""))
    precision, sharding = row.get("precision", "").lower(), row.get("sharding", "").lower()
    half = method != "full" or "true" in precision or ("amp" not in precision and "pure" in sharding)
    source = row.get("source", "").lower()
    half = half or (method == "full" and precision in ("bf16", "fp8", "bfloat16") and not sharding)
    if precision.startswith("int8"):
        error = FieldError("precision", "fp32, fp16, bf16", precision)
        raise InvalidInput("Training in int8 is not predicted", [error])
    link, accumulation = row.get("interconnect", "").lower(), _whole(row, "grad_accumulation") or 1
    cut = [n for n in re.findall(r"\b(?:tp|pp|cp|ep|vp)\s*=?\s*(\d+)", sharding) if int(n) > 1]
    tuning = Tuning(
        method, _whole(row, "lora_rank") or USUAL_RANK, _targets(row, notes, version),
        head="lm", half_weights=half, master=method == "full" and "internevo" in source,
        accumulates=accumulation > 1, eager=row.get("attention", "").lower() == "eager",
        loss=_loss(row, source, notes, version), dropout="litgpt" in source,
        adapters_single="adapter fp32" in precision,
        adapters_half="true" in precision or "fsdp_qlora" in source,
        selective="selective" in row.get("gradient_checkpointing", ""), double=double,
        litgpt="litgpt" in version,
    )  # fmt: skip
    return Job(
        tuning=tuning,
        n_gpus=_whole(row, "n_gpus") or 1,
        nodes=_whole(row, "n_nodes") or 1,
        link="slow" if "slow" in link else "nvlink" if "nv" in link and "no nvlink" not in link
        and "not said" not in link else "pcie" if "pcie" in link else None,
        sharded="fsdp" in sharding and "fsdp=false" not in sharding and "fsdp0" not in sharding,
        accumulation=accumulation,
        tokens=_mean_tokens(row, notes),
        own_state=re.search(r"bnb|paged|[48].?bit|fp8", row.get("optimizer", "").lower()) is not None,
        one_batch="micro-batch iteration" in notes,
        model_parallel=bool(cut) or "offload" in sharding,
        meter="reserved" if "torchtitan" in source else _meter(row.get("memory_kind", "").lower()),
        tokens_per_s=number_in(row, "tokens_per_s"),
        seconds_per_step=number_in(row, "seconds_per_step"),
        speedup=number_in(row, "speedup"),
        generates=row.get("mode", "").startswith("generat"),
        out_of_memory=row.get("oom", "") in ("1", "True", "true"),
    )  # fmt: skip


_METHODS = shipped_table(__package__, "measured_names.toml")["methods"]


def _method(text: str) -> tuple[Method, bool]:
    """(method, whether scales are doubly quantised)."""
    found = _METHODS.get(text.strip().lower())
    if found is None:
        message = f"Tuning by {text} is not predicted, only full, lora and qlora"
        raise InvalidInput(message, [FieldError("method", "full, lora or qlora", text)])
    method, double = found
    return method, double


_GATED_TOO = ("gemma", "phi", "tiny-llama")
"""Models whose files in litgpt's config_hub/finetune put adapters on every layer; all others name queries and
values alone."""


def _targets(row: Row, notes: str, version: str) -> Targets:
    named = re.search(r"targets? ([a-z_,.0-9 ]+)", notes)
    if named and "proj" in named[1]:
        gated = re.search(r"up_proj|down_proj|gate_proj|mlp", named[1])
        attention = re.search(r"[qkvo]_proj", named[1])
        return "all" if gated and attention else "mlp" if gated else "attention"
    if "config_hub" in row.get("source", ""):
        return "all" if row.get("model", "").lower().startswith(_GATED_TOO) else "attention"
    return "attention" if "8641822" in version or "lora on q,v" in notes else "all"


def _loss(row: Row, source: str, notes: str, version: str) -> Loss:
    if "unsloth" in source and notes.startswith("unsloth"):
        return "in_place"
    if any(name in source for name in ("fsdp_qlora", "unsloth", "swift")):
        return "shifted"
    torch = re.search(r"torch 2\.(\d+)", version)
    apart = torch is not None and int(torch[1]) < 8  # torchtitan compiled layers alone until 2025
    return "compiled" if row.get("compile", "").lower() in ("yes", "true", "1") and not apart else "plain"


def _mean_tokens(row: Row, notes: str) -> int | None:
    found = re.search(r"mean tokens per sample (\d{1,9})|(\d{1,9}) tokens mean", notes)
    if found:
        return int(found[1] or found[2])
    return ALPACA_TOKENS.get(row.get("seq_len_or_image_size", "").strip().lower())


def _meter(kind: str) -> Meter:
    if "reserved" in kind:
        return "reserved"
    return "allocated" if "allocated" in kind or kind.startswith("torch") else "driver"


def _whole(row: Row, name: str) -> int | None:
    value = number_in(row, name)
    return None if value is None or value < 1 else int(value)


def number_in(row: Row, column: str) -> float | None:
    """The positive number of a column; None where it holds none, InvalidInput where it holds a word."""
    text = row.get(column, "")
    try:
        value = float(text) if text else 0.0
    except ValueError:
        error = FieldError(column, "a number", text)
        raise InvalidInput(f"{column} must be a number, got {text!r}", [error]) from None
    return value if 0 < value < float("inf") else None
