"""Rows of public tables of measurements: what was asked, and what was measured.

Two formats: throughput and fit (`source,gpu,vram_gib,model,precision,layout,batch,image_size_or_seq_len,mode,
samples_per_s,peak_gib,notes`) and driver-seen memory (`model,batch,peak_mib_driver,fake_tensor_mib`: fp32 on
an A100-40GB). What a row leaves open (optimizer, torch version, layout) is read from its notes, else assumed
and said.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import PRECISIONS
from memory_service.domain.learning.measured_jobs import Job, is_job, job_of, number_in
from memory_service.errors import FieldError, InvalidInput

GIB_PER_MIB = 1 / 1024
UNSTATED = (2, 0)
FUSED_SINCE = (2, 2)


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One measurement as a question with its answer; a field the row does not state is None.

    precision         fp32 | tf32 | fp16 | bf16; "fp32-or-tf32" where tensor cores take fp32 if the card can
    optimizer         a name of `domain.cost.memory.OPTIMIZERS`, or None where the table does not say
    torch_before_2    old PyTorch: gradients kept by `zero_grad`, slow grouped convolutions in nhwc
    fused_attention   only where the table says PyTorch 2.2 or later: what published tables ran before did not
    per_card          a row of several cards whose figures are for each of them
    job               how a decoder was tuned, and on how many cards, where the table has such columns
    compiled          measured under torch.compile
    ladder            the batches that were tried; `largest` is the one that fitted
    fake_tensor_gib   what plain fake-tensor tracing said, for the naive baseline
    """

    model: str
    gpu: str
    mode: Literal["train", "infer"]
    precision: str
    layout: str
    batch: int | None = None
    input_size: int | None = None
    optimizer: str | None = None
    torch_before_2: bool = False
    fused_attention: bool = False
    per_card: bool = False
    compiled: bool = False
    checkpointing: bool = False
    vram_gib: float | None = None
    ladder: tuple[int, ...] | None = None
    largest: int | None = None
    samples_per_s: float | None = None
    peak_gib: float | None = None
    fake_tensor_gib: float | None = None
    source: str = ""
    notes: str = ""
    job: Job | None = None


def parse_row(raw: Mapping[str, str | None]) -> MeasuredRow:
    """A row of either format; InvalidInput names the column that cannot be read."""
    row = {key.strip(): (value or "").strip() for key, value in raw.items() if key}
    if not row.get("model"):
        raise InvalidInput("The row names no model", [FieldError("model", "is missing")])
    if "peak_mib_driver" in row:
        return _driver_row(row)
    notes = row.get("notes", "")
    torch = _torch_version(f"{row.get('framework_version', '')} {notes}")
    precision = row.get("precision", "").lower()
    job = job_of(row) if is_job(row) else None
    batch = _leading_int(row.get("batch_per_gpu", "") if job else row.get("batch", ""))
    ladder, source = _ladder(notes), row.get("source", "")
    compiled = re.search(r"torch\.?compile|dynamo|compiled", f"{source} {notes}".lower()) is not None
    checkpointing = "checkpoint" in notes.lower()
    if job:
        checkpointing = row.get("gradient_checkpointing") in ("yes", "full")
    biggest = batch if ladder or "largest that fits" in notes else None
    return MeasuredRow(
        model=_network(row["model"]) if job else row["model"],
        gpu=row.get("gpu", "").rstrip("?"),
        job=job,
        mode="infer" if row.get("mode", "train").lower().startswith("infer") else "train",
        precision=_precision(precision),
        layout=_layout(row.get("layout", ""), precision, row["model"], source),
        batch=batch,
        input_size=_size(_stated_size(row)),
        optimizer=_optimizer(f"{row.get('optimizer', '')} {notes}"),
        torch_before_2=torch < UNSTATED,
        fused_attention=torch >= FUSED_SINCE,
        per_card="per gpu" in notes.lower(),
        compiled=compiled or row.get("compile") == "yes",
        checkpointing="grad ckpt" in precision or checkpointing,
        vram_gib=number_in(row, "vram_gib"),
        ladder=ladder,
        largest=biggest,
        samples_per_s=number_in(row, "samples_per_s"),
        peak_gib=number_in(row, "peak_gib"),
        source=source,
        notes=notes,
    )


DRIVER_OPTIMIZER = "adamw-fused"
"""Of tables of the driver's peak, which do not say: two moments, but no temporary of all weights at its step.
Three networks of 1.0 and 1.8 billion weights show less in all than the 20 bytes a weight of that."""


def _driver_row(row: Mapping[str, str]) -> MeasuredRow:
    peak = number_in(row, "peak_mib_driver")
    fake = number_in(row, "fake_tensor_mib")
    return MeasuredRow(
        model=row["model"], gpu=row.get("gpu") or "a100", mode="train", precision="fp32", layout="nchw",
        batch=_leading_int(row.get("batch", "")), optimizer=DRIVER_OPTIMIZER, fused_attention=True,
        peak_gib=None if peak is None else peak * GIB_PER_MIB,
        fake_tensor_gib=None if fake is None else fake * GIB_PER_MIB, source="driver-seen peak",
    )  # fmt: skip


_ALIASES: Mapping[str, str] = shipped_table(__package__, "measured_names.toml")["networks"]
"""Names of benchmarks -> the network in them."""


