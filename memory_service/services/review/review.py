"""Review of a script with sizing by the card: the adapter between `review` and the predictions.

    review_script(database, {"script": "import torch ...", "gpu": "a100", "minutes": 30}) -> the answer of
    /review

Nothing of the script is executed or imported. Without a database, a card or a model that the catalogue knows,
what rests on them is named in `not_checked`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from memory_service.child_processes import TooCostly, Workers
from memory_service.domain.common.vocabulary import TASKS
from memory_service.errors import InvalidInput, wrong_value
from memory_service.review.engine import MOST_FINDINGS, ReviewedText, review_text
from memory_service.review.facts import Context
from memory_service.review.findings import SEVERITIES, in_order
from memory_service.review.source.project import entries_of, project_files
from memory_service.schemas.review import ReviewQuery
from memory_service.schemas.validation_errors import checked
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.review.sizing import Sizing

if TYPE_CHECKING:  # what sizes by a card is the server's; a review without one needs none of it
    from memory_service.services.database.transactions import Database
    from memory_service.services.knowledge.snapshot import Knowledge

_REVIEWING = Workers("a review", processes=2, waiting=4, seconds=10.0, mib=1_024, caller=ASKER.get)


def review_script(
    database: Database | None, question: Mapping[str, Any], *, in_child_process: bool = False
) -> dict[str, Any]:
    """Findings in order of lines, what was understood, and what was not checked and why.

    InvalidInput for unknown fields and values out of range; TooLarge for over 1 MiB of code. A card or model
    that is not known refuses nothing.

    in_child_process   limits of time and memory for what reads the script: a server has other callers
    """
    query = _checked(question)
    knowledge = None
    if database is not None and query.get("gpu"):
        from memory_service.services.knowledge.snapshot import knowledge_of

        knowledge = knowledge_of(database)
    script = question.get("script")
    if not isinstance(script, str | bytes):
        raise wrong_value("script", "must be text")
    tensor_cores, bf16, card = _card(knowledge, query.get("gpu"))
    task = _certain_task(question.get("task"), query.get("task"))
    said = {name: query.get(name) for name in ("metric", "cpu_count", "n_train", "image_size")}
    context = Context(task=task, card=card, tensor_cores=tensor_cores, bf16=bf16, **said)
    whole = (script, context, question.get("files") or {}, question.get("filename") or "")
    reviewed = _in_child_process(*whole) if in_child_process else review_text(*whole)
    planned = (question.get("plan") or {}).get("folds")
    folds = planned if isinstance(planned, int) else None
    return _answer(reviewed, query, knowledge, tensor_cores, folds)


def _in_child_process(
    script: bytes | str, context: Context, files: Mapping[str, str], name: str
) -> ReviewedText:
    try:
        return _REVIEWING.run(review_text, script, context, files, name)
    except TooCostly as error:
        return ReviewedText((), (f"every rule: reading the script {error}",), None)


def _answer(
    reviewed: ReviewedText,
    query: Mapping[str, Any],
    knowledge: Knowledge | None,
    tensor_cores: bool | None,
    folds: int | None,
) -> dict[str, Any]:
    not_checked = list(reviewed.not_checked)
    found = list(reviewed.findings)
    read: dict[str, Any] = {}
    if reviewed.facts is not None:
        plan = reviewed.facts.plan
        plan = replace(plan, folds=plan.folds or folds)
        read = plan.as_dict() | ({"run": dict(reviewed.facts.run)} if reviewed.facts.run else {})
        if plan.trains:
            sizing = Sizing(reviewed.facts, plan, tensor_cores, query, knowledge, not_checked)
            found += sizing.findings()
    findings = in_order(found)[:MOST_FINDINGS]
    counts = {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES}
    shown = [finding.as_dict() for finding in findings]
    if reviewed.places is not None:
        shown = [reviewed.places.shown(each) for each in shown]
    return {"ok": not findings, "counts": counts, "read": read, "findings": shown, "not_checked": not_checked}


def _checked(question: Mapping[str, Any]) -> dict[str, Any]:
    """The fields beside the script; what a plan says stands where nothing else is given."""
    given = {name: value for name, value in question.items() if value is not None}
    plan, _, _ = (given.pop(name, None) for name in ("plan", "script", "files"))
    if plan is not None:
        if not isinstance(plan, Mapping):
            raise wrong_value("plan", "must be an object")
        given = _of_plan(plan) | given
    return checked(ReviewQuery, given).explicit()


def _certain_task(given: Any, task: str | None) -> str | None:
    """What a task tells for sure: "tabular" alone leaves open whether classes or values are wanted."""
    kind = (task or "").removesuffix("-classification")
    name = given.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(given, str) else task
    vague = name not in TASKS and "label" not in (name or "")
    return kind if vague and kind in _KINDS_OF_DATA else task


_KINDS_OF_DATA = ("image", "text", "audio", "tabular", "time-series")


_FACTS = ("n_train", "n_test", "n_features", "n_classes", "cpu_count")


def _of_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer of /recommend says that a review can use."""
    gpu = plan.get("gpu")
    name = (gpu.get("slug") or gpu.get("name")) if isinstance(gpu, Mapping) else gpu
    model, metric = plan.get("model"), plan.get("metric")
    sizes = model if isinstance(model, Mapping) else {}
    judged = metric if isinstance(metric, Mapping) and metric.get("in_script") is True else {}
    facts = plan.get("facts")
    stated = {
        fact["name"]: fact.get("value")
        for fact in (facts if isinstance(facts, list) else ())
        if isinstance(fact, Mapping) and fact.get("name") in _FACTS
        if fact["name"] != "cpu_count" or fact.get("from") != "usual"
    }
    known = stated | {"gpu": name, "metric": judged.get("name")}
    known |= {key: plan.get(key) for key in ("minutes", "task")}
    known |= {key: sizes.get(key) for key in ("image_size", "seq_len")}
    return {key: value for key, value in known.items() if isinstance(value, str | int | float)}


