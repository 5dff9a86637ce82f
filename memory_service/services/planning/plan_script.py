"""The training script of a plan, put together from `scripts/`: one file, or a folder of a few.

The parts are Python with a few lines for Jinja (`#% if labels`); each begins with its own imports. They are
joined by task and library. `runtime`, `ddp`, `torch_loop` and `detection` are modules that all scripts share,
without Jinja.
"""

import ast
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from memory_service.domain.common.optimizers import PAGED_ADAMW
from memory_service.domain.description.metric_resolution import Answer, Measure, answer_of, measure_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.planning.budget import RESERVE_SHARE
from memory_service.domain.planning.explanation.plan_text import card_words
from memory_service.domain.recipe.recipe_text import script_recipe, split_setting
from memory_service.errors import MemoryServiceError
from memory_service.services.planning.script_kinds import (
    AUGMENTED,
    CLASSES_OF_PAIRS,
    COCO_RESNETS,
    DECODERS,
    DETECTORS,
    DONE_BY,
    HUB_NAMES,
    KINDS,
    NETS,
    OWN_MODELS,
    RESNETS,
    SCRIPTED,
    WIDTHS,
    Kind,
    why_not_sharded,
)
from memory_service.services.planning.script_text import joined, standalone


class NoScript(MemoryServiceError):
    code = "no-script"
    title = "There is no script for this plan"
    status = 406


_USUAL = {"labels": "log loss", "values": "RMSE", "masks": "Dice", "matches": "F1", "boxes": "mAP@0.5"}
"""The score where nobody says what predictions are judged by. Probabilities may be submitted, as the sample
shows when the script runs: the epoch of the best accuracy may be far too sure of them."""

_STOPS_BY: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "lightgbm": {
        "auc": ("auc", ""), "gini": ("auc", ""), "average_precision": ("average_precision", ""),
        "accuracy": ("binary_error", "multi_error"), "error": ("binary_error", "multi_error"),
    },
    "xgboost": {
        "auc": ("auc", ""), "gini": ("auc", ""), "average_precision": ("aucpr", ""),
        "accuracy": ("error", "merror"), "error": ("error", "merror"),
    },
    "catboost": {
        "auc": ("AUC", ""), "gini": ("AUC", ""), "accuracy": ("Accuracy", "Accuracy"),
        "error": ("Accuracy", "Accuracy"),
    },
}  # fmt: skip
"""Library -> function of the score -> what the library calls it for two classes and for more ("": the loss
stops it, as with every score that is not here: it moves with every round, and counting hits does not)."""

_ORDER_ONLY = ("auc", "gini", "average_precision", "spearman")
"""Functions of scores that no rising change of the answers moves."""

_FETCHED = ("timm", "smp", "transformers", "torchvision", "ultralytics")
"""Libraries of networks that have pretrained weights."""

_STOP_SHARE = 0.70  # R15
_ENDING = 'import sys\n\nif __name__ == "__main__":\n    {}\n'


def plan_script(plan: Mapping[str, Any], server: str = "") -> str:
    """The script of an answer of /recommend, in one file that needs no other. NoScript where nothing fits or
    there is none for its model.

    server   address of the service that it came from and reports to, where that is known
    """
    head, parts, modules = _pieces(plan, server)
    return standalone(head, parts, modules.values(), _ENDING.format("main(sys.modules[__name__])"))


def plan_files(plan: Mapping[str, Any]) -> dict[str, str]:
    """The same as a folder's files, by name: train.py has what the plan decides, and imports what all scripts
    share, which is the same text for every plan."""
    head, parts, modules = _pieces(plan)
    files = {"train.py": joined(head, [*parts, _ENDING.format("main(sys.modules[__name__])")], modules)}
    return files | {f"{name}.py": text for name, text in modules.items()}


def _pieces(plan: Mapping[str, Any], server: str = "") -> tuple[str, list[str], dict[str, str]]:
    """(docstring, parts of train.py, modules that it imports by name)."""
    kind = _kind_of(plan)
    words = _words(plan, kind) | {"server": server}
    parts = [_rendered("settings", words)]
    parts += [text for part in _parts(kind, plan) for text in _texts(part, words)]
    modules = ["runtime", *(("ddp", "torch_loop") if kind.words["network"] else ())]
    modules += ["detection"] if kind.words["boxes"] else []
    return _rendered("head", words), parts, {name: _rendered(name, {}) for name in modules}


