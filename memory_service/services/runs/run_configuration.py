"""The names a run gave, resolved to device, model and profile; refused when unknown."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.calibration.calibration import cores_beside
from memory_service.domain.common.estimate import Estimate
from memory_service.domain.common.vocabulary import reads_files
from memory_service.domain.cost.boosted_trees import cost_kind
from memory_service.domain.cost.data_loader import loader_settings
from memory_service.domain.cost.mask_classes import with_mask_classes
from memory_service.domain.cost.multi_gpu import Cards, cards_of
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.rates import with_cores
from memory_service.domain.cost.step_config import StepConfig, StepMode, layout_of, precision_class
from memory_service.domain.hardware.device_names import counted
from memory_service.domain.learning.observation import Observation, observation_of, prediction_key
from memory_service.domain.monitoring.event import number_of
from memory_service.domain.planning.model_catalogue import CatalogueModel, check_options
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.device_host import LEAVES, device_loader
from memory_service.domain.recipe.recipe_text import split_setting
from memory_service.domain.runs.advice_outcome import advice_of, brief_of, place_of
from memory_service.errors import FieldError, InvalidInput, MemoryServiceError, NotFound, wrong_value
from memory_service.schemas.plan import BroughtPlan
from memory_service.schemas.predict import SIZE_FIELDS, PredictRequest
from memory_service.schemas.runs import fitting_start
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import WriteTransaction
from memory_service.services.knowledge.learned_corrections import observed_profile
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.planning.planning_problem import DEFAULT_CPU_COUNT
from memory_service.services.prediction.requested_profile import (
    TraceBudget,
    requested_model,
    requested_profile,
    requested_size,
)
from memory_service.store.queries import outcomes

OWN = re.compile(r"custom(/[\w.\-/ ]{1,120})?", re.IGNORECASE)
"""`custom` or `custom/<name>`: a network that its author alone knows, or a card that is not listed. It is
watched, without predictions."""

OWN_MODEL_WHY = "a network of the script's own: nothing is known of its cost"
OWN_CARD_WHY = "an unregistered card: nothing is known of its speed or memory; POST /gpus registers it"


@dataclass(frozen=True, slots=True)
class RunCase:
    """What was said, and what it means.

    reported  the checked body of POST /runs
    gpu       with the host's cores; device and calibration on it where a registered device was named
    profile   cost of one sample; None for boosted trees and where there is none: `why_not` says why
    unseen    the card is the plan's, and whoever began the run sees no card at all: perhaps it is a trial run
              on a processor, so nothing is learned of the card
    """

    reported: Mapping[str, Any]
    gpu: TargetDevice
    model: str
    row: CatalogueModel | None
    family: str
    precision: str
    layout: str
    optimizer: str
    mode: StepMode
    input_kind: str
    input_size: int | None
    profile: Profile | None
    why_not: str | None
    unseen: bool = False

    @property
    def config(self) -> StepConfig:
        compiled = bool(self.reported.get("compiled"))
        return StepConfig(self.precision, self.layout, self.optimizer, self.mode, compiled)

    @property
    def cards(self) -> Cards:
        """How many of the card train it together, each its own batch."""
        n = self.reported.get("n_gpus") or 1
        return cards_of(self.gpu, 1 if self.gpu.kind == "cpu" or self.mode == "infer" else n)

    @property
    def is_trees(self) -> bool:
        return self.row is not None and not self.row.can_be_profiled

    @property
    def cpu_count(self) -> int:
        """As the run said, else as its device did, else assumed."""
        return _cores(self.reported) or cores_beside(self.gpu) or DEFAULT_CPU_COUNT

    @property
    def reads_files(self) -> bool:
        return reads_files(self.task)

    @property
    def task(self) -> str:
        """Of a damaged record what reads no files."""
        return str(self.reported.get("task", "tabular-regression"))

    def loader_rate(self, input_size: int) -> Estimate:
        """Samples a second that the input pipeline delivers."""
        return device_loader(self.task, input_size, self.num_workers, self.cpu_count, self.gpu)

    @property
    def num_workers(self) -> int:
        workers = self.reported.get("num_workers")
        if workers is None:
            workers = loader_settings(self.cpu_count, self.task)["num_workers"]
        return int(workers)

    @property
    def columns(self) -> int:
        """Of the table that is fitted, as said or as usual for the model."""
        return int(self.reported.get("n_features") or self.input_size or 1)

    def observation(self) -> Observation | None:
        """What an observation of this run would be of, without figures; None where it could teach nothing: of
        masks of many classes no baseline is predicted again, and several cards are not one."""
        if self.row is not None and self.is_trees and (law := cost_kind(*_names(self.row))) is not None:
            return Observation(
                self.gpu.slug, self.row.name, law, self.columns, "fp32", 0, self.gpu.device, "fit",
                self.cpu_count, int(self.reported.get("n_classes") or 1), LEAVES, self.input_kind,
            )  # fmt: skip
        if self.profile is None or self.unseen or "classes" in self.profile.extra or self.cards.n > 1:
            return None
        key = prediction_key(self.profile, self.gpu, self.config)
        batch_size = int(self.reported.get("batch_size") or 0)
        return observation_of(key, batch_size, input_kind=self.profile.input_kind)


def _names(row: CatalogueModel) -> tuple[str, str, str]:
    return row.name, row.library, row.family


def run_case(knowledge: Knowledge, reported: Mapping[str, Any]) -> RunCase:
    """InvalidInput for an unknown card, model or competition (nearest names with it), and for an input size
    of another kind than the model takes. A model that cannot be priced is no refusal: `why_not` says so."""
    own_card = OWN.fullmatch(reported["gpu"]) is not None
    if not own_card and reported["gpu"] not in knowledge.gpus and (stated := counted(reported["gpu"]))[0] > 1:
        reported = {**reported, "gpu": stated[1], "n_gpus": stated[0]}
    gpu = _own_card(reported) if own_card else with_cores(knowledge.gpu(reported["gpu"]), _cores(reported))
    _check_competition(knowledge, reported.get("competition"))
    own = OWN.fullmatch(reported["model"]) is not None
    row, name = (None, reported["model"]) if own else _known_model(knowledge, reported["model"])
    sizes = {field: reported[field] for field in SIZE_FIELDS if field in reported}
    check_options(sizes, row, name)
    question = PredictRequest.model_construct(model=name, gpu=reported["gpu"], **sizes)
    size = next(iter(sizes.values()), None) if own else requested_size(question, row)
    precision = reported.get("precision") or gpu.preferred_precision()
    mode = reported.get("mode", "train")
    optimizer = "none" if mode == "infer" else reported.get("optimizer", "adamw")
    profile, why_not = None, OWN_MODEL_WHY if own else OWN_CARD_WHY if own_card else None
    if why_not is None and (row is None or row.can_be_profiled):
        try:
            profile = _profile(knowledge, question, row, name, precision, bool(reported.get("checkpointing")))
            profile = with_mask_classes(profile, reported.get("n_classes") or 0)
        except MemoryServiceError as error:
            if row is None:
                raise
            why_not = error.detail
    layout = reported.get("layout") or ("nchw" if profile is None else layout_of(profile, gpu))
    family = row.family if row is not None else "unknown"
    kind = row.input_kind if row is not None else next(iter(sizes), "image_size")
    if profile is not None:
        family, kind, size = profile.family or family, profile.input_kind, profile.input_size
    unseen = gpu.kind == "cuda" and (reported.get("host") or {}).get("gpu_seen") is False
    return RunCase(
        reported, gpu, name, row, family, precision, layout, optimizer, mode, kind, size, profile, why_not,
        unseen,
    )  # fmt: skip


def _known_model(knowledge: Knowledge, name: str) -> tuple[CatalogueModel | None, str]:
    try:
        return requested_model(knowledge, name)
    except InvalidInput as error:
        hint = "a network of one's own is custom/NAME"
        raise InvalidInput(f"{error.detail}; {hint}", error.errors) from error


def _own_card(reported: Mapping[str, Any]) -> TargetDevice:
    """A card that is not listed: its memory as its driver says it, 0 where nobody does."""
    memory_gib = number_of((reported.get("host") or {}).get("gpu_memory_gib"), most=1e6) or 0.0
    return TargetDevice(
        reported["gpu"], reported["gpu"], "cuda", "unknown", memory_gib, memory_gib, 0.0,
        {"fp16": 0.0, "bf16": 0.0},
    )  # fmt: skip


def _cores(reported: Mapping[str, Any]) -> int | None:
    cores = (reported.get("host") or {}).get("cpu_count")
    if isinstance(cores, bool) or not isinstance(cores, int):
        return None
    return cores if 1 <= cores <= 4096 else None


def _check_competition(knowledge: Knowledge, slug: str | None) -> None:
    if slug is None:
        return
    try:
        knowledge.competition(slug)
    except NotFound as error:
        raise InvalidInput(error.detail, error.errors) from error


def _profile(
    knowledge: Knowledge,
    question: PredictRequest,
    row: CatalogueModel | None,
    name: str,
    precision: str,
    checkpointing: bool,
) -> Profile:
    profile = requested_profile(knowledge, question, row, name, precision_class(precision), TraceBudget(1))
    if not checkpointing:
        return profile
    case = Observation(
        gpu="", model=profile.model, family="", input_size=profile.input_size, precision=precision,
        batch_size=1, checkpointing=True,
    )  # fmt: skip
    saving = observed_profile(knowledge.priced, case)
    if saving is None:
        message = f"{name} at {profile.input_size} has no profile with gradient checkpointing"
        raise wrong_value("checkpointing", message, True, detail=message)
    return saving


NEEDED = ("task", "gpu", "model")
"""Without these nobody can say what a run runs."""

_OF_THE_PLAN = ("task", "minutes", "folds", "epochs", "precision", "n_gpus")
_OF_ITS_MODEL = ("batch_size", "grad_accumulation", "learning_rate", "optimizer")
_OF_THE_DATA = ("n_train", "n_test", "n_classes")


def with_plan(
    knowledge: Knowledge, reported: Mapping[str, Any], plan: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What the run said, completed from the plan it follows (None: it is not known here).

    A run of another model takes over the plan's budget, folds and epochs, not its batch and sizes; one on
    other cards not their number. A run that names the GPU model of a plan that was made for a registered
    device runs on that device. InvalidInput names what is still not known.
    """
    if plan is not None and plan.get("feasible") is not False:
        planned, card = _planned(reported, plan), _known(knowledge, reported.get("gpu"))
        if reported.get("gpu") and (card is None or card.slug != plan["gpu"].get("slug")):
            planned.pop("n_gpus", None)
        reported = fitting_start(planned) | dict(reported)
        reported["gpu"] = _card(knowledge, reported.get("gpu"), plan)
    lacking = [name for name in NEEDED if not reported.get(name)]
    if lacking:
        hint = "is required"
        if "plan_id" in reported:
            hint += f": plan {reported['plan_id']} is not known here (any more); bring it along in `plan`"
        message = f"This cannot begin a run: {', '.join(lacking)} {hint}"
        raise InvalidInput(message, [FieldError(name, hint) for name in lacking])
    return {name: value for name, value in reported.items() if value is not None}


