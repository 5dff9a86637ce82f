"""What is known when planning starts: what was asked, what was inferred, and the cards to plan for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from memory_service.domain.common.sentences import Sentence
from memory_service.domain.common.vocabulary import FORECASTS, reads_files
from memory_service.domain.cost.multi_gpu import ONE_CARD, Cards
from memory_service.domain.description.known_facts import Fact
from memory_service.domain.description.metric_resolution import ResolvedMetric
from memory_service.domain.description.stated_facts import Search
from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.fits import Fits, fits_of
from memory_service.domain.planning.hyperparameters import DEFAULT_POLICY
from memory_service.domain.planning.policy import Policy
from memory_service.domain.planning.request import Question
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.quality.quality_model import (
    NO_FIGURES,
    Kind,
    QualityModel,
    judges_quantiles,
    quality_kind,
)
from memory_service.domain.recipe.notes import Note
from memory_service.domain.recipe.preferences import NO_PREFERENCES, Preferences
from memory_service.domain.recipe.recipe import Recipe
from memory_service.domain.recipe.validation import Validation, usual_split


@dataclass(frozen=True, slots=True)
class DoneRun:
    """A run of a plan of before whose predictions are there, with the expected index it was planned with."""

    run: int
    model: str
    family: str
    quality: float


@dataclass(frozen=True, slots=True)
class PlanningProblem:
    """The facts a plan rests on; every count is a plain integer by now.

    cards     to plan for: the plan fits all of them; visible: the cards of the question when others are
              planned for
    together  how many of a card train one model together, and what joins them
    model     the catalogue's name of the pinned model, if one is pinned
    inferred  sentences on what was not said and therefore assumed
    similar   hits of the recall, as they are shown
    validation   how rows are split; None: as is usual of the task
    recipe    what won similar competitions, None without memory; preferences: what memory says of the choice
    noted_best   what a person wrote here with a best model, None where nobody did
    noted     why model, size or folds are pinned by what a person noted here; "" where they are not
    targets   scores that ranks reached in the very competition
    evidence  rows beyond the planner's own (patterns of similar competitions)
    policy    the numbers that rows of the strategy tables say
    size_assumed   n_train is a usual number: nobody said it
    metric    what predictions are judged by; None where nobody says
    facts     what is known of the data and the host, each with where it came from
    quality   what models are expected to reach; results: model -> points of its best run in the very
              competition, of unknown level
    language, subtask   of a text, None where nothing says
    done      runs of the plan that this one goes on from
    bands, aspect_ratio   of pictures; the longer side by the shorter, 1 of squares
    volumes   samples are volumes, for which there are networks in three dimensions
    host_gib  memory of the host, where somebody says it
    sampled   the plan learns from `n_train` of more rows
    search    what is ranked for queries, which `n_train` and `n_test` count; None of other problems
    contrastive   samples are told apart from the others of a batch: the larger the better
    """

    question: Question
    task: str
    n_train: int
    n_test: int
    n_classes: int
    n_features: int
    cpu_count: int
    cards: tuple[TargetDevice, ...]
    visible: tuple[TargetDevice, ...] = ()
    together: Cards = ONE_CARD
    model: str | None = None
    inferred: tuple[Sentence, ...] = ()
    warnings: tuple[Sentence, ...] = ()
    similar: tuple[Mapping[str, Any], ...] = ()
    validation: Validation | None = None
    recipe: Recipe | None = None
    preferences: Preferences = NO_PREFERENCES
    targets: Mapping[str, Any] | None = None
    noted_best: Note | None = None
    noted: str = ""
    evidence: tuple[Mapping[str, Any], ...] = ()
    policy: Policy = DEFAULT_POLICY
    size_assumed: bool = False
    metric: ResolvedMetric | None = None
    facts: tuple[Fact, ...] = ()
    quality: QualityModel = NO_FIGURES
    results: Mapping[str, float] = field(default_factory=dict)
    language: str | None = None
    subtask: str | None = None
    done: tuple[DoneRun, ...] = ()
    bands: int = 3
    aspect_ratio: float = 1.0
    volumes: bool = False
    host_gib: float | None = None
    sampled: bool = False
    search: Search | None = None
    contrastive: bool = False

    @property
    def data_kind(self) -> Kind:
        """Which public results say something about these data."""
        metric = self.metric.name if self.metric else self.question.metric
        quantiles = self.forecasts and judges_quantiles(metric)
        return quality_kind(
            self.task, self.n_classes, self.language, self.subtask, forecasts=self.forecasts,
            quantiles=quantiles,
        )  # fmt: skip

    @property
    def forecasts(self) -> bool:
        """Whether series go on: a horizon is given, or rows are split by time."""
        return self.task in FORECASTS and (self.question.horizon is not None or self.by_time)

    @property
    def by_group(self) -> bool:
        """Whether rows of a group stay together."""
        return "group" in self.split[0]

    @property
    def split(self) -> tuple[str, str | None]:
        """How rows are split, and what the groups are or how time is cut."""
        found = self.validation
        return (usual_split(self.task), None) if found is None else (found.split, found.by)

    @property
    def by_time(self) -> bool:
        """Whether rows are split by time."""
        return self.split[0] == "time"

    @property
    def most_folds(self) -> int:
        """More cannot be made: each holds out a row, or a group where the split is by groups and their number
        is known."""
        groups = None if self.validation is None else self.validation.most_folds
        return self.n_train if groups is None else min(self.n_train, groups)

    def fits(self, folds: Any, seeds: Any = 1, *, trees: bool) -> Fits:
        """What a run of so many folds and seeds fits."""
        return fits_of(self.n_train, self.n_test, folds, seeds=seeds, by_time=self.by_time, trees=trees)

    @property
    def on_gpu(self) -> bool:
        return any(card.kind != "cpu" for card in self.cards)

    @property
    def fetches_weights(self) -> bool:
        """Whether pretrained weights are downloaded before training."""
        return self.question.weights in (None, "hub")

    @property
    def reads_files(self) -> bool:
        return reads_files(self.task)


class CostProvider(Protocol):
    """Where the planner finds priced options; the knowledge snapshot of the services is one."""

    @property
    def gpus(self) -> Mapping[str, TargetDevice]: ...

    def table(self, problem: PlanningProblem, cards: tuple[TargetDevice, ...], precision: str) -> CostTable:
        """All options of the problem's task priced on one card, or on the slowest of several."""
        ...

    def trees(self, problem: PlanningProblem) -> CostTable:
        """The boosted trees that serve the problem's task; a table without rungs, empty for other tasks."""
        ...

    def evidence(
        self, problem: PlanningProblem, model: str, input_size: int
    ) -> tuple[Mapping[str, Any], ...]:
        """The rows of claims and strategy tables that bear on the plan, as {id, grade, text, source}."""
        ...
