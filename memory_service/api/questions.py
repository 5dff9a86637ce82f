"""Which fields do /recommend, /similar, /predict and /conflicts take? Bounds come from the domain that
checks them."""

from __future__ import annotations

from collections.abc import Mapping

from memory_service.api.fields import Field
from memory_service.domain.common.vocabulary import MODES, OBJECTIVES, PRECISIONS, SIZES
from memory_service.domain.planning.request import INTEGER_BOUNDS, NUMBER_BOUNDS, TEXT_LIMITS
from memory_service.services.competitions.similar import MAX_LIMIT
from memory_service.services.prediction.predict import PREDICT_FIELDS
from memory_service.services.tables.formats import FORMATS

__all__ = ["CONFLICTS", "PREDICT", "RECOMMEND", "SIMILAR"]


def _named(*fields: Field) -> Mapping[str, Field]:
    return {field.name: field for field in fields}


def _words(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _asked(name: str, kind: str, about: str, example: object = None) -> Field:
    low, high = {**INTEGER_BOUNDS, **NUMBER_BOUNDS}[name]
    return Field(name, kind, about, low, high, above=name in NUMBER_BOUNDS, example=example)  # type: ignore[arg-type]


def _text(name: str, about: str, longest: int, example: object = None) -> Field:
    return Field(name, "text", about, longest=longest, example=example)


_TASK = (
    "A task or its alias: `image`, `text`, `tabular`, `segmentation`, `detection`, `audio`, `time-series` …"
)
_GPU = "A card by any name people or drivers use: `a100` (= 40 GB), `a100-80gb`, `rtx3090`, `t4`, `cpu` …"

RECOMMEND = _named(
    _text(
        "task",
        f"{_TASK} May be left out with `competition` or `description`: then it is inferred.",
        100,
        "image",
    ),
    _text(
        "size",
        f"{_words(SIZES)}: small < 10 000 <= medium < 100 000 <= large training samples.",
        100,
        "medium",
    ),
    _asked("n_train", "integer", "Training samples, exactly; overrules `size`."),
    Field(
        "gpu",
        "names",
        f"{_GPU} Several with commas: the plan fits all.",
        longest=TEXT_LIMITS["gpu"],
        example="a100",
    ),
    Field(
        "plan_for",
        "names",
        "The card of production, when it is not the one visible.",
        longest=TEXT_LIMITS["plan_for"],
    ),
    _asked("minutes", "number", "Wall-clock budget for everything; 30 when not given."),
    _asked("n_classes", "integer", "Classes to tell apart."),
    _asked("image_size", "integer", "Pixels a side, pinned."),
    _asked("seq_len", "integer", "Tokens a text, pinned."),
    _asked("n_features", "integer", "Columns of a table."),
    _asked("n_test", "integer", "Samples to predict."),
    _asked("cpu_count", "integer", "Processor cores for the loader."),
    _asked("vram_gib", "number", "Memory to plan for instead of the card's own."),
    _text("precision", f"Pinned: {_words(PRECISIONS)}.", 100),
    _text("model", "Pinned model by its catalogue, timm or hub name.", TEXT_LIMITS["model"]),
    _asked("folds", "integer", "Pinned number of folds."),
    _asked("epochs", "integer", "Pinned number of epochs."),
    _asked("batch_size", "integer", "Pinned batch size."),
    _text("objective", f"{_words(OBJECTIVES)}; balanced when not given.", 100),
    _text("mode", f"{_words(MODES)}: what memory of competitions may be used; open when not given.", 100),
    _text(
        "metric",
        "What predictions are judged by: `ROC AUC`, `macro F1`, `RMSLE`, `MAP@5` … May be left out where the "
        "description says it or the competition is known.",
        TEXT_LIMITS["metric"],
    ),
    _text("competition", "Slug of a known competition.", TEXT_LIMITS["competition"]),
    _text("description", "The task in free words.", TEXT_LIMITS["description"]),
)

SIMILAR = _named(
    _text(
        "text",
        "A description in free words; this or `competition`.",
        100_000,
        "photos of dogs, 120 breeds, log loss",
    ),
    _text("competition", "Slug of a known competition; this or `text`.", 200),
    _text("task", f"{_TASK} Overrules what the text suggests.", 100),
    Field("limit", "integer", "How many neighbours.", 1, MAX_LIMIT, default=5),
    _text("mode", f"{_words(MODES)}; open when not given.", 100),
)

_PREDICT_ABOUT = {
    "model": "A catalogue, timm or transformers name, `unet/<encoder>`, `lightgbm` …",
    "gpu": _GPU,
    "image_size": "Pixels a side.",
    "seq_len": "Tokens a text.",
    "n_features": "Columns of a table.",
    "batch_size": "Samples a step; without it the answer is for the knee of throughput.",
    "precision": f"{_words(PRECISIONS)}, `amp`; the card's own best when not given.",
    "layout": "`nhwc` (channels last) or `nchw`; default: what a plan would set there.",
    "optimizer": "`adamw` (default), `adam`, `sgd-momentum` …",
    "mode": "`train` (default) or `infer`.",
    "n_train": "Training rows: the answer then says how long an epoch, or a fit of boosted trees, takes.",
    "n_classes": "Classes; for processor-bound models only.",
    "cpu_count": "Processor cores; for processor-bound models only.",
    "rounds": "Boosting rounds, or trees of a forest; 500 when not given.",
}


def _predicted(name: str, bounds: tuple[int, int] | None) -> Field:
    about, example = _PREDICT_ABOUT[name], _PREDICT_EXAMPLES.get(name)
    if bounds is not None:
        return Field(name, "integer", about, bounds[0], bounds[1], example=example)
    named = name in ("model", "gpu")
    return Field(name, "text", about, longest=200 if named else 80, required=named, example=example)


_PREDICT_EXAMPLES = {"model": "resnet50", "gpu": "a100", "image_size": 224}
PREDICT = _named(*(_predicted(name, bounds) for name, bounds in PREDICT_FIELDS.items()))

CONFLICTS = _named(
    _text("gpu", "Only what is about this GPU model (slug).", 120),
    _text("device", "Only what was measured on this registered device.", 120),
    _text("model", "Only what is about this model.", 160),
    _text("quantity", "Only what is about this quantity.", 120),
    Field(
        "sort",
        "text",
        "Widest disagreement first, or by id.",
        choices=("-apart", "apart", "id", "-id"),
        default="-apart",
    ),
    Field("limit", "integer", "Rows of one page.", 1, 500, default=50),
    _text("cursor", "`next` of the page before.", 4_000),
    Field(
        "format",
        "text",
        "All rows as a file instead of a page.",
        choices=("json", *FORMATS),
        default="json",
    ),
)
