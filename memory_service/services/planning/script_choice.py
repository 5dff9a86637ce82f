"""Which script an answer of /recommend gets, what it does of the recipe, and what score it judges by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.metric_resolution import Answer, Measure, answer_of, measure_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.errors import MemoryServiceError
from memory_service.services.planning import script_kinds as kinds
from memory_service.services.planning.script_kinds import Kind
from memory_service.services.planning.script_text import plain


@dataclass(frozen=True, slots=True)
class Technique:
    """One of the file, or a part of one; its head says what the fields are."""

    name: str
    when: str
    how: str
    scripts: str
    tasks: tuple[str, ...] = ("",)
    needs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    settings: str = ""

    def applies(self, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether the plan's script does it.

        facts   of the script, by name: `script_choice.facts_of`
        """
        return self.fits(plan, facts) and self._wanted(plan)

    def fits(self, plan: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
        """Whether the plan's script can do it."""
        fits = plan["task"].startswith(tuple(self.tasks)) and all(facts[word] for word in self.needs)
        return fits and not any(facts[word] for word in self.without)

    def _wanted(self, plan: Mapping[str, Any]) -> bool:
        """Chosen by the asker, else by the recipe."""
        if plan.get("techniques") is not None and self.when != "always":
            return self.name in plan["techniques"].split(",")
        recipe = plan["recipe"] or {}
        losses = sorted(recipe.get("loss", ()), key=lambda each: -each["share"])
        named = {"recipe": recipe.get("techniques", ()), "most used": losses[:1], "listed": losses}.get(
            self.when
        )
        return named is None or any(each["name"] == self.name for each in named)


TECHNIQUES = {
    word: Technique(**entry) for word, entry in shipped_table(__package__, "techniques.toml").items()
}
"""What scripts do of a recipe: `techniques.toml`, by the words that it calls each by."""


class NoScript(MemoryServiceError):
    code = "no-script"
    title = "There is no script for this plan"
    status = 406


_USUAL = {"labels": "log loss", "values": "RMSE", "masks": "Dice", "matches": "F1"}
_USUAL |= {"boxes": "mAP@0.5", "items": "MAP@10", "texts": "word error rate"}
"""The score where nobody says what predictions are judged by. Probabilities may be submitted, as the sample
shows when the script runs: the epoch of the best accuracy may be far too sure of them."""


def has_script(plan: Mapping[str, Any]) -> bool:
    """Whether `plan_script` has one for this answer, without writing it."""
    return not why_no_script(plan)


def why_no_script(plan: Mapping[str, Any], *, blend: bool = False) -> str:
    """Why `plan_script`, or `blend_script`, has none for this answer; "" where it has one."""
    try:
        blend_of(plan) if blend else kind_of(plan)
    except NoScript as none:
        return none.detail
    return ""


def techniques_done(plan: Mapping[str, Any]) -> dict[str, str]:
    """Techniques of `domain.recipe.vocabulary` that the plan's script does, each with how."""
    if not has_script(plan):
        return {}
    facts = facts_of(plan, kind_of(plan))
    done: dict[str, list[str]] = {}
    for each in TECHNIQUES.values():
        if each.applies(plan, facts):
            done.setdefault(each.name, []).append(each.how)
    return {name: "; ".join(how) for name, how in done.items()}


def optional_techniques(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Techniques that the plan's script can do or leave: `[{"name", "how", "done"}]`."""
    if not has_script(plan):
        return []
    facts = facts_of(plan, kind_of(plan))
    return [
        {"name": each.name, "how": each.how, "done": each.applies(plan, facts)}
        for each in TECHNIQUES.values()
        if each.when != "always" and each.fits(plan, facts)
    ]


def tried(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Families that the plan's script fits beside the plan's own while minutes are left."""
    goes_on = plan["task"].startswith("tabular") and has_script(plan) and kind_of(plan).words["frames"]
    return kinds.TRIED if goes_on else ()


def blend_of(plan: Mapping[str, Any]) -> Kind:
    """That of the script that joins runs. NoScript where the answers are boxes, matches, items or texts."""
    kind = kind_of(plan)
    if any(kind.words[word] for word in ("retrieval", "boxes", "items", "written")):
        raise NoScript(f"There is no blend for {plan['task']}: join the runs' answers yourself")
    return kind


def kind_of(plan: Mapping[str, Any]) -> Kind:
    if not plan.get("feasible"):
        raise NoScript("Nothing fits, so there is nothing to run: " + str(plan.get("why", "")))
    model = plan["model"]
    told = [each["value"] for each in plan.get("facts", ()) if each["name"] == "subtask"]
    if told and (why := kinds.WITHOUT_SCRIPT.get(told[0])):
        raise NoScript(f"There is no script for {why}")
    kind = kinds.KINDS.get((plan["task"], model["library"]))
    if (
        kind is not None
        and plan["task"] == "speech-recognition"
        and (plan.get("method") or plan.get("weights") == "none")
    ):
        raise NoScript(f"There is no script for {model['name']}: no Whisper or CTC with public weights")
    if plan.get("method"):
        if not model["pretrained"]:
            raise NoScript(f"There is no script for {model['name']}: it has no public weights to tune")
        if model.get("active_params_m"):
            raise NoScript(f"There is no script for {model['name']}: none tunes a mixture of experts")
        if plan.get("trainer"):
            raise NoScript(f"There is no script for trainer={plan['trainer']}: scripts train with peft")
        if plan.get("sharding") and (why := kinds.why_not_sharded(plan)):
            raise NoScript(why)
        kind = kinds.DECODERS.get(plan["task"])
    if plan.get("weights") == "none":
        kind = kinds.FROM_RANDOM.get(plan["task"], kind)
    own = kinds.OWN_MODELS.get(plan["task"], ())
    if kind is not None and kind.words["pairs"] and _answer_of(plan) == "labels":
        kind = kinds.CLASSES_OF_PAIRS
    if kind is not None and plan["task"] == "multimodal" and _answer_of(plan) == "values":
        kind = kinds.VALUES_OF_MEDIA
    unknown = model["library"] == "torchvision" and model["name"].partition("/")[0] not in kinds.DETECTORS
    listed = model["library"] in ("torch", "sklearn", "statsforecast") and plan["task"] != kinds.SIGNALS
    unknown |= listed and model["name"] not in own
    unknown |= model["library"] in ("timesfm", "toto") and model["name"] not in kinds.HUB_NAMES
    unknown |= model["library"] == "ultralytics" and model["name"] not in kinds.YOLOS
    if kind is None or unknown:
        raise NoScript(_offered(plan["task"], model))
    return kind


def _answer_of(plan: Mapping[str, Any]) -> Answer:
    said = plan.get("metric")
    return answer_of(plan["task"], said["name"] if said else None) or "values"


def _offered(task: str, model: Mapping[str, Any]) -> str:
    of_task = [library for known, library in kinds.KINDS if known == task]
    if not of_task:
        return f"There is no script for {task}; there is one for {', '.join(kinds.SCRIPTED)}"
    libraries = ", ".join(
        name for name in of_task if name not in ("torch", "torchvision", "sklearn", "statsforecast")
    )
    heads = [f"{', '.join(kinds.DETECTORS)} of torchvision"] if "torchvision" in of_task else []
    offered = ", ".join([*kinds.OWN_MODELS.get(task, ()), *heads, f"models of {libraries}"])
    return (
        f"There is no script for {model['name']} ({model['library']}); for {task} there is one for "
        f"{offered}: pin one by `model`"
    )


def facts_of(plan: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """What decides whether a script does a technique."""
    method, judged = plan.get("method"), judged_by(plan, kind)
    return {
        **kind.words,
        "tuned": judged["tuned"],
        "logs": judged["logs"],
        "by_log_loss": judged["score"] == "log_loss",
        "method": method,
        "lora": method in ("lora", "qlora"),
        "qlora": method == "qlora",
        "by_time": split_setting(plan)[0] == "time",
        "several_folds": plan["folds"] > 1,
        "several_seeds": plan["seeds"] > 1,
    }


_ABSOLUTE = ("MAE", "MAPE", "SMAPE", "WAPE", "quantile loss")
_LOSSES = {"labels": "log_loss", "masks": "", "matches": "missed_matches", "boxes": "missed_boxes"}


def judged_by(plan: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """What the parts are told of the score: the plan's metric where the script computes it, the usual one
    where nobody says one, else the validation loss."""
    answer, said = _answer_of(plan), plan.get("metric")
    usual = {"token-classification": "entity F1", "visual-question-answering": "exact match"}
    name = said["name"] if said else usual.get(plan["task"], _USUAL[answer])
    absolute = answer == "values" and getattr(metric_named(name), "name", "") in _ABSOLUTE
    measure = measure_of(name, answer) if said is None or said["in_script"] else None
    if kind.words["keypoints"] and measure is not None and measure.form != "values":
        measure = None
    note = "" if said else "Nobody said what predictions are judged by: this is usual of the task."
    scored = measure is not None
    if measure is None:
        note = f"Judged by {plain(name)[:60]}, which this script does not compute."
        measure = measure_of(_USUAL[answer], answer) if answer in ("items", "texts") else None
    if measure is None:
        loss = _LOSSES.get(answer, "mae" if absolute else "mse")
        measure = Measure("validation loss", "log loss", answer, loss, "Val_loss", "values")
    form = measure.form if said and scored else "matches" if answer == "matches" else ""
    return {
        "metric": measure.name,
        "metric_label": measure.label,
        "metric_note": note,
        "upwards": measure.upwards,
        "score": measure.function,
        "scored": scored,
        "form": form,
        "answer": answer,
        "of_entities": measure.function == "f1_entities",
        "tuned": form in ("cut", "grades", "matches"),
        "judges_classes": form in ("classes", "cut", "grades"),
        "logs": "" if form != "logs" else "log" if measure.function == "rmse_logs" else "log1p",
        "absolute": absolute,
        "weighted": answer == "values" and "weighted" in name.lower().split(),
        "k": measure.k,
        "one_cut": measure.function.endswith(("_micro", "_samples")),
        "two_sided": measure.function in ("f1_macro", "f_beta_macro"),
    }
