"""What does the script mean to train? Model, input, batch, precision, folds and epochs, as far as its text
says."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from memory_service.review.facts import Facts
from memory_service.review.loaders import loaders_of
from memory_service.review.rules.data_loader import training_batches
from memory_service.review.rules.mixed_precision import switched_on
from memory_service.review.script import last_name

__all__ = ["Meant", "meant_by", "smaller_than"]

_TORCHVISION = {
    "vit_b_16": "vit_base_patch16_224",
    "vit_b_32": "vit_base_patch32_224",
    "vit_l_16": "vit_large_patch16_224",
    "swin_t": "swin_tiny_patch4_window7_224",
    "swin_s": "swin_small_patch4_window7_224",
    "swin_b": "swin_base_patch4_window7_224",
    "mobilenet_v2": "mobilenetv2_100",
    "mobilenet_v3_small": "mobilenetv3_small_100",
    "mobilenet_v3_large": "mobilenetv3_large_100",
    "efficientnet_v2_s": "tf_efficientnetv2_s",
    "efficientnet_v2_m": "tf_efficientnetv2_m",
    "efficientnet_v2_l": "tf_efficientnetv2_l",
    "inception_v3": "inception_v3",
    "wide_resnet50_2": "wide_resnet50_2",
    "regnet_y_16gf": "regnety_160",
    "regnet_y_8gf": "regnety_080",
    "regnet_y_3_2gf": "regnety_032",
}
_HUB = (
    (r"(?:vit|deit)-(tiny|small|base|large|huge)(?:-distilled)?-patch(\d+)-(\d+)", r"vit_\1_patch\2_\3"),
    (r"swin-(\w+)-patch4-window(\d+)-(\d+)", r"swin_\1_patch4_window\2_\3"),
    (r"swinv2-(\w+)-patch4-window(\w+)-(\w+)", r"swinv2_\1_window\2_\3"),
    (r"convnext(v2)?-([a-z]+)(?:-\d+)?", r"convnext\1_\2"),
    (r"beit-(base|large)-patch16-224", r"beitv2_\1_patch16_224"),
    (r"dinov2-(small|base|large)", r"vit_\1_patch14_dinov2"),
    (r"resnet-(\d+)", r"resnet\1"),
    (r"efficientnet-b(\d)", r"efficientnet_b\1"),
    (r"regnet-y-(\d+)", r"regnety_\1"),
)
"""Names of the hub -> the same network under the name that the catalogue has."""

_HUB_ROWS = re.compile(r"^.*/|-(in2[12]k|[pf]t22k(to1k)?|22kto1k-ft|ft1k|22k|1k)(?=-|$)")
"""The owner, and on which pictures it was trained."""

_ARCHITECTURE = re.compile(
    r"^(resnet|resnext|densenet|efficientnet|convnext|vgg|vit_|swin|mobilenet|regnet|wide_resnet|"
    r"inception)\w*$"
)
_SMP = {
    "Unet": "unet",
    "UnetPlusPlus": "unetplusplus",
    "FPN": "fpn",
    "DeepLabV3Plus": "deeplabv3plus",
    "UPerNet": "upernet",
}
RECOMPUTED = "activations are computed anew"
"""Less memory for more time: what a full training takes at best, it takes too."""

_NOT_A_MODEL = re.compile(r"token|process|config|extractor|schedul", re.IGNORECASE)
_OPTIMIZERS = {"SGD": "sgd-momentum", "Adam": "adam", "AdamW": "adamw", "NAdam": "adam", "RAdam": "adam"}


_FAMILIES = (
    tuple(f"efficientnet_b{n}" for n in range(9)),
    ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152"),
    tuple(f"convnext_{size}" for size in ("tiny", "small", "base", "large", "xlarge")),
    tuple(f"swin_{size}" for size in ("tiny", "small", "base", "large")),
    tuple(f"vit_{size}" for size in ("tiny", "small", "base", "large", "huge")),
)
"""Sizes of one network, the smallest first."""


def smaller_than(model: str) -> list[str]:
    """Names of the same network in smaller sizes, the largest of them first."""
    for family in _FAMILIES:
        for place, name in enumerate(family):
            if name in model:
                return [model.replace(name, smaller) for smaller in reversed(family[:place])]
    return []


@dataclass(frozen=True, slots=True)
class Meant:
    """None means "cannot be told". `model` as the catalogue may know it; `batch_place` where the batch is
    set.

    lighter   why memory or time differ from a full training of the model (frozen layers, adapters ...)
    """

    framework: str | None
    model: str | None
    models: tuple[str, ...]
    batch_size: int | None
    batch_place: ast.AST | None
    grad_accumulation: int | None
    image_size: int | None
    seq_len: int | None
    precision: str | None
    optimizer: str | None
    folds: int | None
    epochs: int | None
    rounds: int | None
    num_workers: int | None
    place: ast.AST | None
    lighter: str | None
    trains: bool

    def as_dict(self) -> dict[str, Any]:
        """What was understood, without places and what is unknown."""
        shown = {
            "framework": self.framework,
            "trains": self.trains,
            "model": self.model or (list(self.models) if len(self.models) > 1 else None),
            "batch_size": self.batch_size,
            "grad_accumulation": self.grad_accumulation,
            "image_size": self.image_size,
            "seq_len": self.seq_len,
            "precision": self.precision,
            "optimizer": self.optimizer,
            "folds": self.folds,
            "epochs": self.epochs,
            "rounds": self.rounds,
            "num_workers": self.num_workers,
        }
        return {name: value for name, value in shown.items() if value is not None}


def meant_by(facts: Facts) -> Meant:
    """Everything that can be told."""
    training = facts.training
    models = _models(facts)
    batches = training_batches(facts)
    distinct = sorted({batch for _, batch in batches})
    batch = distinct[0] if len(distinct) == 1 else None
    batch_place = batches[0][0] if batch is not None else None
    if not batches and training.trains:
        batch, batch_place = _named(facts, r"(train_)?(batch_?size|bs)")
    fits = [fit.call for fit in training.fits]
    workers = [w for x in loaders_of(facts) for w in x.workers or () if isinstance(w, int)]
    return Meant(
        framework=_framework(facts),
        model=models[0] if len(models) == 1 else None,
        models=tuple(models),
        batch_size=batch,
        batch_place=batch_place,
        grad_accumulation=_accumulation(facts),
        image_size=facts.image_size if facts.modality in ("image", "audio") else None,
        seq_len=facts.seq_len,
        precision=_precision(facts),
        optimizer=next((v for k, v in _OPTIMIZERS.items() if facts.script.called(k)), None),
        folds=_folds(facts),
        epochs=_epochs(facts),
        rounds=_rounds(facts),
        num_workers=max(workers) if workers else None,
        place=next(iter((*training.epoch_loops, *fits)), None),
        lighter=_lighter(facts),
        trains=training.trains,
    )


def _framework(facts: Facts) -> str | None:
    kinds = facts.training.kinds
    for kind in ("lightning", "transformers", "keras", "fastai", "torch", "boosting", "sklearn"):
        if kind in kinds:
            if kind == "boosting":
                return next((b for b in ("lightgbm", "xgboost", "catboost") if facts.script.uses(b)), kind)
            return kind
    for name in (
        "lightning",
        "pytorch_lightning",
        "transformers",
        "keras",
        "tensorflow",
        "fastai",
        "torch",
        "sklearn",
    ):
        if facts.script.uses(name):
            return name
    return None


def _models(facts: Facts) -> list[str]:
    """Names of architectures that the file makes, each once."""
    script, values, out = facts.script, facts.values, []
    kept = _saved_to(facts)
    for call in script.calls:
        name, qualified = last_name(call.func), script.qualified(call.func)
        found: str | None = None
        if name == "create_model" and (qualified.startswith("timm.") or script.uses("timm")):
            found = values.text(values.argument(call, "model_name", 0))
        elif name in ("get_model", "getattr") and script.uses("torchvision"):
            said_by = values.text(values.argument(call, "name", 0 if name == "get_model" else 1))
            if said_by and _ARCHITECTURE.match(said_by):
                found = _TORCHVISION.get(said_by, said_by)
        elif qualified.startswith("torchvision.models.") and "." not in qualified.removeprefix(
            "torchvision.models."
        ):
            found = _TORCHVISION.get(name, name) if _ARCHITECTURE.match(name) else None
        elif (
            name == "from_pretrained"
            and isinstance(call.func, ast.Attribute)
            and not _NOT_A_MODEL.search(last_name(call.func.value))
        ):
            found = values.text(values.argument(call, "pretrained_model_name_or_path", 0))
            found = (
                None
                if found is not None
                and (found in kept or re.search(r"^[./]|\.(pt|pth|bin)$|checkpoint|^out", found))
                else _of_hub(found)
            )
        elif qualified.startswith("segmentation_models_pytorch.") and name in _SMP:
            encoder = values.argument(call, "encoder_name", 0)
            said = "resnet34" if encoder is None else values.text(encoder)
            found = f"{_SMP[name]}/{_encoder(said)}" if said else None
        if found and found not in out:
            out.append(found)
    if not out and "boosting" in facts.training.kinds:
        out = [b for b in ("lightgbm", "xgboost", "catboost") if facts.script.uses(b)]
    return out


def _of_hub(name: str | None) -> str | None:
    """`google/vit-large-patch16-224-in21k` under timm's name; other names as they are."""
    plain = _HUB_ROWS.sub("", name or "")
    return next((re.sub(p, made, plain) for p, made in _HUB if re.fullmatch(p, plain)), name)


