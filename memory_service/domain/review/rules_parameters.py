"""Which parameters does the library refuse, ignore or read otherwise than meant?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from memory_service.domain.review.facts import Facts
from memory_service.domain.review.findings import Finding, finding
from memory_service.domain.review.script import last_name

__all__ = ["parameter_rules"]

_DATALOADER = (
    "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn pin_memory drop_last "
    "timeout worker_init_fn "
    "multiprocessing_context generator prefetch_factor persistent_workers pin_memory_device in_order"
)
_ADAM = (
    "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused "
    "decoupled_weight_decay"
)
_KNOWN: dict[str, tuple[str, str]] = {
    "torch.utils.data.DataLoader": ("DataLoader", _DATALOADER),
    "torch.optim.Adam": ("Adam", _ADAM),
    "torch.optim.AdamW": ("AdamW", _ADAM),
    "torch.optim.SGD": (
        "SGD",
        "params lr momentum dampening weight_decay nesterov maximize foreach differentiable fused",
    ),
    "torch.nn.CrossEntropyLoss": (
        "CrossEntropyLoss",
        "weight size_average ignore_index reduce reduction label_smoothing",
    ),
    "torch.nn.BCEWithLogitsLoss": ("BCEWithLogitsLoss", "weight size_average reduce reduction pos_weight"),
    "torch.optim.lr_scheduler.CosineAnnealingLR": ("CosineAnnealingLR", "optimizer T_max eta_min last_epoch"),
    "torch.optim.lr_scheduler.StepLR": ("StepLR", "optimizer step_size gamma last_epoch"),
    "torch.optim.lr_scheduler.ReduceLROnPlateau": (
        "ReduceLROnPlateau",
        "optimizer mode factor patience threshold threshold_mode cooldown min_lr eps",
    ),
    "torch.optim.lr_scheduler.OneCycleLR": (
        "OneCycleLR",
        (
            "optimizer max_lr total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum "
            "base_momentum "
            "max_momentum div_factor final_div_factor three_phase last_epoch"
        ),
    ),
    "sklearn.model_selection.KFold": ("KFold", "n_splits shuffle random_state"),
    "sklearn.model_selection.StratifiedKFold": ("StratifiedKFold", "n_splits shuffle random_state"),
    "sklearn.model_selection.GroupKFold": ("GroupKFold", "n_splits shuffle random_state"),
    "sklearn.model_selection.TimeSeriesSplit": ("TimeSeriesSplit", "n_splits max_train_size test_size gap"),
    "sklearn.model_selection.train_test_split": (
        "train_test_split",
        "test_size train_size random_state shuffle stratify",
    ),
    "torch.nn.Dropout": ("Dropout", "p inplace"),
}
"""Qualified name -> (name, every parameter): one that is not among them is a TypeError."""

_OLD: dict[tuple[str, str], tuple[str, str]] = {
    **{
        (c, "evaluation_strategy"): ("transformers", 'eval_strategy="epoch"')
        for c in ("TrainingArguments", "Seq2SeqTrainingArguments")
    },
    **{
        (c, "no_cuda"): ("transformers", "use_cpu=True")
        for c in ("TrainingArguments", "Seq2SeqTrainingArguments")
    },
    **{
        (c, "per_gpu_train_batch_size"): ("transformers", "per_device_train_batch_size=...")
        for c in ("TrainingArguments",)
    },
    **{
        (c, "per_gpu_eval_batch_size"): ("transformers", "per_device_eval_batch_size=...")
        for c in ("TrainingArguments",)
    },
    ("TrainingArguments", "fp16_backend"): (
        "transformers",
        "half_precision_backend is gone too; leave it out",
    ),
    ("TrainingArguments", "logging_dir_"): ("transformers", ""),
    ("Trainer", "tokenizer"): ("transformers", "processing_class=tokenizer"),
    ("Seq2SeqTrainer", "tokenizer"): ("transformers", "processing_class=tokenizer"),
    ("Trainer", "gpus"): ("lightning", 'accelerator="gpu", devices=1'),
    ("Trainer", "tpu_cores"): ("lightning", 'accelerator="tpu", devices=8'),
    ("Trainer", "progress_bar_refresh_rate"): (
        "lightning",
        "enable_progress_bar=False, or TQDMProgressBar(refresh_rate=...)",
    ),
    ("Trainer", "checkpoint_callback"): ("lightning", "enable_checkpointing=..."),
    ("Trainer", "weights_summary"): ("lightning", "enable_model_summary=..."),
    ("Trainer", "distributed_backend"): ("lightning", 'strategy="ddp"'),
    ("Trainer", "auto_lr_find"): ("lightning", "Tuner(trainer).lr_find(model)"),
    ("Trainer", "auto_scale_batch_size"): ("lightning", "Tuner(trainer).scale_batch_size(model)"),
    ("Trainer", "amp_level"): ("lightning", 'precision="16-mixed"'),
    ("Trainer", "amp_backend"): ("lightning", 'precision="16-mixed"'),
    ("Trainer", "flush_logs_every_n_steps"): ("lightning", "log_every_n_steps=..."),
    ("Trainer", "resume_from_checkpoint"): ("lightning", "trainer.fit(model, ckpt_path=...)"),
    ("Trainer", "stochastic_weight_avg"): ("lightning", "callbacks=[StochasticWeightAveraging(...)]"),
    ("OneHotEncoder", "sparse"): ("sklearn", "sparse_output=False"),
    ("mean_squared_error", "squared"): ("sklearn", "root_mean_squared_error(y, prediction)"),
    ("mean_squared_log_error", "squared"): ("sklearn", "root_mean_squared_log_error(y, prediction)"),
    ("ReduceLROnPlateau", "verbose"): ("torch", "leave it out; print scheduler.get_last_lr()"),
    ("TfidfVectorizer", "get_feature_names"): ("sklearn", "get_feature_names_out()"),
}
"""(class, parameter) -> (library, what to write): renamed or removed."""

_BOOSTED_FIT = re.compile(r"^(LGBM|XGB)\w+$")
_KERAS_OPTIMIZERS = frozenset(("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Nadam", "Adamax"))
_LARGEST_RATE = {"Adam": 0.05, "AdamW": 0.05, "NAdam": 0.05, "RAdam": 0.05, "SGD": 5.0, "RMSprop": 0.1}
_FINE_TUNING_RATE = 5e-3


def parameter_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter."""
    for call in facts.script.calls:
        yield from _unknown(facts, call)
        yield from _old(facts, call)
        yield from _contradiction(facts, call)
        yield from _boosting(facts, call)
        yield from _rates(facts, call)
    yield from _transformers(facts)