def splits_by_time(task: str, plan: Mapping[str, Any] | None) -> bool:
    """As the plan says, else as is usual of the task."""
    return split_setting({**(plan or {}), "task": task})[0] == "time"


def facts_of(plan: Mapping[str, Any], *, assumed: bool) -> dict[str, Any]:
    """What the plan was made with, by name, with what was `assumed` or without it; plans of before have a
    mapping of them."""
    facts = plan.get("facts") or ()
    if isinstance(facts, Mapping):
        return dict(facts)
    rows = [row for row in facts if isinstance(row, Mapping) and (assumed or row.get("from") != "usual")]
    return {str(row.get("name")): row.get("value") for row in rows}


def _planned(reported: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: plan.get(name) for name in _OF_THE_PLAN}
    found["num_workers"] = (plan.get("data_loader") or {}).get("num_workers")
    facts = facts_of(plan, assumed=False)
    found |= {name: facts.get(name) for name in _OF_THE_DATA}
    if facts.get("cpu_count"):
        found["host"] = {"cpu_count": facts["cpu_count"]}
    model = plan["model"]
    if reported.get("model") in (None, model["name"]):
        found |= {name: plan.get(name) for name in _OF_ITS_MODEL}
        if not any(name in reported for name in SIZE_FIELDS):
            found |= {name: model.get(name) for name in SIZE_FIELDS}
        found["model"] = model["name"]
        found["seeds"] = plan.get("seeds") if plan.get("seeds") != 1 else None
        found["compiled"] = plan.get("compile") or None
        found["checkpointing"] = plan.get("gradient_checkpointing") or None
        if plan.get("channels_last") is not None:
            found["layout"] = "nhwc" if plan["channels_last"] else "nchw"
    return {name: value for name, value in found.items() if value is not None}