def _card(knowledge: Knowledge | None, name: str | None) -> tuple[bool | None, bool | None, str | None]:
    """(faster in half precision, has bf16, "cpu" or the card's name); None where it is not known."""
    if name is None:
        return None, None, None
    if knowledge is None:
        return None, None, "cpu" if name.strip().lower() == "cpu" else None
    try:
        gpu = knowledge.gpu(name)
    except InvalidInput:
        return None, None, None
    return gpu.has_tensor_cores, gpu.supports("bf16"), "cpu" if gpu.kind == "cpu" else gpu.slug


def review_folder(review: Callable[[dict[str, Any]], dict[str, Any]], folder: Path) -> dict[str, Any]:
    """All scripts and notebooks of a folder or zip archive that train, each with what it imports from there;
    where none does, all that nothing else imports. `review` answers for one: `script`, `filename`, `files`.

    InvalidInput for a folder without a script.
    """
    try:
        files = project_files(folder)
    except (BadZipFile, RuntimeError, NotImplementedError) as error:
        raise wrong_value("script", f"must be a zip archive that can be read: {error}", str(folder)) from None
    answers = {
        name: review({"script": files[name], "filename": name, "files": files}) for name in entries_of(files)
    }
    if not answers:
        raise wrong_value("script", "must be a script, a notebook or a folder that holds one", str(folder))
    training = {name: one for name, one in answers.items() if one["read"].get("trains")} or answers
    found = {
        (each.get("file", name), each.get("cell"), each["line"], each["rule"]): {"file": name, **each}
        for name, one in training.items()
        for each in one["findings"]
    }
    findings = [found[key] for key in sorted(found, key=lambda key: (key[0], key[1] or 0, *key[2:]))]
    counts = {severity: sum(f["severity"] == severity for f in findings) for severity in SEVERITIES}
    not_checked = [f"{name}: {why}" for name, one in training.items() for why in one["not_checked"]]
    read = next(iter(training.values()))["read"] if len(training) == 1 else {}
    reads = {name: one["read"] for name, one in training.items()}
    answer = {"ok": not findings, "counts": counts, "read": read, "findings": findings[:MOST_FINDINGS]}
    return {**answer, "not_checked": not_checked, "scripts": reads}