def _saved_to(facts: Facts) -> set[str]:
    """Folders that the file itself writes to: a model that is loaded from there is no further one."""
    given = [
        c.args[0] for c in facts.script.called("save_pretrained", "save_model", "mkdir", "Path") if c.args
    ]
    given += [k.value for k in facts.script.all(ast.keyword) if k.arg in ("output_dir", "save_directory")]
    return {text for node in given if (text := facts.values.text(node))}


def _encoder(name: str) -> str:
    return re.sub(r"^(tu-|timm-)", "", name).replace("-", "_")


def _precision(facts: Facts) -> str | None:
    if not facts.training.offers or facts.training.kinds <= {"boosting", "sklearn"}:
        return None
    text = facts.script.text
    on = switched_on(facts)
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg in ("fp16", "bf16") and facts.values.one(keyword.value) is not False:
            return keyword.arg
        if keyword.arg == "precision" and (said := str(facts.values.one(keyword.value))) not in (
            "32",
            "32-true",
            "None",
        ):
            return "bf16" if "bf16" in said else "fp16"
    if "keras" in facts.training.kinds:
        return "bf16" if "mixed_bfloat16" in text else "fp16" if "mixed_float16" in text else "fp32"
    if on or "to_fp16" in text:
        return "bf16" if re.search(r"bfloat16|bf16", text) else "fp16"
    return "fp32"


