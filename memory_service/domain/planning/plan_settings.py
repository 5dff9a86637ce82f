"""Which part of a plan does a training script copy? Model, batch, precision, folds, epochs, rate, loader."""

from __future__ import annotations

from typing import Any

from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.planning.candidates import Search
from memory_service.domain.planning.cost_table import Option, layout_of
from memory_service.domain.planning.plan_search import Pick
from memory_service.domain.planning.policy import Policy
from memory_service.domain.planning.schedule import learning_rate, warmup_epochs

__all__ = ["settings_of"]


def settings_of(search: Search, pick: Pick) -> dict[str, Any]:
    """The part of a plan that a training script copies; plain integers, floats, words."""
    field, option = search.field, search.table.options[pick.row]
    batch = int(field.batches.batch_size[pick.row])
    steps = int(field.batches.accumulation[pick.row])
    epochs, folds = int(field.epochs[pick.epoch]), int(field.folds[pick.fold])
    model: dict[str, Any] = {
        "name": option.model.name,
        "library": option.model.library,
        "params_m": round(option.model.params_m, 3),
        option.model.input_kind: option.input_size,
        "pretrained": option.model.pretrained,
    }
    return {
        "model": model,
        "batch_size": batch,
        "grad_accumulation": steps,
        "effective_batch_size": batch * steps,
        "precision": search.precision,
        "channels_last": channels_last(search, option),
        "compile": False,
        "gradient_checkpointing": bool(field.batches.checkpointing[pick.row]),
        "folds": folds,
        "epochs": epochs,
        "early_stopping_patience": patience_of(option, search.case.policy),
        "optimizer": option.recipe.optimizer,
        "learning_rate": learning_rate(option.recipe, batch * steps),
        "warmup_epochs": warmup_epochs(epochs),
        "data_loader": dict(search.loader),
    }


def patience_of(option: Option, policy: Policy) -> int:
    """The recipe's, within what R16 says of networks."""
    least, most = policy.patience
    own = option.recipe.patience
    return own if option.is_trees else min(max(own, least), most)


def channels_last(search: Search, option: Option) -> bool:
    profile = option.profile.get(precision_class(search.precision))
    return profile is not None and all(layout_of(profile, card) == "nhwc" for card in search.case.cards)