def blend_script(plan: Mapping[str, Any]) -> str:
    """The script that joins the runs of an answer of /recommend: a portfolio's last stage. NoScript where the
    answers are boxes or matches."""
    kind = _kind_of(plan)
    if kind.words["retrieval"] or kind.words["boxes"]:
        raise NoScript(f"There is no blend for {plan['task']}: join the runs' answers yourself")
    words = _words(plan, kind) | {"files": False, "network": False, "blend": True}
    words["ranks"] = words["score"] in _ORDER_ONLY
    answer = "labels" if words["labels"] else "values"
    joins: tuple[str, ...] = (answer, "metric", "blending")
    if words["masks"]:
        joins = ("metric", "blend_masks")
        words |= {} if words["score"] else {"score": "dice", "metric": "Dice", "upwards": True}
    texts = [text for part in ("blend_settings", "blend_folders", *joins) for text in _texts(part, words)]
    ending = _ENDING.format("blend_runs()")
    return standalone(_rendered("blend_head", words), texts, [_rendered("runtime", {})], ending)


def _words(plan: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """What the parts are told."""
    model = plan["model"]
    words = {**kind.words, "plan": plan, **_judged(plan, kind)}
    words |= _shares(plan) | {
        "headline": _headline(plan),
        "split": [told and _plain(told) for told in split_setting(plan)],
        "recipe": [line for told in script_recipe(plan) for line in _comment(told)],
        "made_for": _plain(
            f"The script of {plan['plan_id']}, made for {card_words(plan)} and {plan['minutes']:g} minutes."
        ),
        "fetched": bool(model["pretrained"]) and model["library"] in _FETCHED,
        "members": model["name"] == "tabm",
        **({"widths": WIDTHS[model["name"]]} if model["name"] in WIDTHS else {}),
    }
    words |= {"method": plan.get("method"), "n_gpus": plan.get("n_gpus") or 1}
    words["sharded"] = bool(plan.get("sharding"))
    words["paged"] = plan["optimizer"] == PAGED_ADAMW
    if words["paged"]:
        words["needs"] += ", bitsandbytes"
    encoder = model["name"].rpartition("/")[2]
    words |= {"encoder": encoder, "resnets": RESNETS, "coco": encoder in COCO_RESNETS}
    words["on_card"] = plan.get("tree_device") == "cuda"
    words["checkpointing"] = model["library"] in ("timm", "smp", "transformers")
    words |= _techniques(plan, kind)
    words["hub_name"] = HUB_NAMES.get(model["name"], model["name"]) if kind.words["tokens"] else ""
    if "deberta-v" in words["hub_name"]:
        words["needs"] += ", sentencepiece, protobuf"  # its tokenizer is made from spm.model
    return words


def _texts(part: str, words: Mapping[str, Any]) -> Iterator[str]:
    if part != "metric":
        yield _rendered(part, words)
    elif words["score"]:
        yield _metric(words["score"], words["k"])
        if words["form"] in ("cut", "grades"):
            yield _rendered("thresholds" if words["form"] == "cut" else "grades", words)


def has_script(plan: Mapping[str, Any]) -> bool:
    """Whether `plan_script` has one for this answer, without writing it."""
    try:
        _kind_of(plan)
    except NoScript:
        return False
    return True


def techniques_done(plan: Mapping[str, Any]) -> dict[str, str]:
    """Techniques of `domain.recipe.vocabulary` that the plan's script does, each with how."""
    if not has_script(plan):
        return {}
    kind = _kind_of(plan)
    judged = _judged(plan, kind)
    done = dict(AUGMENTED.get(plan["task"], {}))
    by_time = split_setting(plan)[0] == "time"
    if plan["folds"] > 1 and not by_time:
        joined_how = "fused, the mean of each box" if kind.words["boxes"] else "averaged"
        done["mean-blend"] = f"the predictions of {plan['folds']} folds are {joined_how}"
    does = (DONE_BY[word] for word, does in _techniques(plan, kind).items() if does and word in DONE_BY)
    done |= {each["name"]: each["how"] for each in does}
    if "lag-features" in done:
        done["rolling-features"] = done["lag-features"]
    if plan.get("method") in ("lora", "qlora"):
        done["lora"] = f"matrices of rank {plan['lora_rank']} beside every linear layer: LORA_RANK"
    if plan.get("method") == "qlora":
        done["quantization"] = "frozen weights are kept in 4 bits"
    if plan["seeds"] > 1:
        what = "what is submitted is" if by_time else "all folds are"
        done["seed-averaging"] = f"{what} trained with {plan['seeds']} seeds, SEEDS"
    if judged["tuned"]:
        done["threshold-search"] = f"cuts are chosen on validation for {judged['metric']}"
    if judged["logs"]:
        done["log-transform-target"] = f"the target is learned as {judged['logs']}"
    return done


def _kind_of(plan: Mapping[str, Any]) -> Kind:
    if not plan.get("feasible"):
        raise NoScript("Nothing fits, so there is nothing to run: " + str(plan.get("why", "")))
    model = plan["model"]
    kind = KINDS.get((plan["task"], model["library"]))
    if plan.get("method"):
        if not model["pretrained"]:
            raise NoScript(f"There is no script for {model['name']}: it has no public weights to tune")
        if plan.get("sharding") and (why := why_not_sharded(plan)):
            raise NoScript(why)
        kind = DECODERS.get(plan["task"])
    own = OWN_MODELS.get(plan["task"], ())
    if kind is not None and kind.words["pairs"] and _answer_of(plan) == "labels":
        kind = CLASSES_OF_PAIRS
    if kind is not None and kind.words["masks"] and (kinds := _kinds_of_masks(plan)) > 2:
        raise NoScript(
            f"There is no script for {kinds} kinds of masks: it trains one, object or background. Ask with "
            "n_classes=2, and run that script once for each kind (`read_mask` says what the object is)"
        )
    unknown = model["library"] == "torchvision" and model["name"].partition("/")[0] not in DETECTORS
    unknown |= model["library"] in ("torch", "sklearn") and model["name"] not in own
    if kind is None or unknown:
        raise NoScript(_offered(plan["task"], model))
    return kind


def _answer_of(plan: Mapping[str, Any]) -> Answer:
    said = plan.get("metric")
    return answer_of(plan["task"], said["name"] if said else None) or "values"


def _kinds_of_masks(plan: Mapping[str, Any]) -> int:
    """As somebody said, background among them; 2 where nobody did."""
    facts = (fact for fact in plan.get("facts", ()) if fact["name"] == "n_classes")
    return next((int(fact["value"]) for fact in facts if fact["from"] != "usual"), 2)


def _techniques(plan: Mapping[str, Any], kind: Kind) -> dict[str, bool]:
    """Which techniques of the recipe the script does, by the word that its parts ask for."""
    wanted = {each["name"] for each in (plan["recipe"] or {}).get("techniques", ())}
    words, encoder = kind.words, not plan.get("method")
    pictures = plan["task"].startswith("image") or words["boxes"]
    classes_or_values = not words["masks"] and not words["retrieval"] and not words["boxes"]
    tree_values = bool(words["library"]) and not words["labels"]
    lags = words["series"] or (bool({"lag-features", "rolling-features"} & wanted) and tree_values)
    return {
        "tta": "tta" in wanted and pictures,
        "mixup": "mixup" in wanted and words["files"] and classes_or_values,
        "cutmix": "cutmix" in wanted and pictures and classes_or_values,
        "ema": "ema-swa" in wanted and words["network"] and encoder,
        "class_weights": "class-weights" in wanted and words["labels"],
        "focal": _first_loss(plan) == "focal" and words["labels"] and words["network"],
        "target_encoding": "target-encoding" in wanted and bool(words["library"]),
        "layerwise": "layerwise-lr" in wanted and words["tokens"] and encoder,
        "frequency": "frequency-encoding" in wanted and bool(words["library"]),
        "interactions": bool(words["library"]) and not lags,
        "mirrors": pictures,
        "windows": "sliding-window" in wanted and words["tokens"] and encoder and not words["entities"],
        "lags": lags,
    }


def _first_loss(plan: Mapping[str, Any]) -> str:
    """The loss that most of the recipe's solutions used."""
    used = (plan["recipe"] or {}).get("loss", ())
    return str(max(used, key=lambda each: each["share"])["name"]) if used else ""


def _parts(kind: Kind, plan: Mapping[str, Any]) -> Iterator[str]:
    for part in kind.parts:
        yield from (NETS[plan["model"]["name"]], "tables") if part == "net" else (part,)


def _offered(task: str, model: Mapping[str, Any]) -> str:
    of_task = [library for known, library in KINDS if known == task]
    if not of_task:
        return f"There is no script for {task}; there is one for {', '.join(SCRIPTED)}"
    libraries = ", ".join(name for name in of_task if name not in ("torch", "torchvision", "sklearn"))
    heads = [f"{', '.join(DETECTORS)} of torchvision"] if "torchvision" in of_task else []
    offered = ", ".join([*OWN_MODELS.get(task, ()), *heads, f"models of {libraries}"])
    return (
        f"There is no script for {model['name']} ({model['library']}); for {task} there is one for "
        f"{offered}: pin one by `model`"
    )


def _judged(plan: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """What the parts are told of the score: the plan's metric where the script computes it, the usual one
    where nobody says one, else the validation loss."""
    answer, said = _answer_of(plan), plan.get("metric")
    name = said["name"] if said else "entity F1" if kind.words["entities"] else _USUAL[answer]
    absolute = answer == "values" and getattr(metric_named(name), "name", "") == "MAE"
    measure = measure_of(name, answer) if said is None or said["in_script"] else None
    note = "" if said else "Nobody said what predictions are judged by: this is usual of the task."
    scored = measure is not None
    if measure is None:
        note = f"Judged by {_plain(name)[:60]}, which this script does not compute."
        loss = {
            "labels": "log_loss",
            "values": "mae" if absolute else "mse",
            "masks": "",
            "matches": "missed_matches",
            "boxes": "missed_boxes",
        }[answer]
        measure = Measure("validation loss", "log loss", answer, loss, "Val_loss", "values")
    form = measure.form if said and scored else "matches" if answer == "matches" else ""
    stops = _STOPS_BY.get(kind.words["library"], {}).get(measure.function if said else "", ("", ""))
    return {
        "metric": measure.name,
        "metric_label": measure.label,
        "metric_note": note,
        "upwards": measure.upwards,
        "score": measure.function,
        "scored": scored,
        "form": form,
        "of_entities": measure.function == "f1_entities",
        "tuned": form in ("cut", "grades", "matches"),
        "judges_classes": form in ("classes", "cut", "grades"),
        "logs": {"rmsle": "log1p", "rmse_logs": "log"}.get(measure.function, ""),
        "absolute": absolute,
        "k": measure.k,
        "one_cut": measure.function.endswith(("_micro", "_samples")),
        "two_sided": measure.function in ("f1_macro", "f_beta_macro"),
        "stops": stops,
        "callback_metric": _literal(stops[0]) if measure.function == "auc" else "METRIC",
    }


def _shares(plan: Mapping[str, Any]) -> dict[str, float]:
    """Shares of the budget: kept for prediction (R14, more where the plan needs more), and where training
    stops (R15, later where the plan itself trains longer)."""
    minutes = float(plan["minutes"])
    stages = plan.get("timetable") or ()
    ends = [stage["start_minute"] for stage in stages if stage["stage"].startswith("inference")]
    inference = plan.get("expected", {}).get("inference_minutes", {}).get("high", 0.0)
    least = plan["checks"].get("reserve_percent", 100.0 * RESERVE_SHARE) / 100.0
    reserve = min(max(0.5, least), max(least, inference / minutes))
    stop = max(_STOP_SHARE, max(ends, default=0.0) / minutes)
    return {"reserve_share": round(reserve, 3), "stop_share": round(min(stop, 1 - reserve), 3)}


def _headline(plan: Mapping[str, Any]) -> str:
    model = plan["model"]
    sizes = () if model["library"] == "sklearn" else ("image_size", "seq_len")
    size = next((f" at {model[key]}" for key in sizes if key in model), "")
    return _plain(f"{plan['task']} with {model['name']}{size}.")


def _comment(text: str) -> list[str]:
    """Lines of a comment, no longer than a script's lines may be."""
    return textwrap.wrap(
        _plain(text), _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False
    )


_WIDTH = 108


def _plain(text: Any) -> str:
    """Without what could end a docstring: names of devices are somebody's words."""
    return re.sub(r"[^ -~]|\\", " ", str(text)).replace('"', "'")


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parents[2] / "scripts"),
        line_statement_prefix="#%",
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701 - it is Python; texts go in by repr
        keep_trailing_newline=True,
    )
    environment.filters["python"] = _literal
    return environment


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _rendered(part: str, words: Mapping[str, Any]) -> str:
    return _templates().get_template(f"{part}.py.txt").render(words)


@cache
def _metric(name: str, k: int) -> str:
    """The one function of `scripts/metrics.py.txt`, named `score_of`, behind the imports of all."""
    text = _rendered("metrics", {"k": k})
    tree = ast.parse(text)
    wanted = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    lines = text.splitlines()
    imports = [line for line in lines if line.startswith(("import ", "from "))]
    body = "\n".join(lines[wanted.lineno - 1 : wanted.end_lineno]).replace(f"def {name}(", "def score_of(", 1)
    return "\n".join(imports) + "\n\n" + body + "\n"
