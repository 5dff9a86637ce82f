"""Which parameters does the library refuse, ignore or read otherwise than meant?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from difflib import get_close_matches

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.removed_api import GONE_ARGUMENTS
from memory_service.review.script import last_name
from memory_service.review.signatures import SIGNATURES

__all__ = ["parameter_rules"]

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

_KERAS_OPTIMIZERS = frozenset(("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Nadam", "Adamax"))
_LARGEST_RATE = {"Adam": 0.05, "AdamW": 0.05, "NAdam": 0.05, "RAdam": 0.05, "SGD": 5.0, "RMSprop": 0.1}
_FINE_TUNING_RATE = 5e-3


def parameter_rules(facts: Facts) -> Iterator[Finding]:
    """wrong-parameter."""
    for call in facts.script.calls:
        yield from _unknown(facts, call)
        yield from _old(facts, call)
        yield from _contradiction(facts, call)
        yield from _rates(facts, call)


def _unknown(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    qualified = facts.script.qualified(call.func)
    qualified = qualified.replace("pytorch_lightning.", "lightning.pytorch.", 1)
    if qualified.startswith("lightning.") and not qualified.startswith("lightning.pytorch."):
        qualified = qualified.replace("lightning.", "lightning.pytorch.", 1)
    parameters = SIGNATURES.get(qualified)
    if parameters is None:
        return
    name, allowed = last_name(call.func), parameters.split()
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in allowed:
            continue
        if any((name, keyword.arg) in table for table in (_OLD, GONE_ARGUMENTS)):
            continue
        near = get_close_matches(keyword.arg, allowed, n=1, cutoff=0.4)
        near = ["lr"] if keyword.arg == "learning_rate" and "lr" in allowed else near
        yield finding(
            "wrong-parameter",
            keyword.value if call.lineno == keyword.value.lineno else _place_of(facts, call, keyword),
            f"{name} has no parameter {keyword.arg}.",
            f"{near[0]}=..." if near else f"leave it out; there are {', '.join(allowed[:6])} ...",
        )


def _place_of(facts: Facts, call: ast.Call, keyword: ast.keyword) -> ast.AST:
    """Where a keyword is said: in the call, or in the settings that it gets by `**more`."""
    inside = facts.script.statement(keyword.value) is facts.script.statement(call)
    return call if inside else keyword.value


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
    if name in ("fit", "evaluate", "predict") and script.uses("keras", "tensorflow"):
        for keyword in call.keywords:
            if keyword.arg in ("workers", "use_multiprocessing", "max_queue_size"):
                yield finding(
                    "wrong-parameter",
                    keyword.value,
                    f"Keras' {name}() takes no {keyword.arg} any more.",
                    f"leave it out; a PyDataset takes it: super().__init__({keyword.arg}=...)",
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
    if name == "OneCycleLR" and not values.open_ended(call) and len(call.args) < 3:
        given = {k.arg for k in call.keywords}
        if "total_steps" not in given and not {"epochs", "steps_per_epoch"} <= given:
            yield finding(
                "wrong-parameter",
                call,
                "OneCycleLR needs total_steps, or epochs and steps_per_epoch.",
                "total_steps=EPOCHS * len(train_loader)",
            )
    if name == "ReduceLROnPlateau" and facts.script.uses("torch"):
        factor = values.number(values.argument(call, "factor", 2))
        if factor is not None and factor >= 1:
            yield finding(
                "wrong-parameter", call, "ReduceLROnPlateau refuses a factor of 1 and more.", "factor=0.5"
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
    yield from _shares(facts, call)


_SHARES = ("label_smoothing", "p", "dropout", "drop_rate", "drop_path_rate", "pct_start", "subsample")
_BOOSTED = re.compile(r"^(LGBM|XGB|CatBoost|GradientBoosting|dict$)")
"""Whose `subsample` is a share of the rows; elsewhere it is how many to look at, or every which one."""


def _shares(facts: Facts, call: ast.Call) -> Iterator[Finding]:
    """A share that is none: chances, dropout, smoothing, the part of rows or columns."""
    values, name = facts.values, last_name(call.func)
    by_chance = name.startswith(("Dropout", "Random")) or facts.script.qualified(call.func).startswith(
        ("albumentations.", "torchvision.transforms.")
    )
    for parameter in _SHARES:
        if (parameter == "p" and not by_chance) or (parameter == "subsample" and not _BOOSTED.search(name)):
            continue
        place = values.argument(call, parameter, 0 if parameter == "p" and name == "Dropout" else None)
        number = values.number(place)
        if number is not None and not 0 <= number <= 1:
            yield finding(
                "wrong-parameter",
                call,
                f"{parameter}={number:g} is no share between 0 and 1.",
                f"{parameter}=0.1",
            )


def _given(facts: Facts, call: ast.Call, name: str) -> bool:
    node = facts.values.argument(call, name)
    return node is not None and not (isinstance(node, ast.Constant) and node.value is None)


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
