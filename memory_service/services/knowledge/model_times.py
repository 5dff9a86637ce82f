"""Training steps of a model timed on a device of this host, for a sweep."""

import os
from collections.abc import Callable
from dataclasses import replace

from memory_service.client.sweep import Cell, Timed
from memory_service.domain.calibration.calibration import Fingerprint
from memory_service.errors import MemoryServiceError
from memory_service.resources import path
from memory_service.services.knowledge.profiling import catalogue_row

_SIZES = ("image_size", "seq_len", "n_features")


def completed(cell: Cell, fingerprint: Fingerprint) -> Cell:
    """The cell with task, precision and layout, where it does not say them: usual for model and device."""
    row = catalogue_row(cell.model, path("seeds"))
    card = fingerprint.kind == "cuda"
    half = "bf16" if (fingerprint.compute_capability or 0.0) >= 8.0 else "fp16"
    facts = {
        "precision": half if card else "fp32",
        "layout": "nhwc" if card and (row is None or row.input_kind == "image_size") else "nchw",
    }
    if row is not None and row.tasks:
        facts["task"] = row.tasks[0]
    return replace(cell, facts={**facts, **cell.facts})


def measure_with(fingerprint: Fingerprint, seconds: float) -> Callable[[Cell], Timed]:
    """Times a cell for about `seconds`; one that cannot be built or does not fit says why. Of several cards
    this process sees only that one from now on."""
    if fingerprint.kind == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = fingerprint.uuid

    def measure(cell: Cell) -> Timed:
        import torch

        from memory_service.measure.time_model import time_model

        row, facts = catalogue_row(cell.model, path("seeds")), cell.facts
        size = next((facts[name] for name in _SIZES if name in facts), None)
        try:
            windows, peaks = time_model(
                row.name if row else cell.model, fingerprint.kind, fingerprint.uuid, facts["batch_size"],
                facts["precision"], facts["layout"], seconds,
                input_size=size or (row.default_input_size if row else None),
                n_outputs=facts.get("n_classes"), library=row.library if row else None,
                config=row.config if row else None, family=row.family if row else "",
            )  # fmt: skip
        except torch.OutOfMemoryError:
            return Timed(out_of_memory=True)
        except (MemoryServiceError, RuntimeError, ValueError, TypeError, IndexError) as error:
            return Timed(why=" ".join(f"{type(error).__name__}: {error}".split()))
        return Timed(windows, peaks)

    return measure
