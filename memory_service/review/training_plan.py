"""What the script means to train: model, input, batch, precision, folds and epochs, as its text says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.review.facts import Facts
from memory_service.review.rules.hardware import accumulation, loaders_of, switched_on, training_batches
from memory_service.review.rules.own_settings import COUNTS
from memory_service.review.rules.stopping_and_schedules import boosted_rounds, stops_rounds
from memory_service.review.source.script import Script, entries_of, last_name, targets_of
from memory_service.review.tables import words_of
from memory_service.review.training import BOOSTERS

_RE, _SET, _LIST, *_ = words_of("training_plan")
_NAMES = shipped_table(__package__, "model_names.toml")
RECOMPUTED = "activations are computed anew"  # less memory for more time


def smaller_than(model: str) -> list[str]:
    """Names of the same network in smaller sizes, the largest of them first."""
    for family in _NAMES["families"].values():
        for place, name in enumerate(family):
            if name in model:
                return [model.replace(name, smaller) for smaller in reversed(family[:place])]
    return []


@dataclass(frozen=True, slots=True)
class Boosting:
    """Rounds at most; rate and patience, None where unknown; planned: by a plan, whose p90 held in time."""

    rounds: int
    learning_rate: float | None
    stops: bool
    patience: int | None
    on_card: bool
    planned: bool = False


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """None means "unknown"."""

    framework: str | None
    model: str | None  # as the catalogue may know it
    models: tuple[str, ...]
    batch_size: int | None
    batch_place: ast.AST | None  # where the batch is set
    grad_accumulation: int | None
    image_size: int | None
    seq_len: int | None
    precision: str | None
    optimizer: str | None
    folds: int | None
    epochs: int | None
    boosting: Boosting | None
    num_workers: int | None
    place: ast.AST | None
    lighter: str | None  # why memory or time differ from a full training
    trains: bool
    options: Mapping[str, Any] = field(default_factory=dict)  # what else /predict can be asked
    seeds: int = 1  # how often all folds are trained
    by_time: bool = False  # as scripts of this service split by time

    def as_dict(self) -> dict[str, Any]:
        """What was understood, without places and what is unknown."""
        shown = {name: getattr(self, name) for name in _LIST.shown}
        shown["rounds"] = self.boosting.rounds if self.boosting else None
        shown["model"] = self.model or (list(self.models) if len(self.models) > 1 else None)
        return {name: value for name, value in shown.items() if value is not None}


def training_plan_of(facts: Facts) -> TrainingPlan:
    training = facts.training
    models = _models(facts)
    batches = training_batches(facts)
    named = (training.trains or None) and _named(facts, r"(train_)?(batch_?size|bs)")
    batch, batch_place = named if named and not batches else (None, None)
    if len({size for _, size in batches}) == 1:
        batch_place, batch = batches[0]
    workers = [w for x in loaders_of(facts) for w in x.workers or () if isinstance(w, int)]
    folds, epochs = _times(facts)
    kind = next((kind for kind in _LIST.kinds if kind in training.kinds), None)
    names = {"boosting": BOOSTERS, None: _LIST.frameworks}.get(kind, ())
    read = TrainingPlan(
        framework=next(filter(facts.script.uses, names), kind),
        model=models[0] if len(models) == 1 else None, models=tuple(models),
        batch_size=batch, batch_place=batch_place, grad_accumulation=accumulation(facts),
        image_size=facts.image_size if facts.modality in ("image", "audio") else None,
        seq_len=facts.seq_len, precision=_precision(facts),
        optimizer=next((v for k, v in _NAMES["optimizers"].items() if facts.script.called(k)), None),
        folds=folds, epochs=epochs, boosting=_boosting(facts),
        num_workers=max(workers, default=None),
        place=training.place, lighter=_lighter(facts), trains=training.trains or training.is_engine,
        options=_options(facts),
    )  # fmt: skip
    return replace(read, **_own_settings(facts.script))


_USUAL_RANK = 8  # peft's default


def _options(facts: Facts) -> dict[str, Any]:
    """Adapters, and whether activations are computed anew, of a model of transformers."""
    if not facts.script.called("from_pretrained"):
        return {}
    out: dict[str, Any] = {}
    if re.search(r"loraconfig|get_peft_model", facts.script.text):
        ranks = map(facts.values.number, facts.script.given_as("r", "lora_r"))
        out["lora_rank"] = int(max((rank for rank in ranks if rank), default=_USUAL_RANK))
        out["method"] = "qlora" if "load_in_4bit" in facts.script.text else "lora"
    return out | ({"gradient_checkpointing": True} if _recomputes(facts) else {})


def _own_settings(script: Script) -> dict[str, Any]:
    """The same as a script of this service states it."""
    stated = script.own
    if not stated:
        return {}
    known: dict[str, Any] = {n: node.value for n, node in stated.items() if _can_be(node.value, n)}
    named: dict[str, Any] = {name: known[name.upper()] for name in _SET.own if name.upper() in known}
    network = "BATCH_SIZE" in stated
    if network:
        named["epochs"] = known.get("EPOCHS")
        named["optimizer"] = "sgd-momentum" if "MOMENTUM" in stated else "adamw"
    elif "EPOCHS" in known:
        rate, patience = (known.get(name) for name in ("LEARNING_RATE", "PATIENCE"))
        on_card = known.get("DEVICE") == "cuda"
        named["boosting"] = Boosting(known["EPOCHS"], rate, patience is not None, patience, on_card, True)
    if not network and known["MODEL"] in BOOSTERS:
        named["framework"] = known["MODEL"]
    options: dict[str, Any] = {"n_classes": 2} if network else {}  # a head, not the words of a language model
    options |= {name: known[name.upper()] for name in _LIST.options if name.upper() in known}
    if "LORA_RANK" in stated:
        older = "qlora" if "bitsandbytesconfig" in script.text else "lora"  # without METHOD
        options["method"] = known.get("METHOD", older)
    return named | {
        "options": options,
        "lighter": None if stated.get("N_GPUS", _ONE).value == 1 else "several cards share the work",
        "models": (stated["MODEL"].value,),
        "batch_place": stated.get("BATCH_SIZE"),
        "place": stated.get("EPOCHS", stated["MODEL"]),
        "trains": True,
        "by_time": known.get("SPLIT") == "time",
    }


def _can_be(value: Any, name: str) -> bool:
    """Texts and flags stay as they are; counts and rates are over 0."""
    if isinstance(value, str | bool):
        return name not in COUNTS
    return isinstance(value, int if name in COUNTS else int | float) and bool(value > 0)


_ONE = ast.Constant(1)


def _models(facts: Facts) -> list[str]:
    writes = facts.script.called("save_pretrained", "save_model", "mkdir", "Path")
    given = [*(c.args[0] for c in writes if c.args), *facts.script.given_as("output_dir", "save_directory")]
    saved = {
        text for node in given if (text := facts.values.text(node))
    }  # what is loaded from there is no other
    found = [name for call in facts.script.calls if (name := _model_of(facts, call, saved))]
    if not found and "boosting" in facts.training.kinds:
        found = [name for name in BOOSTERS if facts.script.uses(name)]
    return list(dict.fromkeys(found))


def _model_of(facts: Facts, call: ast.Call, saved: set[str]) -> str | None:
    """The architecture that one call makes, under the name that the catalogue may have."""
    script, name, qualified = facts.script, last_name(call.func), facts.script.qualified(call.func)
    if name == "create_model" and (qualified.startswith("timm.") or script.uses("timm")):
        return facts.text(call, "model_name", 0)
    if name in ("get_model", "getattr") and script.uses("torchvision"):
        return _of_torchvision(facts.text(call, "name", 0 if name == "get_model" else 1))
    if qualified.startswith("ultralytics."):
        found = _RE.of_ultralytics.fullmatch(facts.text(call, "model", 0) or "")
        return found[1] if found else None
    if qualified == f"torchvision.models.{name}":
        return _of_torchvision(name)
    if name == "from_pretrained" and isinstance(call.func, ast.Attribute):
        stated = facts.text(call, "pretrained_model_name_or_path", 0)
        other = _RE.not_a_model.search(last_name(call.func.value))
        own = stated is not None and (stated in saved or _RE.a_file.search(stated))
        plain = _RE.hub_rows.sub("", stated or "")  # `google/vit-large-patch16-224-in21k` under timm's name
        hub = (re.sub(p, made, plain) for p, made in _NAMES["hub"].items() if re.fullmatch(p, plain))
        return None if other or own else next(hub, stated)
    if qualified.startswith("segmentation_models_pytorch.") and name in _NAMES["segmentation"]:
        given = facts.argument(call, "encoder_name", 0)
        stated = "resnet34" if given is None else facts.values.text(given)
        encoder = re.sub(r"^(tu-|timm-)", "", stated or "").replace("-", "_")
        return f"{_NAMES['segmentation'][name]}/{encoder}" if stated else None
    return None


def _of_torchvision(name: str | None) -> str | None:
    return _NAMES["torchvision"].get(name, name) if name and _RE.architecture.match(name) else None


def _precision(facts: Facts) -> str | None:
    if not facts.training.offers or facts.training.kinds <= {"boosting", "sklearn"}:
        return None
    text, one = facts.script.text, facts.values.one
    for keyword in facts.script.all(ast.keyword):
        if keyword.arg in ("fp16", "bf16") and one(keyword.value) is not False:
            return keyword.arg
        stated = one(keyword.value) if keyword.arg == "precision" else ""
        if "16" in str(stated) or (stated is None and "lightning" in facts.training.kinds):
            return None if stated is None else "bf16" if "bf16" in str(stated) else "fp16"
    if "ultralytics" in facts.training.kinds:
        off = any(one(node) is False for node in facts.script.given_as("amp"))
        return "fp32" if off else "fp16"
    if facts.training.kinds & {"keras", "tensorflow"}:
        return "bf16" if "mixed_bfloat16" in text else "fp16" if "mixed_float16" in text else "fp32"
    if switched_on(facts) or "to_fp16" in text:
        either = bool(re.search(r"torch\.bfloat16", text) and re.search(r"torch\.float16", text))
        return None if either else "bf16" if re.search(r"bfloat16|bf16", text) else "fp16"
    return "fp32"


def _times(facts: Facts) -> tuple[int | None, int | None]:
    """(folds, epochs)."""
    training, folds = facts.training, 1 if facts.training.trains else None
    if training.fold_loops:
        folds = training.fold_count(training.fold_loops[0])
        folds = folds if folds is not None else _named(facts, r"n?_?(folds|splits)|num_folds")[0]
    if training.epoch_loops:
        counted = training.epochs(training.epoch_loops[0])
        return folds, counted if counted is not None else _named(facts, r"(n_?|num_?|max_?)?epochs")[0]
    several = ("keras", "lightning", "transformers", "ultralytics", "fastai")
    kind = next((k for k in several if k in training.kinds), None)
    known = training.framework_epochs(kind) if kind is not None else None
    return folds, int(known) if known is not None else None


def _boosting(facts: Facts) -> Boosting | None:
    """Of the first fit of boosted trees."""
    fit = next(iter(facts.training.fits_of("boosting")), None)
    rounds = boosted_rounds(facts, fit) if fit is not None else None
    if fit is None or rounds is None:
        return None
    numbers = [map(facts.values.number, _stated(facts, *names)) for names in (_RATES, _PATIENCES)]
    rate, patience = (next((n for n in found if n is not None and n > 0), None) for found in numbers)
    devices = {str(facts.values.one(n)).lower()[:4] for n in _stated(facts, *_LIST.devices)}
    waits, on_card = None if patience is None else int(patience), bool(devices & {"cuda", "gpu", "gpu_"})
    return Boosting(int(rounds), rate, stops_rounds(facts, fit), waits, on_card)


_RATES, _PATIENCES = ("learning_rate", "eta"), ("early_stopping_rounds", "early_stopping_round", "od_wait")


def _stated(facts: Facts, *names: str) -> Iterator[ast.AST]:
    """What calls are given under these names, or dicts hold under them."""
    yield from facts.script.given_as(*names)
    yield from (v for item in facts.script.all(ast.Dict) for k, v in entries_of(item) if k in names)


def _lighter(facts: Facts) -> str | None:
    text = facts.script.text
    if _RE.several.search(text) and _named(facts, _CARDS)[0] != 1:
        return "several cards share the work"
    found = (why for pattern, why in _LIGHTER if pattern.search(text))
    if facts.script.called("from_pretrained") and facts.modality == "text":
        return next(found, None)  # /predict knows both
    return next(found, RECOMPUTED if _recomputes(facts) else None)


ADAPTERS = "adapters or quantised weights are trained"
_LIGHTER = (
    (re.compile(r"requires_grad_?\s*(=|\()\s*false"), "layers are frozen"),
    (re.compile(r"load_in_8bit|prefixtuning|prompttuning|ia3config"), ADAPTERS),
)
_CARDS = r"(n|num)_?(gpus|cards)|world_size"


def _recomputes(facts: Facts) -> bool:
    """Gradient checkpointing is on; where a condition that is known to be false guards it, it is not."""
    script, one = facts.script, facts.values.one
    given = script.given_as("gradient_checkpointing", "grad_checkpointing")
    if script.uses("torch.utils.checkpoint") or any(one(node) is not False for node in given):
        return True
    switches = script.called("set_grad_checkpointing", "gradient_checkpointing_enable")
    on = (call for call in switches if one(call.args[0] if call.args else None) is not False)
    return any(all(one(up.test) is not False for up in script.around(call, ast.If)) for call in on)


def _named(facts: Facts, pattern: str) -> tuple[int | None, ast.AST | None]:
    """The one value of constants of that name, in the module or in a config; None where there are several."""
    found: dict[int, ast.AST] = {}
    nodes = [n for n in facts.script.all(ast.Assign, ast.AnnAssign) if facts.script.function(n) is None]
    for node, value in ((node, node.value) for node in nodes if node.value is not None):
        stated = any(re.fullmatch(pattern, last_name(t), re.IGNORECASE) for t in targets_of(node))
        number = facts.values.number(value) if stated else 0
        if number is None or number != int(number) or number < 0:
            return None, None
        found |= {int(number): value} if number else {}  # 0: of a field that is set later
    return next(iter(found.items())) if len(found) == 1 else (None, None)
