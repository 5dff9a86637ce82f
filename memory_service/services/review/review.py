"""Review of a script with sizing by the card: the adapter between `review` and the predictions.

    review_script(database, {"script": "import torch ...", "gpu": "a100", "minutes": 30}) -> the answer of
    /review

Nothing of the script is executed or imported. Without a database, a card or a model that the catalogue knows,
what rests on them is named in `not_checked`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from memory_service.child_processes import TooCostly, Workers
from memory_service.domain.common.vocabulary import TASKS
from memory_service.errors import FieldError, InvalidInput
from memory_service.review.engine import MOST_FINDINGS
from memory_service.review.facts import Context
from memory_service.review.findings import SEVERITIES, Finding, finding, in_order
from memory_service.review.rules.data_loader import NEVER_WITHOUT_REASON
from memory_service.review.sizing_facts import ReviewedText, SizingFacts, review_text
from memory_service.review.training_plan import RECOMPUTED, TrainingPlan, smaller_than
from memory_service.schemas.review import ReviewQuery
from memory_service.schemas.validation_errors import checked

if TYPE_CHECKING:  # what sizes by a card is the server's; a review without one needs none of it
    from memory_service.services.database.transactions import Database
    from memory_service.services.knowledge.snapshot import Knowledge

HALF = 2
FAR_UNDER = 4
"""A batch under a quarter of what the card computes best is far under it; of 32 images and fewer, for which
R28 asks a reason, one from half on."""

SINGLE_SPLIT = 0.8
_SIZED = ("batch-does-not-fit", "batch-too-small by the card", "cannot-end-in-budget")


_REVIEWING = Workers("a review", processes=2, waiting=2, seconds=10.0, mib=1_024)


def review_script(
    database: Database | None, question: Mapping[str, Any], *, in_child_process: bool = False
) -> dict[str, Any]:
    """Findings in order of lines, what was understood, and what was not checked and why.

    InvalidInput for unknown fields and values out of range; TooLarge for a script over 1 MiB. A card or model
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
        raise InvalidInput("script must be text", [FieldError("script", "must be text")])
    tensor_cores, bf16, card = _card(knowledge, query.get("gpu"))
    text_and_context = (
        script,
        Context(
            task=_certain_task(question.get("task"), query.get("task")),
            metric=query.get("metric"),
            cpu_count=query.get("cpu_count"),
            n_train=query.get("n_train"),
            image_size=query.get("image_size"),
            card=card,
            tensor_cores=tensor_cores,
            bf16=bf16,
        ),
    )
    reviewed = _in_child_process(*text_and_context) if in_child_process else review_text(*text_and_context)
    return _answer(reviewed, query, knowledge, tensor_cores)


def _in_child_process(script: bytes | str, context: Context) -> ReviewedText:
    try:
        return _REVIEWING.run(review_text, script, context)
    except TooCostly as error:
        return ReviewedText((), (f"every rule: reading the script {error}",), None)


def _answer(
    reviewed: ReviewedText, query: Mapping[str, Any], knowledge: Knowledge | None, tensor_cores: bool | None
) -> dict[str, Any]:
    not_checked = list(reviewed.not_checked)
    found = list(reviewed.findings)
    read: dict[str, Any] = {}
    if reviewed.facts is not None:
        plan = reviewed.facts.plan
        read = plan.as_dict()
        if plan.trains:
            sizing = _Sizing(reviewed.facts, plan, tensor_cores, query, knowledge, not_checked)
            found += sizing.findings()
    findings = in_order(found)[:MOST_FINDINGS]
    counts = {severity: sum(f.severity == severity for f in findings) for severity in SEVERITIES}
    return {
        "ok": not findings,
        "counts": counts,
        "read": read,
        "findings": [f.as_dict() for f in findings],
        "not_checked": not_checked,
    }


def _checked(question: Mapping[str, Any]) -> dict[str, Any]:
    """The fields beside the script; what a plan says stands where nothing else is given."""
    given = {name: value for name, value in question.items() if value is not None and name != "script"}
    plan = given.pop("plan", None)
    if plan is not None:
        if not isinstance(plan, Mapping):
            raise InvalidInput("plan must be an object", [FieldError("plan", "must be an object")])
        given = _of_plan(plan) | given
    return checked(ReviewQuery, given).explicit()


def _certain_task(given: Any, task: str | None) -> str | None:
    """What a task tells for sure: "tabular" alone leaves open whether classes or values are wanted."""
    kind = (task or "").removesuffix("-classification")
    name = given.strip().lower().replace("_", "-").replace(" ", "-") if isinstance(given, str) else task
    vague = name not in TASKS and "label" not in (name or "")
    return kind if vague and kind in _KINDS_OF_DATA else task