def _accumulation(facts: Facts) -> int | None:
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg in ("gradient_accumulation_steps", "accumulate_grad_batches"):
            number = facts.values.number(keyword.value)
            return int(number) if number is not None else None
    for node in facts.script.all(ast.Assign):
        for target in node.targets:
            if re.search(r"accum", last_name(target), re.IGNORECASE):
                number = facts.values.number(node.value)
                if number is not None and number >= 1:
                    return int(number)
    return None


def _folds(facts: Facts) -> int | None:
    loops = facts.training.fold_loops
    if not loops:
        return 1 if facts.training.trains else None
    counted = facts.training.folds.count(loops[0])
    return counted if counted is not None else _named(facts, r"n?_?(folds|splits)|num_folds")[0]


def _epochs(facts: Facts) -> int | None:
    training, values = facts.training, facts.values
    if training.epoch_loops:
        counted = training.epochs(training.epoch_loops[0])
        return counted if counted is not None else _named(facts, r"(n_?|num_?|max_?)?epochs")[0]
    for fit in training.fits:
        if fit.kind == "keras":
            number = values.number(values.argument(fit.call, "epochs"))
            return int(number) if number is not None else None
    for call in facts.script.called("Trainer"):
        if (
            "lightning" in training.kinds
            and (number := values.number(values.argument(call, "max_epochs"))) is not None
        ):
            return int(number)
    if "transformers" in training.kinds:
        for call in facts.training.arguments:
            if values.argument(call, "max_steps") is not None:
                return None
            given = values.argument(call, "num_train_epochs")
            number = 3.0 if given is None else values.number(given)
            return int(number) if number is not None else None
    return None


def _rounds(facts: Facts) -> int | None:
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg in ("num_boost_round", "n_estimators", "iterations"):
            number = facts.values.number(keyword.value)
            if number is not None and "boosting" in facts.training.kinds:
                return int(number)
    return None


def _lighter(facts: Facts) -> str | None:
    text = facts.script.text
    for pattern, why in (
        (r"requires_grad_?\s*(=|\()\s*false", "layers are frozen"),
        (r"\bpeft\b|loraconfig|bitsandbytes|load_in_[48]bit", "adapters or quantised weights are trained"),
        (r"dataparallel|init_process_group|deepspeed|fsdp", "several cards share the work"),
    ):
        if re.search(pattern, text):
            return why
    return RECOMPUTED if _recomputes(facts) else None


def _recomputes(facts: Facts) -> bool:
    """Gradient checkpointing is on; where a condition that is known to be false guards it, it is not."""
    script, values = facts.script, facts.values
    for keyword in script.all(ast.keyword):
        if (
            keyword.arg in ("gradient_checkpointing", "grad_checkpointing")
            and values.one(keyword.value) is not False
        ):
            return True
    if script.uses("torch.utils.checkpoint"):
        return True
    return any(
        values.one(call.args[0] if call.args else None) is not False
        and not any(isinstance(up, ast.If) and values.one(up.test) is False for up in script.above(call))
        for call in script.called("set_grad_checkpointing", "gradient_checkpointing_enable")
    )


def _named(facts: Facts, pattern: str) -> tuple[int | None, ast.AST | None]:
    """The one value of constants of that name, in the module or in a config; None where there are several."""
    found: dict[int, ast.AST] = {}
    nodes: list[ast.Assign | ast.AnnAssign] = [
        *facts.script.all(ast.Assign),
        *facts.script.all(ast.AnnAssign),
    ]
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if node.value is None or facts.script.function(node) is not None:
            continue
        for target in targets:
            if re.fullmatch(pattern, last_name(target), re.IGNORECASE):
                number = facts.values.number(node.value)
                if number is None or number != int(number) or number < 1:
                    return None, None
                found[int(number)] = node.value
    return next(iter(found.items())) if len(found) == 1 else (None, None)
