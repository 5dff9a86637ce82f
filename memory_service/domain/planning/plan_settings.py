"""Settings that a training script copies: model, batch, precision, folds, epochs, rate, loader."""

from math import ceil
from typing import Any

from memory_service.domain.cost.bands import COLOURS, reads_bands
from memory_service.domain.cost.data_loader import NO_LOADER
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.cost.step_config import layout_of, precision_class
from memory_service.domain.planning.boosting_plan import fitted_at_once, kind_of, rounds_of_estimator
from memory_service.domain.planning.candidates import Candidate
from memory_service.domain.planning.hyperparameters import learning_rate, warmup_epochs
from memory_service.domain.planning.model_catalogue import shape_of
from memory_service.domain.planning.option import Option
from memory_service.domain.planning.policy import Policy
from memory_service.domain.quality.boosting_rounds import patience_rounds


def epochs_of(candidate: Candidate) -> int:
    """Epochs or rounds that a script is given; what is fitted at once has its own."""
    option = candidate.option
    return rounds_of_estimator(kind_of(option)) if fitted_at_once(option) else candidate.epochs


def settings_of(candidate: Candidate) -> dict[str, Any]:
    """The part of a plan that a training script copies; plain integers, floats, words."""
    grid, option, batch = candidate.grid, candidate.option, candidate.batch_size
    steps = int(grid.batches.accumulation[candidate.pick.row])
    at_once, epochs = fitted_at_once(option), epochs_of(candidate)
    rates = grid.learning_rates
    effective = round(batch * steps * candidate.problem.together.n * option.texts_per_row)
    rate = rates[candidate.pick.epoch] if rates else learning_rate(option.defaults, effective)
    patience = 0 if at_once else patience_of(option, candidate.problem.policy, rate, epochs)
    model: dict[str, Any] = {
        "name": option.model.name,
        "library": option.model.library,
        "params_m": round(option.model.params_m, 3),
        option.model.input_kind: option.input_size,
        "pretrained": option.model.pretrained,
    }
    bands, ratio = candidate.problem.bands, candidate.problem.aspect_ratio
    if bands != COLOURS and reads_bands(option.model.name, option.model.library):
        model["bands"] = bands
    if ratio > 1 and (strip := shape_of(option.model, option.input_size, ratio)):
        model["image_shape"] = list(strip)
    if (shape := decoder_of(option.model.config)) is not None and shape.resting:
        model["active_params_m"] = round(shape.active_params / 1e6, 3)
    return {
        "model": model, "batch_size": batch, "grad_accumulation": steps, "effective_batch_size": effective,
        "precision": candidate.precision, "channels_last": _channels_last(candidate), "compile": False,
        "gradient_checkpointing": candidate.checkpointing, **_special(candidate),
        **({"sample_rows": candidate.problem.n_train} if candidate.problem.sampled else {}),
        "folds": candidate.folds, "epochs": epochs, "early_stopping_patience": patience,
        "optimizer": "none" if at_once else option.defaults.optimizer,
        "learning_rate": 0.0 if at_once else rate, "warmup_epochs": warmup_epochs(epochs),
        "data_loader": dict(NO_LOADER if option.is_trees else candidate.candidates.loader),
    }  # fmt: skip


def _special(candidate: Candidate) -> dict[str, Any]:
    """How a decoder is tuned, how many cards train together, where boosted trees grow; otherwise nothing."""
    option, said = candidate.option, dict[str, Any]()
    if option.method:
        said |= {"method": option.method, "lora_rank": option.lora_rank}
        trainer = candidate.problem.question.trainer
        said |= {"trainer": trainer} if trainer else {}
    if option.texts_per_row > 1.0:
        said |= {"texts_per_row": round(option.texts_per_row, 2)}
    together = candidate.problem.together
    if together.n > 1 and not option.is_trees:
        said |= {"n_gpus": together.n, "interconnect": together.link}
        said |= {"sharding": "fsdp"} if option.sharded else {}
    if candidate.problem.question.weights == "none" and not option.model.pretrained:
        said |= {"weights": "none"}
    if candidate.problem.question.weights == "local" and option.model.pretrained:
        said |= {"weights": "local"}
    if candidate.problem.question.techniques is not None:
        said |= {"techniques": candidate.problem.question.techniques}
    if option.is_trees and not fitted_at_once(option):
        said |= {"tree_device": "cuda" if candidate.on_card else "cpu"}
    return said


PATIENCE_SHARE = 0.25
"""Of the planned epochs that a network goes without a gain, where R16 says fewer: while a cosine's rate is
high, validation stands still for longer. Judged."""


def patience_of(option: Option, policy: Policy, rate: float, epochs: int) -> int:
    """The recipe's, within what R16 says of networks, and a quarter of the epochs; rounds by the learning
    rate."""
    least, most = policy.patience
    if option.is_trees:
        return patience_rounds(rate)
    return max(min(max(option.defaults.patience, least), most), ceil(PATIENCE_SHARE * epochs))


def _channels_last(candidate: Candidate) -> bool:
    profile = candidate.option.profile.get(precision_class(candidate.precision))
    return profile is not None and all(layout_of(profile, card) == "nhwc" for card in candidate.problem.cards)
