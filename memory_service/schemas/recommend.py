"""The request of a plan: of /recommend, of the command line, of the form and of the agents' tool; and how it
becomes the planner's question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator

from memory_service.domain.common.vocabulary import parse_task
from memory_service.domain.cost.decoders.decoder import Method
from memory_service.domain.planning.answer_view import PARTS, WHOLE
from memory_service.domain.planning.request import Done, Question
from memory_service.errors import FieldError
from memory_service.schemas import fields as f
from memory_service.schemas.base import FromText, Request
from memory_service.schemas.predict import TrainedWhere
from memory_service.schemas.validation_errors import checked, wrong_fields

_ABOUT_INCLUDE = f"Parts that the default answer leaves out or shortens: {', '.join(PARTS)}."
_ABOUT_DETAIL = "`full`: all of them but `parallel` and `curves`."


class RecommendRequest(TrainedWhere):
    """The task, the data, the card and the minutes."""

    task: f.TaskOrModality | None = f.optional(
        f"{f.ABOUT_TASK} May be left out with `competition` or `description`: then it is "
        "inferred. Of `image`, `text`, `tabular` and `time-series` a description tells which task it is.",
        examples=["image"],
    )
    size: f.SizeClass | None = f.optional(f.ABOUT_SIZE, examples=["medium"])
    n_train: f.Samples | None = f.optional("Training samples, exactly; overrules `size`.")
    gpu: f.Names | None = f.optional(
        f"{f.ABOUT_GPUS} Several with commas: the plan fits all.", examples=["a100"]
    )
    plan_for: f.Names | None = f.optional("The card of production, when it is not the one visible.")
    minutes: f.Minutes | None = f.optional(
        "Wall-clock budget for everything; when not given what the description says, else 30."
    )
    n_classes: f.NClasses | None = f.optional("Classes to tell apart.")
    image_size: f.ImageSize | None = f.optional("Pixels a side, pinned.")
    seq_len: f.SeqLen | None = f.optional("Tokens a text; of sounds frames of 10 ms; pinned.")
    n_test: f.Samples | None = f.optional("Samples to predict.")
    cpu_count: f.CpuCount | None = f.optional("Processor cores for the loader.")
    vram_gib: f.VramGib | None = f.optional("Memory to plan for instead of the card's own, in GiB.")
    precision: f.Precision | None = f.optional(f"Pinned: {f.ABOUT_PRECISION}.")
    model: f.Text200 | None = f.optional("Pinned model by its catalogue, timm or hub name.")
    folds: f.Folds | None = f.optional("Pinned number of folds.")
    epochs: f.Epochs | None = f.optional("Pinned number of epochs.")
    batch_size: f.BatchSize | None = f.optional("Pinned batch size.")
    method: Method | None = f.optional("Pinned, of a decoder: `full`, `lora` or `qlora` (4-bit NF4 weights).")
    objective: f.GoalWord | None = f.optional(f"{f.ABOUT_OBJECTIVE}; balanced when not given.")
    mode: f.MemoryMode | None = f.optional(
        f"{f.ABOUT_MODE}: what memory of competitions may be used; open when not given."
    )
    metric: f.Text200 | None = f.optional(
        "What predictions are judged by: `ROC AUC`, `macro F1`, `RMSLE`, `MAP@5` … May be left "
        "out where the description says it or the competition is known."
    )
    n_groups: f.Samples | None = f.optional("Groups that the rows come from: patients, sites, users.")
    group_by: f.Text200 | None = f.optional("What the groups are: `patient`, `site`.")
    split: f.SplitWord | None = f.optional(
        "How test differs from training: `random`, `group` (other patients, sites), `time` (later)."
    )
    language: f.Language | None = f.optional(
        "Of a text task: ISO 639-1 (`en`, `hi`), or `multi` for several."
    )
    subtask: f.SubtaskWord | None = f.optional("What kind of text or speech task it is.")
    competition: f.Text200 | None = f.optional("Slug of a known competition.")
    description: f.LongText | None = f.optional("The task in free words.")

    weights: f.WeightsWord | None = f.optional(
        "Whether pretrained weights can be had: `hub` (fetched; when not given), `local` (on the "
        "disk), `none`: only models that need none or learn from random ones are planned."
    )
    licence: f.LicenceWord | None = f.optional(
        "`commercial`: only models whose licence says nothing against commercial use."
    )
    techniques: f.TechniqueNames | None = f.optional(
        "Those that the script does, of the ones it can: `mixup,ema-swa`, or `none`; when not given as the "
        "recipe says."
    )
    horizon: f.Samples | None = f.optional("Of forecasts: steps ahead.")
    n_series: f.Samples | None = f.optional("Of forecasts: how many series.")
    covariates: bool | None = f.optional("Of forecasts: whether columns of the future are known.")
    aspect_ratio: f.Aspect | None = f.optional("Of pictures: longer side by shorter, which strips keep.")
    as_of: f.Year | None = f.optional(
        "A year: only competitions until its end count, to judge the memory by."
    )
    run: f.RunNumber | None = f.optional(
        "A run of the plan's `portfolio`: its settings and its own minutes at the top level, in "
        "place of the main run's."
    )

    include: f.AnswerParts | None = f.optional(_ABOUT_INCLUDE)
    detail: Literal["full"] | None = f.optional(_ABOUT_DETAIL)
    single: bool | None = f.optional(
        "Of a script: one file that needs no package; else it may import `memory_service.train`."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _has_task(cls, given: Any, handler: ModelWrapValidatorHandler[RecommendRequest]) -> RecommendRequest:
        missing = _missing(given) if isinstance(given, Mapping) else []
        try:
            request = handler(given)
        except ValidationError as error:
            raise wrong_fields(missing, error) from None
        if missing:
            raise wrong_fields(missing)
        return request

    @property
    def parts(self) -> frozenset[str]:
        """Of the answer, beyond what it always has."""
        return _parts(self.include, self.detail)

    def to_domain(self) -> Question:
        """The request as the planner takes it; the cards of production stand in where none is visible."""
        given = self.model_dump(include=set(RecommendBody.model_fields), exclude_none=True)
        for name in ("single", "include", "detail"):
            given.pop(name, None)
        done = tuple(Done(**each) for each in given.pop("done", ()))
        production = tuple(given.pop("plan_for", "").split(",")) if self.plan_for else ()
        cards = tuple(given.pop("gpu").split(",")) if self.gpu else production
        if self.task and not (self.description or self.model):  # which say what of a modality is meant
            given["task"] = parse_task(self.task)
        said = self.minutes is not None
        return Question(gpus=cards, plan_for=production, done=done, minutes_given=said, **given)


class DoneRun(Request):
    """A run of a portfolio that is over."""

    run: f.RunNumber = Field(description="Its number in the portfolio.")
    minutes: f.Minutes = Field(description="What it took.")
    metric: f.Score | None = f.optional("Its validation score.")


class RecommendBody(RecommendRequest):
    """The question as JSON; with `after` what is left of an earlier answer's minutes is planned."""

    after: f.Text200 | None = f.optional(
        "plan_id of the answer to these very fields: plan what is left of its minutes."
    )
    done: Annotated[list[DoneRun], Field(max_length=f.MOST_NAMES)] | None = f.optional(
        "Runs of its portfolio that are over; they count as part of the blend."
    )

    @model_validator(mode="after")
    def _done_of_a_plan(self) -> RecommendBody:
        if self.done and self.after is None:
            raise wrong_fields([FieldError("after", "needed with done: the plan whose runs they are")])
        numbers = [each.run for each in self.done or ()]
        if len(set(numbers)) < len(numbers):
            raise wrong_fields([FieldError("done", "names a run twice", numbers)])
        return self


class RecommendQuery(FromText, RecommendRequest):
    """The same as texts."""


class PlanQuery(FromText, Request):
    """How much of a plan is wanted."""

    include: f.AnswerParts | None = f.optional(_ABOUT_INCLUDE)
    detail: Literal["full"] | None = f.optional(_ABOUT_DETAIL)

    @property
    def parts(self) -> frozenset[str]:
        return _parts(self.include, self.detail)


class ScriptQuery(FromText, Request):
    """Which script of a plan."""

    run: f.RunNumber | None = f.optional("A run of its portfolio; the main run when not given.")
    single: bool | None = f.optional("One file that needs no package.")


def _parts(include: str | None, detail: str | None) -> frozenset[str]:
    named = frozenset(include.split(",")) if include else frozenset()
    return named | WHOLE if detail else named


def plan_request(given: Mapping[str, Any]) -> Question:
    """The planner's request of texts or values by name; InvalidInput lists every wrong field."""
    return checked(RecommendQuery, given).to_domain()


def _missing(given: Mapping[str, Any]) -> list[FieldError]:
    errors = []
    if all(given.get(name) is None for name in ("task", "competition", "description")):
        errors.append(FieldError("task", "needed unless competition or description is given"))
    return errors
