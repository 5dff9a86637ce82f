"""Options that hold for some models only: one rule for plans and predictions, refused where idle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.errors import wrong_value

_NETWORKS = frozenset({"network", "decoder"})
_HOLDS_FOR = {
    "method": frozenset({"decoder"}),
    "lora_rank": frozenset({"decoder"}),
    "sharding": frozenset({"decoder"}),
    "rounds": frozenset({"estimator"}),
    **dict.fromkeys(
        ("batch_size", "precision", "layout", "optimizer", "mode", "gradient_checkpointing", "n_gpus",
         "interconnect"),
        _NETWORKS,
    ),
}  # fmt: skip
"""Option -> the kinds of model that it means something for."""

_ASKS_NOTHING = {"n_gpus": 1, "mode": "train", "gradient_checkpointing": False, "sharding": "none"}
"""What holds for every model."""

_NONE_OF_THEM = {
    "decoder": "applies to decoders (language models) only: {} is no decoder",
    "estimator": "applies to boosted trees and forests only: {} is a network",
    "network": "applies to networks trained in batches only: {} is fitted in one go",
}


_ANSWERS = {"image-segmentation": "pixels", "image-to-image": "pixels", "object-detection": "boxes"}
"""Tasks of pictures that want more than one answer a picture."""


def can_answer(model: CatalogueModel, task: str) -> bool:
    """Whether the model serves the task, or another of the same kind of input and answer."""
    if task in model.tasks:
        return True
    return (modality_of(task), _ANSWERS.get(task)) in {(modality_of(t), _ANSWERS.get(t)) for t in model.tasks}


def kind_of_model(model: CatalogueModel | None) -> str:
    """`decoder`, `network` or `estimator` (boosted trees, linear models: what the processor fits); a model
    that is not listed is a network."""
    if model is None:
        return "network"
    if decoder_of(model.config) is not None:
        return "decoder"
    return "network" if model.can_be_profiled else "estimator"


def without_idle(given: Mapping[str, Any], model: CatalogueModel | None) -> dict[str, Any]:
    """What of the given means something for the model, for who asks of many models at once."""
    kind = kind_of_model(model)
    return {option: value for option, value in given.items() if kind in _HOLDS_FOR.get(option, {kind})}


def check_options(given: Mapping[str, Any], model: CatalogueModel | None, name: str) -> None:
    """InvalidInput for the first of the given options (None = not given) that means nothing for the model."""
    kind = kind_of_model(model)
    for option, value in given.items():
        if value is None or kind in _HOLDS_FOR.get(option, {kind}) or value == _ASKS_NOTHING.get(option):
            continue
        wanted = "network" if _HOLDS_FOR[option] == _NETWORKS else min(_HOLDS_FOR[option])
        raise wrong_value(option, _NONE_OF_THEM[wanted].format(name), value)
    for size in ("image_size", "seq_len"):
        if model is not None and given.get(size) is not None and size != model.input_kind:
            raise wrong_value(size, f"does not apply: {name} takes {model.input_kind}", given[size])
    if given.get("lora_rank") is not None and given.get("method") == "full":
        raise wrong_value(
            "lora_rank", "applies to method=lora and method=qlora, not to full", given["lora_rank"]
        )
    if kind == "decoder" and given.get("weights") == "none":
        raise wrong_value(
            "weights", f"none leaves out {name}: a decoder is tuned from pretrained ones", "none"
        )


def check_options_of_task(given: Mapping[str, Any], task: str, serving: Iterable[CatalogueModel]) -> None:
    """The same where the planner chooses the model: an option must mean something for a model that serves the
    task. InvalidInput otherwise."""
    rows = tuple(serving)
    if (given.get("method") or given.get("lora_rank")) is not None:
        option = "method" if given.get("method") else "lora_rank"
        if not any(kind_of_model(row) == "decoder" for row in rows):
            message = f"applies to decoders (language models) only: none serves {task}"
            raise wrong_value(option, message, given[option])
        if given.get("weights") == "none":
            raise wrong_value(
                option, "tunes pretrained decoders, and weights=none leaves them out", given[option]
            )
    if given.get("lora_rank") is not None and given.get("method") in (None, "full"):
        raise wrong_value(
            "lora_rank", "applies to method=lora and method=qlora: say which", given["lora_rank"]
        )