def _card(knowledge: Knowledge, reported: str | None, plan: Mapping[str, Any]) -> str | None:
    planned: Mapping[str, str | None] = plan["gpu"]
    device, slug = planned.get("device"), planned.get("slug")
    if reported is None:
        return device or slug
    known = _known(knowledge, device)
    if known is None or not known.device:
        return reported
    named = _known(knowledge, reported)
    return device if named is not None and not named.device and named.slug == known.slug else reported


def _known(knowledge: Knowledge, name: str | None) -> TargetDevice | None:
    try:
        return knowledge.gpu(name) if name else None
    except InvalidInput:
        return None


def plan_brought(said: dict[str, Any]) -> dict[str, Any] | None:
    """Take the plan that a run brought out of what it stated; `plan_id` is then said too. InvalidInput
    where it is no answer of /recommend with a plan, or not the one that plan_id names."""
    given: Mapping[str, Any] | None = said.pop("plan", None)
    if given is None:
        return None
    plan = checked(BroughtPlan, given, "This is no plan of /recommend", at="plan").model_dump(
        exclude_none=True
    )
    if said.setdefault("plan_id", plan["plan_id"]) != plan["plan_id"]:
        raise wrong_value("plan_id", "names another plan than the one in `plan`", said["plan_id"])
    return plan


def advised(knowledge: Knowledge, case: RunCase, plan: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a run that begins was advised, and whether it does so; None where its plan is not known.

    plan   the answer of /recommend that it follows
    """
    if plan is None or plan.get("feasible") is False:
        return None
    patterns = {row["id"]: row for row in knowledge.patterns}
    runs_it = {"model": case.model, "precision": case.precision, case.input_kind: case.input_size}
    by_minutes = case.reported.get("reserve_minutes") is not None  # they decide on folds and rounds
    names = ("batch_size",) if by_minutes else ("batch_size", "folds", "epochs")
    runs_it |= {name: case.reported.get(name) for name in names}
    return advice_of(brief_of(plan, patterns), patterns, runs_it)


def begin_outcome(
    transaction: WriteTransaction, run_id: str, case: RunCase, told_by: str, advice: Mapping[str, Any] | None
) -> None:
    """Keep with a new run what it was advised."""
    said = case.reported
    place = place_of(said.get("competition"), said["task"], said.get("n_train"))
    outcomes.begin(transaction.session, run_id, place, told_by, advice, transaction.now)