_DETECTOR = re.compile(
    r"(faster-?rcnn|mask-?rcnn|retinanet|fcos)-(r|x)-?(50|101)(-32x8d)?(-caffe|-pytorch)?"
    r"-fpn(-gn-head)?(-ms|-mstrain)?(-\dx|-20e)?(-coco)?"
)
"""Configurations of detectron2 and OpenMMLab with a pyramid and nothing else: no cascade, no other neck."""


def _network(name: str) -> str:
    """The network that a benchmark's name means."""
    found = _DETECTOR.fullmatch(name.lower().replace("_", "-"))
    if found is None:
        return _ALIASES.get(name, name)
    backbone = f"resnext{found[3]}_32x8d" if found[2] == "x" else f"resnet{found[3]}"
    return f"{found[1].replace('-', '')}/{backbone}"


def _stated_size(row: Mapping[str, str]) -> str:
    """NVIDIA's page on nnU-Net states the size of its pictures in one table of two."""
    stated = row.get("image_size_or_seq_len") or _longest(row.get("seq_len_or_image_size", ""))
    pictures = row["model"] == "nnunet-2d" and _is_nvidia_nnunet(row.get("source", ""))
    return stated or ("192x160" if pictures else "")


def _longest(text: str) -> str:
    """ "alpaca2k max 512" -> "512": the longest text."""
    found = re.search(r"max ?(\d+)$", text.strip())
    return found[1] if found else text


def _leading_int(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found and int(found[0]) > 0 else None


def _size(text: str) -> int | None:
    """Pixels a side or tokens; a rectangle counts as the square of its area, at the middle of its jitter; of
    pictures that are scaled to a shorter side, the largest, of three to four where no longer one is named."""
    sides = re.match(r"(?:max)?\(?(\d{1,6})\s{0,3}[x,]\s{0,3}(\d{1,6})(?!\s{0,3}x|\d)", text)
    short = re.match(r"(?:\d{1,6}-)?(\d{1,6}) short(?:, (\d{1,6}) long)?$", text)
    if short:
        return round(sqrt(int(short[1]) * int(short[2] or 4 * int(short[1]) / 3)))
    if sides is None:
        return _leading_int(text) if re.fullmatch(r"\d+(\.0+)?|(\d+)x\2x\2", text) else None
    side = sqrt(int(sides[1]) * int(sides[2]))
    jitter = re.search(r"\((\d+)-(\d+) jitter\)", text)
    if jitter:
        side *= (int(jitter[1]) + int(jitter[2])) / 2 / int(sides[1])
    return round(side) or None


def _precision(text: str) -> str:
    text = text.replace("bfloat16", "bf16")
    if re.search(r"\bamp\b|^fp16|^bf16|amp_bf16|^fp8", text):
        return "bf16" if "bf16" in text else "fp16"
    if "tf32" in text and "notf32" not in text.replace("-", "").replace(" ", ""):
        return "fp32-or-tf32" if "fp32" in text else "tf32"
    plain = text.split("-", maxsplit=1)[0]
    return plain if plain in PRECISIONS else "fp32"


def _is_nvidia_nnunet(source: str) -> bool:
    return source.startswith("NVIDIA/DeepLearningExamples") and "/nnUNet/" in source


def _layout(text: str, precision: str, model: str, source: str) -> str:
    """As stated; TensorFlow and MXNet rows in mixed precision ran channels-last, others PyTorch's default.

    NVIDIA's own nnU-Net over volumes ran channels-last in mixed precision (`--layout NDHWC` in its
    scripts/benchmark.py), twice as fast as its authors' (A100, 128^3, batch 2: 27.5 and 12 to 13 a second).
    """
    if model == "nnunet-3d" and "amp" in precision and not text and _is_nvidia_nnunet(source):
        return "nhwc"
    stated = f"{text} {precision}".lower()
    if "nhwc" in stated or "channels_last" in stated or "channels-last" in stated:
        return "nhwc"
    elsewhere = re.search(r"\((tf|mxnet)", model.lower()) is not None
    return "nhwc" if elsewhere and not text and "amp" in precision else "nchw"


def _optimizer(notes: str) -> str | None:
    text = notes.lower()
    if "no optimizer" in text:
        return "none"
    bits = re.search(r"adamw? ?-?(8|4) ?_?bit|adamw_8bit|adamwfp(8)", text)
    if bits:
        return "adamw-4bit" if bits[1] == "4" else "adamw-8bit"
    if "adamw fused" in text:
        return "adamw-fused"
    found = re.search(r"\b(adamw|adam|lamb|rmsprop|adafactor|sgd)\b", text)
    return found[0] if found else None


def _torch_version(text: str) -> tuple[int, int]:
    """(major, minor) of the PyTorch a row was measured with; (2, 0) where it does not say. `21.03` is a
    container's date."""
    found = re.search(r"(?:torch|pytorch)\s*=*\s*v?([12])\.(\d+)", text.lower())
    return (int(found[1]), int(found[2])) if found else UNSTATED


def _ladder(notes: str) -> tuple[int, ...] | None:
    """The batches that were tried, ascending; below the last one stated such searches go on by halves."""
    found = re.search(r"first batch that fits of ((?:\d+[ ,]*)+)", notes)
    if not found:
        return None
    stated = {int(n) for n in re.findall(r"\d+", found[1])}
    return tuple(sorted(stated | {rung for rung in (1, 2, 4) if rung < min(stated)}))