_KINDS_OF_DATA = ("image", "text", "audio", "tabular", "time-series")


def _of_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """What an answer of /recommend says that a review can use."""
    gpu = plan.get("gpu")
    name = (gpu.get("slug") or gpu.get("name")) if isinstance(gpu, Mapping) else gpu
    model, metric = plan.get("model"), plan.get("metric")
    sizes = model if isinstance(model, Mapping) else {}
    judged = metric if isinstance(metric, Mapping) and metric.get("in_script") is True else {}
    known = {
        "gpu": name,
        "minutes": plan.get("minutes"),
        "task": plan.get("task"),
        "image_size": sizes.get("image_size"),
        "seq_len": sizes.get("seq_len"),
        "metric": judged.get("name"),
    }
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


@dataclass
class _Sizing:
    """Batch and minutes against the card."""

    facts: SizingFacts
    plan: TrainingPlan
    tensor_cores: bool | None
    query: Mapping[str, Any]
    knowledge: Knowledge | None
    not_checked: list[str]

    def findings(self) -> list[Finding]:
        """Of the card where it can be sized, else by R28's limits alone."""
        why = self._why_not()
        predicted = None
        if why is None:
            predicted, why = self._predicted()
        if predicted is None:
            found = list(self._by_smaller()) if self._why_not() is None else []
            self.not_checked += [f"{what}: {why}" for what in _SIZED if not found]
            return [*found, *self.facts.small_batches]
        if predicted["max_batch_size"] is None:
            return list(self._fits_of_trees(predicted))
        if self.plan.lighter:
            self.not_checked += [f"{what}: {self._why_lighter()}" for what in _SIZED[:2]]
            return [*self._too_long(predicted), *self.facts.small_batches]
        return [*self._too_large(predicted), *self._too_small(predicted), *self._too_long(predicted)]

    def _why_not(self) -> str | None:
        if not self.query.get("gpu"):
            return "no card was given (gpu)"
        if self.knowledge is None:
            return "without a database no card is known"
        if self.plan.model is None:
            several = ", ".join(self.plan.models[:5])
            return (
                f"several models are made: {several}" if several else "the model is not one that can be told"
            )
        if self.plan.lighter and self.plan.lighter != RECOMPUTED:
            return self._why_lighter()
        if self.plan.framework == "keras":
            return "figures are of PyTorch, not of Keras"
        return None

    def _why_lighter(self) -> str:
        what = "memory is not that" if self.plan.lighter == RECOMPUTED else "memory and time are not those"
        return f"{self.plan.lighter}, so {what} of {self.plan.model}"

    def _by_smaller(self) -> Iterator[Finding]:
        """Of a model that is not known: what not even the next smaller of its family does."""
        for name in smaller_than(str(self.plan.model)):
            known = replace(self, plan=replace(self.plan, model=name), not_checked=[])
            predicted = known._predicted()[0]
            if predicted is not None and predicted["max_batch_size"] is not None:
                yield from () if self.plan.lighter else known._too_large(predicted)
                yield from known._too_long(predicted)
                return

    def _predicted(self, precision: str | None = None) -> tuple[dict[str, Any] | None, str]:
        if self.knowledge is None:
            return None, "without a database no card is known"
        question: dict[str, Any] = {"model": self.plan.model, "gpu": self.query["gpu"], **self.plan.options}
        if self.plan.batch_size is not None:
            question["batch_size"] = min(self.plan.batch_size, 10**6)
        for name in ("image_size", "seq_len"):
            size = self.query.get(name) or getattr(self.plan, name)
            if size:
                question[name] = size
        question["precision"] = precision or self._precision()
        if self.plan.optimizer:
            question["optimizer"] = self.plan.optimizer
        for name in ("n_train", "cpu_count"):
            if self.query.get(name):
                question[name] = self.query[name]
        if self.plan.rounds:
            question["rounds"] = min(self.plan.rounds, 10**6)
        from memory_service.domain.planning.applicable import without_idle
        from memory_service.services.prediction.predict import predict_known

        try:
            model = self.knowledge.listed_model(question["model"])
            return predict_known(self.knowledge, without_idle(question, model)), ""
        except InvalidInput as error:
            return None, error.detail[:300]

    def _precision(self) -> str | None:
        try:
            gpu = self.knowledge.gpu(self.query["gpu"]) if self.knowledge is not None else None
        except InvalidInput:
            gpu = None
        precision = self.plan.precision
        return precision if precision is not None and gpu is not None and gpu.supports(precision) else None

    def _too_large(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        batch_place = self.facts.batch_place
        if self.plan.batch_size is None or batch_place is None:
            self.not_checked.append("batch-does-not-fit: the batch cannot be told")
            return
        if predicted["fits"]:
            return
        most, peak = predicted["max_batch_size"], predicted["peak_memory_gib"]
        would = predicted.get("would_fit", {})
        batch = would.get("batch_size")
        fix = (
            f"BATCH_SIZE = {batch}; GRAD_ACCUMULATION = {would['grad_accumulation']}"
            if batch
            else str(would.get("why"))
        )
        yield finding(
            "batch-does-not-fit",
            batch_place,
            f"Batch {self.plan.batch_size} of {predicted['model']}{_at(predicted)} in "
            f"{predicted['precision']} needs about "
            f"{peak['value']:.3g} GiB ({peak['low']:.3g}-{peak['high']:.3g}); on {predicted['gpu']} "
            f"about {most['value']:g} "
            "samples fit.",
            fix,
        )

    def _too_small(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        if self.plan.precision == "fp32" and self.tensor_cores:
            # the knee of fp32 is not that of the precision to change to
            predicted = self._predicted("fp16")[0] or predicted
            found = list(self.facts.small_batches)
            yield from found
            if found:
                return
        place, batch = self.facts.batch_place, self.plan.batch_size
        knee = predicted["knee_batch_size"]
        if place is None or batch is None or not knee:
            return
        best = min(int(knee), int(predicted["safe_batch_size"]) or 1)
        if self.query.get("n_train"):
            from memory_service.domain.planning.hyperparameters import most_by_updates

            best = min(best, most_by_updates(self.query["n_train"], 16))
        far = HALF if self._is_never_right(batch) else FAR_UNDER
        if batch * far > best or (self.plan.grad_accumulation or 1) > 1 or self.facts.has_reason:
            return
        yield finding(
            "batch-too-small",
            place,
            f"Batch {batch} of {predicted['model']}{_at(predicted)} is far under what {predicted['gpu']} "
            "computes best, "
            f"about {best}.",
            f"BATCH_SIZE = {best}",
        )

    def _is_never_right(self, batch: int) -> bool:
        """R28: images are never trained by 32 and fewer without a reason."""
        return batch <= NEVER_WITHOUT_REASON and self.facts.plain_images

    def _too_long(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        minutes, n_train = self.query.get("minutes"), self.query.get("n_train")
        unknown = [
            name for name, value in (
                ("minutes", minutes), ("n_train", n_train), ("epochs", self.plan.epochs),
                ("folds", self.plan.folds),
                ("batch size", self.plan.batch_size),
            ) if not value
        ]  # fmt: skip
        if unknown or minutes is None:
            self.not_checked.append(f"cannot-end-in-budget: {', '.join(unknown)} not given or not to be told")
            return
        folds, epochs = self.plan.folds or 1, self.plan.epochs or 1
        share = SINGLE_SPLIT if folds == 1 else (folds - 1) / folds
        times = folds * epochs * share / 60.0
        epoch = predicted["epoch_seconds"]
        least, likely = epoch["low"] * times, epoch["value"] * times
        yield from self._over(
            least, likely, f"{folds} x {epochs} epochs of {n_train} samples", predicted["gpu"]
        )

    def _fits_of_trees(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        minutes, n_train, folds = self.query.get("minutes"), self.query.get("n_train"), self.plan.folds
        if not minutes or not n_train or not folds or not self.plan.rounds:
            self.not_checked.append(
                "cannot-end-in-budget: minutes, n_train, folds or rounds not given or not to be told"
            )
            return
        fit = predicted["fit_seconds"]
        yield from self._over(
            fit["low"] * folds / 60.0, fit["value"] * folds / 60.0,
            f"{folds} fits of {predicted['rounds']} rounds over {n_train} rows", "its processor",
        )  # fmt: skip

    def _over(self, least: float, likely: float, what: str, where: str) -> Iterator[Finding]:
        minutes = float(self.query["minutes"])
        from memory_service.domain.planning.budget import RESERVE_SHARE

        if least <= minutes * (1.0 - RESERVE_SHARE) or self.plan.place is None:
            return
        folds, epochs = self.plan.folds or 1, self.plan.epochs or 1
        fits = max(1, int(epochs * folds * minutes * 0.8 / likely))
        fewer = min(folds, max(1, fits // max(1, min(epochs, 5))))
        yield finding(
            "cannot-end-in-budget",
            self.plan.place,
            f"{what} take about {likely:.3g} minutes on {where}, at best {least:.3g}; of {minutes:g} "
            "minutes "
            f"{RESERVE_SHARE:.0%} are for prediction.",
            f"FOLDS = {fewer}; EPOCHS = {max(1, fits // fewer)}"
            if self.plan.epochs
            else "fewer rounds, or fewer folds",
        )


def _at(predicted: Mapping[str, Any]) -> str:
    return next(
        (f" at {predicted[k]}" for k in ("image_size", "seq_len", "n_features") if k in predicted), ""
    )
