"""Fits without batches, as of boosted trees: seconds and memory of one, in an answer of /predict."""

from dataclasses import replace
from typing import Any

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import SIZE_TYPICAL_N_TRAIN
from memory_service.domain.cost import boosted_trees
from memory_service.domain.cost.in_context import (
    context_laws,
    context_memory,
    context_seconds,
    passed_limit,
)
from memory_service.domain.planning.fits import split_of
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.prediction.device import TargetDevice, provenance_warnings
from memory_service.domain.prediction.device_host import device_fit
from memory_service.errors import wrong_value
from memory_service.schemas.predict import PredictRequest

USUAL_ROUNDS = 500


def where(gpu: TargetDevice) -> dict[str, Any]:
    """The card, the device if it is one, and the calibration behind the figures."""
    calibration = gpu.provenance.as_dict() if gpu.provenance else None
    named = {"gpu": gpu.slug, "device": gpu.device or None, "calibration": calibration}
    return named | {"warnings": provenance_warnings([gpu])}


def fit_answer(row: CatalogueModel, question: PredictRequest, gpu: TargetDevice) -> dict[str, Any]:
    """The answer for a model that is fitted as a whole; InvalidInput where no law of its cost is known."""
    kind = boosted_trees.cost_kind(row.name, row.library, row.family)
    if kind is None:
        detail = f"{row.name} is in the catalogue for what it is good for; nobody gave its cost"
        raise wrong_value("model", "has no profile and no cost law", row.name, detail=detail)
    law = context_laws().get(kind)
    most = law.limits.get("rows") if law else None
    rows = question.n_train or min(most or 10**9, SIZE_TYPICAL_N_TRAIN["medium"])
    steps = question.seq_len if row.input_kind == "seq_len" else None
    columns = steps or question.n_features or row.default_input_size
    given = {"rows": rows, "columns": columns, "classes": question.n_classes}
    if row.input_kind == "n_features" and (passed := passed_limit(row.name, **given)):
        raise wrong_value("model", passed, row.name, detail=f"{row.name} {passed}")
    cores = question.cpu_count or int(gpu.extra.get("cores", 8))  # type: ignore[call-overload]
    rounds = question.rounds or USUAL_ROUNDS
    asked = kind, row.name, rows, columns, question.n_classes or 1
    cost = device_fit(*asked, rounds=rounds, cpu_count=cores, device=gpu)
    if law is not None and gpu.kind == "cuda":
        fit, each = context_seconds(kind, rows, columns, max(gpu.tflops.values()))
        cost = replace(cost, fit_seconds=fit, predict_seconds_per_row=each)
    used = {"n_train": rows, "n_features": columns, "rounds": rounds}
    used |= {} if "cores" in gpu.extra else {"cpu_count": cores}
    passes = rounds if boosted_trees.grows_trees(kind) else 1
    on_card, peak = None, Estimate(0.0, 0.0, 0.0, basis=boosted_trees.no_device_memory(row.name))
    held: Estimate | None = peak
    if gpu.kind == "cuda" and law is not None:
        regression = not question.n_classes
        peak = held = context_memory(kind, rows, rows // 2, columns, regression=regression)
    elif gpu.kind == "cuda" and kind in boosted_trees.CARD_BYTES:  # one split, as a plan begins
        trained = int(split_of(rows, 1)[0])
        data = trained, rows - trained, columns, question.n_classes or 1
        held = boosted_trees.card_peak(kind, *data, gpu.usable_gib)
    if gpu.kind == "cpu":
        peak = cost.memory_gib
    if gpu.kind == "cuda" and held is not None and law is None:
        peak = held
        on_card = boosted_trees.fit_on_card(
            kind, rows, columns, question.n_classes or 1, rounds, gpu.bandwidth_gb_s
        )
    return {
        "model": row.name,
        **where(gpu),
        "n_features": columns,
        "n_train": rows,
        "assumed": [f"{name} {value}" for name, value in used.items() if getattr(question, name) is None],
        "cpu_count": cores,
        "rounds": rounds,
        "fits": peak.high <= gpu.usable_gib or gpu.kind != "cuda",
        "max_batch_size": None,
        "knee_batch_size": None,
        "curve": [],
        "peak_memory_gib": peak.as_dict(),
        "host_memory_gib": cost.memory_gib.as_dict(),
        "fit_seconds": cost.fit_seconds.as_dict(),
        **({"card_fit_seconds": on_card.as_dict()} if on_card else {}),
        "samples_per_second": cost.fit_seconds.reciprocal(float(rows * passes)).as_dict(),
        "step_seconds": None,
        "predict_seconds_per_row": cost.predict_seconds_per_row.as_dict(),
        "basis": cost.fit_seconds.basis,
    }
