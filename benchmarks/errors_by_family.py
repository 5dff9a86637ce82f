"""Errors against public rows named as configurations of other packages. Part of docs/methods/models.md.

    python -m benchmarks.errors_by_family DETECTION.csv VOLUMES.csv

OpenMMLab's 1333 x 800 pixels are asked at 1 056 x 1 056 (4 % more); memory is what torch allocates, cuDNN's
workspace included. nnU-Net's pictures are channels first; its epochs are 250 steps and 50 validation batches
of a third of a step each. Only networks whose profiles ship are asked.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.step_config import StepConfig, layout_of
from memory_service.domain.hardware.gpu_spec import resolve_gpu
from memory_service.domain.prediction.device_memory import peak_memory
from memory_service.domain.prediction.device_step_time import prepare
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.operations import database as databases
from memory_service.services.prediction.evaluate import read_rows

NAMES = (
    (r"cascade-rcnn_r50(-caffe)?_fpn_(1x|20e)_coco", "cascadercnn/resnet50", 1056),
    (r"cascade-rcnn_r101(-caffe)?_fpn_(1x|20e)_coco", "cascadercnn/resnet101", 1056),
    (r"detr_r50_8xb2-150e_coco", "detr", 1056),
    (r"centernet_r18-dcnv2_8xb16-crop512-140e_coco", "centernet-r18", 512),
    (r"yolov5([smlx])", r"yolov5\1", 640),
    (r"nnU-Net v1 Task003_Liver 3d_fullres.*", "unet3d", 128),
    (r"nnU-Net v1 Task003_Liver 2d", "nnunet-2d", 512),
)
"""Name in a table -> row of the catalogue, pixels a side."""

CARDS = {"v100": "v100-16gb", "v100-sxm-16gb": "v100-16gb", "titan": "titanxp", "rtx6000-turing": "rtx6000"}
EPOCH = (250 + 50 / 3) / 250


def main(files: list[str]) -> None:
    errors: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/memory.sqlite3")
        databases.upgrade(database)
        seeding.seed(database)
        priced, gpus = knowledge_of(database).priced, knowledge_of(database).gpus
        rows = ({n: v or "" for n, v in row.items()} for file in files for row in read_rows(Path(file)))
        for row in rows:
            known = next(((m, n, s) for p, n, s in NAMES if (m := re.fullmatch(p, row["model"]))), None)
            if known is None or row["score"] != "1":
                continue
            match, name, size = known
            kind = "fp32" if row["precision"] == "fp32" else "amp"
            profile = priced.library.between(match.expand(name), size, kind)
            if profile is None:
                continue
            gpu, batch = resolve_gpu(CARDS.get(row["gpu"], row["gpu"]), gpus), int(row["batch_per_gpu"])
            layout = "nchw" if name == "nnunet-2d" else layout_of(profile, gpu)
            optimizer = "none" if row["mode"] == "infer" else "adamw" if name == "detr" else "sgd"
            config = StepConfig(
                "fp32" if kind == "fp32" else "fp16", layout, optimizer,
                "infer" if row["mode"] == "infer" else "train", stack="torch1",
            )  # fmt: skip
            plain = re.sub(r"\W1$", "", name)
            label = f"{plain}, {row['mode']}, {'several' if batch > 1 else 'one'} a batch"

            def note(figure: str, measured: float, predicted: Estimate, label: str = label) -> None:
                inside = predicted.low <= measured <= predicted.high
                errors[f"{label}: {figure}"].append((predicted.value / measured - 1, inside))

            if row["peak_gib"]:
                note("memory", float(row["peak_gib"]), peak_memory(profile, batch, gpu, config).reserved_gib)
            if row["seconds_per_step"]:
                seconds = float(row["seconds_per_step"]) / (EPOCH if row["mode"] == "train" else 1.0)
                note("seconds", seconds, prepare(profile, gpu, config).step_seconds(batch))
        database.close()
    for label, found in sorted(errors.items()):
        sizes = [abs(error) for error, _ in found]
        bias, inside = median(error for error, _ in found), sum(within for _, within in found)
        print(f"| {label} | {len(found)} | {median(sizes):.1%} | {bias:+.1%} | {inside} |")


if __name__ == "__main__":
    main(sys.argv[1:])