def _unknown(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    qualified = facts.script.qualified(call.func)
    known = _KNOWN.get(qualified)
    if known is None:
        return
    name, parameters = known
    allowed = parameters.split()
    for keyword in call.keywords:
        if keyword.arg and keyword.arg not in allowed and (name, keyword.arg) not in _OLD:
            near = get_close_matches(keyword.arg, allowed, n=1, cutoff=0.4)
            near = ["lr"] if keyword.arg == "learning_rate" else near
            yield finding(
                "wrong-parameter",
                keyword.value if call.lineno == keyword.value.lineno else call,
                f"{name} has no parameter {keyword.arg}.",
                f"{near[0]}=..." if near else f"leave it out; there are {', '.join(allowed[:6])} ...",
            )


def _old(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    name, script = last_name(call.func), facts.script
    for keyword in call.keywords:
        found = _OLD.get((name, str(keyword.arg)))
        if found is None:
            continue
        library, instead = found
        if not script.uses(library, *(("pytorch_lightning",) if library == "lightning" else ())):
            continue
        if name == "Trainer" and library == "transformers" and script.uses("lightning", "pytorch_lightning"):
            continue
        if (
            name == "Trainer"
            and library == "lightning"
            and script.qualified(call.func).startswith("transformers.")
        ):
            continue
        yield finding("wrong-parameter", keyword.value, f"{name} takes no {keyword.arg} any more.", instead)
    if (
        name in _KERAS_OPTIMIZERS
        and script.uses("keras", "tensorflow")
        and not script.qualified(call.func).startswith("torch.")
    ):
        for keyword in call.keywords:
            if keyword.arg in ("lr", "decay"):
                instead = (
                    "learning_rate=1e-3"
                    if keyword.arg == "lr"
                    else "learning_rate=keras.optimizers.schedules.CosineDecay(1e-3, steps)"
                )
                yield finding(
                    "wrong-parameter",
                    keyword.value,
                    f"Keras' {name} takes no {keyword.arg} any more.",
                    instead,
                )
    if name in ("fit_generator", "predict_generator", "evaluate_generator") and script.uses(
        "keras", "tensorflow"
    ):
        yield finding(
            "wrong-parameter", call, f"{name} is gone from Keras.", f"{name.split('_')[0]}(generator, ...)"
        )
    qualified = script.qualified(call.func)
    if qualified.startswith("torchvision.models.") and any(k.arg == "pretrained" for k in call.keywords):
        yield finding(
            "wrong-parameter",
            call,
            f"{name}(pretrained=...) is deprecated in torchvision.",
            f'{name}(weights="DEFAULT")',
        )


def _contradiction(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    values, name = facts.values, last_name(call.func)
    if name in ("KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold") and facts.script.uses(
        "sklearn"
    ):
        shuffle, seed = values.argument(call, "shuffle", 1), values.argument(call, "random_state", 2)
        if (
            seed is not None
            and values.one(seed) is not None
            and (shuffle is None or values.one(shuffle) is False)
        ):
            yield finding(
                "wrong-parameter",
                call,
                f"{name} refuses random_state without shuffle=True.",
                f"{name}(n_splits=5, shuffle=True, random_state=42)",
            )
    if name == "train_test_split":
        stratify, shuffle = values.argument(call, "stratify"), values.argument(call, "shuffle")
        if (
            stratify is not None
            and values.one(shuffle) is False
            and not (isinstance(stratify, ast.Constant) and stratify.value is None)
        ):
            yield finding(
                "wrong-parameter",
                call,
                "train_test_split cannot stratify without shuffling.",
                "shuffle=True, or no stratify",
            )
    if name == "DataLoader" and facts.script.uses("torch"):
        workers = values.argument(call, "num_workers", 5)
        none = (workers is None and not values.open_ended(call)) or values.one(workers) == 0
        kept, ahead = values.argument(call, "persistent_workers"), values.argument(call, "prefetch_factor")
        if none and (values.one(kept) is True or isinstance(values.one(ahead), int)):
            what = "persistent_workers" if values.one(kept) is True else "prefetch_factor"
            yield finding(
                "wrong-parameter",
                call,
                f"{what} needs num_workers over 0: the loader refuses it.",
                "num_workers=8",
            )
        shuffle = values.one(values.argument(call, "shuffle", 2))
        if shuffle is True and any(_given(facts, call, n) for n in ("sampler", "batch_sampler")):
            yield finding(
                "wrong-parameter",
                call,
                "A loader takes a sampler or shuffle=True, not both.",
                "shuffle=False",
            )
    for parameter, most in (("label_smoothing", 1.0), ("p", 1.0), ("dropout", 1.0), ("drop_rate", 1.0)):
        if parameter == "p" and name not in (
            "Dropout",
            "Dropout2d",
            "HorizontalFlip",
            "VerticalFlip",
            "RandomHorizontalFlip",
        ):
            continue
        number = values.number(values.argument(call, parameter))
        if number is not None and not 0 <= number <= most:
            yield finding(
                "wrong-parameter",
                call,
                f"{parameter}={number:g} is no share between 0 and 1.",
                f"{parameter}=0.1",
            )


def _given(facts: Facts, call: ast.Call, name: str) -> bool:
    node = facts.values.argument(call, name)
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


def _boosting(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    script, values, name = facts.script, facts.values, last_name(call.func)
    if name == "fit" and isinstance(call.func, ast.Attribute):
        made = facts.training.made_by(call.func.value)
        if _BOOSTED_FIT.match(made):
            for keyword in call.keywords:
                if keyword.arg in ("early_stopping_rounds", "verbose_eval") or (
                    keyword.arg == "verbose" and made.startswith("LGBM")
                ):
                    instead = {
                        "early_stopping_rounds": "callbacks=[lgb.early_stopping(100)]"
                        if made.startswith("LGBM")
                        else f"{made}(early_stopping_rounds=50)",
                    }.get(keyword.arg, "callbacks=[lgb.log_evaluation(100)]")
                    yield finding(
                        "wrong-parameter",
                        keyword.value,
                        f"fit() of {made} takes no {keyword.arg} any more.",
                        instead,
                    )
    qualified = script.qualified(call.func)
    if qualified in ("lightgbm.train", "lightgbm.cv"):
        for keyword in call.keywords:
            if keyword.arg in ("early_stopping_rounds", "verbose_eval", "evals_result"):
                instead = {
                    "early_stopping_rounds": "lgb.early_stopping(100)",
                    "verbose_eval": "lgb.log_evaluation(100)",
                }.get(keyword.arg, "lgb.record_evaluation(history)")
                yield finding(
                    "wrong-parameter",
                    keyword.value,
                    f"{qualified} takes no {keyword.arg} any more.",
                    f"callbacks=[{instead}]",
                )
    if qualified in ("lightgbm.train", "xgboost.train") or _BOOSTED_FIT.match(name):
        params = values.argument(call, "params", 0) if qualified.endswith(".train") else None
        held = (
            (values.mapping(params) or {})
            if params is not None
            else {k.arg: k.value for k in call.keywords if k.arg}
        )
        objective = values.text(held.get("objective"))
        if (
            objective in ("multiclass", "multiclassova", "softmax")
            and qualified == "lightgbm.train"
            and params is not None
            and held
            and "num_class" not in held
            and "num_classes" not in held
        ):
            yield finding(
                "wrong-parameter", call, "objective multiclass needs num_class.", '"num_class": N_CLASSES'
            )
        if (
            objective in ("multi:softmax", "multi:softprob")
            and qualified == "xgboost.train"
            and held
            and "num_class" not in held
        ):
            yield finding(
                "wrong-parameter", call, f"objective {objective} needs num_class.", '"num_class": N_CLASSES'
            )
        if (
            objective in ("binary", "regression")
            and (count := values.number(held.get("num_class"))) is not None
            and count > 1
        ):
            yield finding(
                "wrong-parameter",
                call,
                f"objective {objective} with num_class={count:g} is refused.",
                '"objective": "multiclass"',
            )
        if values.text(held.get("tree_method")) == "gpu_hist":
            yield finding(
                "wrong-parameter",
                held["tree_method"],
                "tree_method gpu_hist is gone from xgboost.",
                'tree_method="hist", device="cuda"',
            )
        rate = values.number(held.get("learning_rate") or held.get("eta"))
        if rate is not None and rate > 1:
            yield finding(
                "wrong-parameter",
                held.get("learning_rate") or held["eta"],
                f"learning rate {rate:g} of boosting is over 1.",
                "learning_rate=0.05",
            )


def _rates(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """A learning rate that no recipe has."""
    name, qualified = last_name(call.func), facts.script.qualified(call.func)
    if name not in _LARGEST_RATE or not qualified.startswith(("torch.", "optim.")):
        return
    rate = facts.values.number(facts.values.argument(call, "lr", 1))
    if rate is None:
        return
    fine_tuned = bool(facts.script.called("from_pretrained")) and name.startswith("Adam")
    most = _FINE_TUNING_RATE if fine_tuned else _LARGEST_RATE[name]
    if rate > most or rate <= 0:
        place = facts.values.argument(call, "lr", 1) or call
        yield finding(
            "wrong-parameter",
            place,
            f"Learning rate {rate:g} with {name}{' of a pretrained transformer' if fine_tuned else ''}: "
            "training diverges or stands still.",
            "lr=2e-5" if fine_tuned else "lr=1e-3" if name != "SGD" else "lr=0.1",
        )


def _transformers(facts: Facts) -> Iterator[Finding]:
    values = facts.values
    for call in facts.script.called("TrainingArguments", "Seq2SeqTrainingArguments"):
        if values.open_ended(call):
            continue
        best = values.one(values.argument(call, "load_best_model_at_end"))
        evaluated = values.text(
            values.argument(call, "eval_strategy") or values.argument(call, "evaluation_strategy")
        )
        saved = values.text(values.argument(call, "save_strategy"))
        if best is True:
            known = evaluated or "no"
            kept = saved or "steps"
            given = values.argument(call, "eval_strategy") or values.argument(call, "evaluation_strategy")
            if (given is None or evaluated is not None) and known != kept and kept != "best":
                yield finding(
                    "wrong-parameter",
                    call,
                    f"load_best_model_at_end needs the same strategy for both: eval is {known!r}, save "
                    f"is {kept!r}.",
                    'eval_strategy="epoch", save_strategy="epoch"',
                )
        rate = values.number(values.argument(call, "learning_rate"))
        if rate is not None and rate > _FINE_TUNING_RATE:
            yield finding(
                "wrong-parameter",
                values.argument(call, "learning_rate") or call,
                f"Learning rate {rate:g} of a pretrained transformer.",
                "learning_rate=2e-5",
            )
        if (
            facts.script.called("EarlyStoppingCallback")
            and values.argument(call, "load_best_model_at_end") is None
        ):
            yield finding(
                "wrong-parameter",
                call,
                "EarlyStoppingCallback needs load_best_model_at_end=True.",
                'load_best_model_at_end=True, metric_for_best_model="eval_loss"',
            )
