"""Plans, and why there is none."""

from typing import Any, Literal

from pydantic import Field, RootModel

from memory_service.domain.common.estimate import Grade
from memory_service.domain.cost.decoders.decoder import Method, Trainer
from memory_service.domain.planning.plan import Stage
from memory_service.schemas.answers.common import (
    Answer,
    Estimate,
    Provenance,
    Sentence,
    Settings,
    Size,
    left_out,
)  # fmt: skip


class Card(Answer):
    """The card that memory is planned for."""

    slug: str = Field(description="Of its GPU model.")
    name: str
    kind: Literal["cuda", "mps", "cpu"]
    memory_gib: float
    usable_gib: float = Field(description="What one process can use.")
    device: str | None = left_out("The registered device, where it is one.")
    calibration: Provenance | None = left_out(
        "What its rates stand on, where that is more than a data sheet."
    )
    fits_all: list[str] | None = left_out("All the cards that the plan fits, where several were asked for.")
    calibrations_of_others: dict[str, Provenance] | None = left_out("By card.")
    visible: list[str] | None = left_out("The cards of this host, where the plan is for others.")


class InputSize(Answer):
    """One of the three, by the model's kind of input."""

    image_size: int | None = left_out("Pixels a side.")
    seq_len: int | None = left_out("Tokens a text; of sounds frames of 10 ms.")
    n_features: int | None = left_out("Columns of a table.")


class PlannedModel(InputSize):
    name: str
    library: str
    params_m: float = Field(description="Million parameters.")
    active_params_m: float | None = left_out("Of a mixture of experts: those that work on one token.")
    pretrained: bool
    bands: int | None = left_out("Of a picture, where they are more than three colours.")
    image_shape: list[int] | None = left_out("Height and width of strips, in place of a square.")


class DataLoader(Answer):
    num_workers: int = Field(description="0 of boosted trees and linear models, which have no loader.")
    pin_memory: bool
    prefetch_factor: int | None = Field(description="Batches a worker; null without workers.")
    persistent_workers: bool


class StepSettings(Answer):
    """How a decoder is tuned, how texts share rows, and how several cards share a step."""

    method: Method | None = left_out("Of a decoder.")
    lora_rank: int | None = left_out("Of a decoder's LoRA, on every linear layer.")
    trainer: Trainer | None = left_out("Of a decoder, where one that saves memory was asked for.")
    n_gpus: int | None = left_out("Cards that train together; batches are of each, samples a second of all.")
    interconnect: Literal["nvlink", "pcie"] | None = left_out("What joins several cards.")
    texts_per_row: float | None = left_out(
        "Of packed texts; `batch_size` then counts rows, samples a second are texts."
    )
    sharding: Literal["fsdp"] | None = left_out("Where a decoder's weights are spread over the cards.")


class RunSettings(StepSettings):
    """What differs from run to run."""

    batch_size: int = Field(description="Samples a step.")
    grad_accumulation: int = Field(description="Steps an update.")
    precision: str
    channels_last: bool
    gradient_checkpointing: bool
    tree_device: Literal["cpu", "cuda"] | None = left_out("Where boosted trees grow.")
    weights: Literal["local", "none"] | None = left_out(
        "Where pretrained weights lie on the disk; `none`: a model that has some is trained from random ones."
    )
    folds: int
    epochs: int = Field(description="Of a fold; of boosted trees the most rounds, which early stopping ends.")
    early_stopping_patience: int = Field(description="Epochs without a gain; rounds of boosted trees.")
    optimizer: str
    learning_rate: float
    warmup_epochs: int


class TrainingSettings(RunSettings):
    """What a training script copies."""

    model: PlannedModel
    effective_batch_size: int = Field(description="Samples an update.")
    compile: bool
    sample_rows: int | None = left_out(
        "Rows that are learned from, where there are too many for the minutes."
    )
    techniques: str | None = left_out("Those that the script does, where somebody chose them; by comma.")
    data_loader: DataLoader


class ShortExpected(Answer):
    peak_memory_gib: Estimate = Field(description="As the driver reports it.")
    total_minutes: Estimate = Field(description="Setup, training, inference and writing.")
    quality_index: Estimate = Field(description="0 to 100 within the task.")


class Expected(ShortExpected):
    """What the run should show."""

    memory_percent: Estimate = Field(description="Of the card's memory.")
    samples_per_second: Estimate = Field(description="In training.")
    epoch_seconds: Estimate
    inference_minutes: Estimate
    bound: Literal["gpu", "loader", "host"] = Field(description="What limits the speed.")
    host_memory_gib: Estimate | None = left_out("Where the processor does the work (boosted trees).")
    best_epoch: Estimate | None = left_out("Of best validation; the round, of boosted trees.")


class ShortPlan(InputSize):
    """A plan in one line."""

    model: str
    batch_size: int = Field(description="Samples a step.")
    precision: str
    folds: int
    epochs: int
    expected: ShortExpected


class Alternative(ShortPlan):
    objective: Literal["fast", "balanced", "quality", "smaller"] = Field(
        description="Chosen by this; `smaller`: a smaller model that needs less memory."
    )


class Relaxation(Answer):
    set: Settings = Field(description="Fields of the question; null: not given.")
    why: str
    plan: ShortPlan = Field(description="What is planned then.")


class Closest(Relaxation):
    """The smallest change of the question that fits."""

    or_: list[Relaxation] | None = Field(
        None, alias="or", exclude_if=lambda v: v is None, description="Others."
    )


class Checks(Answer):
    """When to look at the run, and at what (R20 to R22)."""

    first_after_seconds: int
    every_seconds: int
    kill_below_percent: int = Field(description="Of the card's memory: less is not the run that was planned.")
    target_percent: list[int] = Field(description="From, to; of the card's memory.")
    model_class: Literal["small", "large"]
    not_before_steps: int
    reserve_percent: float = Field(description="Of the minutes, kept for predicting and writing (R14).")
    reading: str = Field(description="Which memory is meant.")


class Trouble(Answer):
    when: str = Field(description="Name of the trouble; the first remedy first.")
    set: Settings
    rule: str
    planned_percent: float | None = left_out("Share of the budget that the plan itself expects.")
    over_percent: float | None = left_out("The share of the budget above which it holds for this plan.")
    only_if: str | None = left_out("The same in words, where it is more than `when` says.")


class Neighbour(Answer):
    slug: str = Field(description="Of a competition.")
    score: float = Field(description="Chance that it was won in the same ways; 1: the competition itself.")
    why: str
    lessons: list[str] = Field(description="Up to three sentences on what its best solutions taught.")


Split = Literal["stratified", "group", "stratified-group", "time", "random"]


class RecipeValidation(Answer):
    """How to split the training data."""

    split: Split
    by: str | None = Field(description="What the groups are, or how time is cut; null: not known.")
    folds: int
    why: str
    source: list[str] = Field(
        alias="from", description="Solutions (`<competition>#<rank>`), competitions or patterns."
    )
    grade: Grade


class Share(Answer):
    """What winners of similar competitions used."""

    name: str
    share: float = Field(description="Expected share of such winners that use it, 0 to 1.")
    lift: float | None = Field(description="Share over that among all winners of the modality.")
    n: int = Field(description="Solutions that used it, each of another team.")
    source: list[str] = Field(alias="from", description="The weightiest of them.")
    runs: str | None = Field(description="What runs of the very competition here say of it.")
    confirmed: int | None = Field(description="Year of the latest competition won with it; null: not known.")
    refuted_by: list[str] = Field(description="Solutions of similar competitions where it failed.")


class FamilyShare(Share):
    planned: str | None = Field(description="The model of this family that is planned, if one is.")


class TechniqueShare(Share):
    stage: Literal["data", "training", "validation", "ensemble", "after"]
    in_script: bool = Field(description="The plan's script does it.")
    setting: str = Field(description="How the script does it, else what is to be done.")


class Lesson(Answer):
    text: str
    source: list[str] = Field(alias="from", description="Solutions, or of a pitfall the competition.")


class Recipe(Answer):
    """How similar competitions were won; best or nearest first."""

    validation: RecipeValidation
    families: list[FamilyShare]
    techniques: list[TechniqueShare]
    loss: list[Share]
    features: list[Lesson]
    mattered: list[Lesson]
    failed: list[Lesson]
    pitfalls: list[Lesson]
    basis: str = Field(description="How many solutions of how many competitions it rests on.")


class RankScore(Answer):
    rank: int
    score: float = Field(description="On the hidden test.")
    source: str = Field(alias="from", description="The solution.")


class Targets(Answer):
    """What the best reached in the very competition."""

    metric: str
    direction: Literal["max", "min"] | None = Field(description="Which way is better, where it is known.")
    by_rank: list[RankScore]


class Evidence(Answer):
    """A row that the plan rests on."""

    id: str
    grade: Grade
    text: str
    source: str
    teams: int | None = left_out("Of a pattern: the winning teams that it rests on.")
    confirmed: int | None = left_out("Of a pattern: year of the latest competition that they won.")
    demoted: bool | None = left_out("True where what came of runs ranks it down.")


class BesideExpected(Answer):
    """Of one model of a set."""

    peak_memory_gib: Estimate | None = left_out("Of the card.")
    host_memory_gib: Estimate | None = left_out("Of what runs on the processor.")
    alone_minutes: Estimate
    ends_minute: Estimate = Field(description="From the start of the set.")
    quality_index: Estimate = Field(description="0 to 100 within the task.")


class BesideModel(TrainingSettings):
    """The settings to copy for one model of a set."""

    runs_on: Literal["gpu", "cpu"]
    cpu_threads: int | None = left_out("Of boosted trees.")
    expected: BesideExpected


class SetExpected(Answer):
    peak_memory_gib: Estimate
    memory_percent: Estimate = Field(description="Of the card's memory.")
    together_minutes: Estimate
    one_after_another_minutes: Estimate
    gain_percent: Estimate = Field(
        description="Of the minutes one after another that running together saves."
    )


class Cores(Answer):
    loader_workers: int
    main_processes: int
    trees: int = Field(description="Threads of boosted trees.")
    of: int = Field(description="Cores of the host.")


class ModelSet(Answer):
    """Models that could share the card (R33), and whether that is better than one after another."""

    kind: Literal["explore", "two_large", "network_and_trees"]
    models: list[BesideModel]
    expected: SetExpected
    cores: Cores
    better: Literal["together", "one_after_another"]
    why: str


class Metric(Answer):
    """What predictions are judged by."""

    name: str
    family: str | None
    direction: Literal["max", "min"] | None = Field(description="Which way is better, where it is known.")
    source: str = Field(alias="from", description="As asked, the description, or a competition's record.")
    in_script: bool = Field(description="The plan's script computes exactly this and goes by it.")
    note: str | None = Field(description="Why the script does not.")


class Option(Answer):
    value: str | int | float | None = Field(description="Null: nothing is said of it.")
    why: str
    probability: float | None = Field(description="Null where nobody can say.")


class OpenQuestion(Answer):
    """What the description leaves open. The first option is what the plan takes."""

    field: str = Field(description="The field of the question that answers it.")
    question: str
    options: list[Option]
    changes: str | None = Field(
        description="What the plan would be with the likeliest other answer, computed; null where it was not."
    )


class RunnerUp(InputSize):
    """The best model of another family in the same minutes."""

    model: str
    quality_index: float = Field(description="By its quality alone, 0 to 100 within the task.")
    behind: float = Field(description="Points less than the model of the main run, by quality alone.")


class _Answered(Answer):
    """The question as it was understood."""

    plan_id: str
    task: str | None = Field(description="Null where no plan is made because the task is open or outside.")
    size: Size | None
    gpu: Card | None
    minutes: float = Field(description="The wall-clock budget for everything.")
    metric: Metric | None = Field(description="Null where nobody says it.")
    recipe: Recipe | None = Field(
        description="What won similar competitions, the weightiest of each kind; with `include=recipe` all. "
        "Null in mode blind."
    )
    targets: Targets | None = Field(description="Null where no score of this very competition is known.")
    similar: list[Neighbour] = Field(description="The nearest three; with `include=similar` all.")
    warnings: list[Sentence] = Field(description="What may make the plan wrong, and what was assumed.")
    questions: list[OpenQuestion] = Field(description="At most three, the most telling first.")
    uses: list[str] = Field(description="Parts of the data that the plan reads.")
    ignores: list[str] = Field(description="Parts of the data that the plan leaves out, a sentence each.")
    evidence: list[Evidence] | None = left_out("With `include=evidence`.")
    knowledge_revision: int = Field(
        description="Revision of the knowledge that was answered from; it rises with every write and every "
        "run that ends. While one request learns from a run, others are answered from the one before."
    )


class Fact(Answer):
    """asked > record of the competition or device > text > usual value; `words`: of the text."""

    name: str
    value: str | int | float | bool
    source: Literal["asked", "text", "record", "usual"] = Field(alias="from")
    words: str | None = left_out("Of the text that it was read from.")


class NotSaid(Answer):
    name: str
    assumed: str | int | float | bool | None = Field(description="What a plan takes instead; null: nothing.")


class Brief(Answer):
    """What is known of a question, and what nobody says."""

    facts: list[Fact]
    not_said: list[NotSaid]
    questions: list[OpenQuestion] = Field(description="Worth asking; `changes` is computed by /recommend.")
    outside: str | None = Field(description="What is asked for, where no plan is made for that kind.")
    json_schema: dict[str, Any] = Field(description="JSON Schema of the fields of /recommend.")


class SearchStage(Answer):
    """A stage of a search: a bi-encoder finds candidates, a cross-encoder orders them."""

    name: Literal["retriever", "reranker"]
    queries: int = Field(description="That are learned from.")
    pairs: int = Field(description="Of a query and a passage, that each query is learned from by.")
    negatives: int = Field(
        description="Of a query: of the retriever the other passages of a batch, of the reranker passages "
        "that were found and are not relevant."
    )
    documents: int = Field(description="That are searched; 0: candidates are given.")
    kept: int = Field(description="Candidates of a query that are handed on, or ordered; 0: all.")
    peak_memory_gib: Estimate
    total_minutes: Estimate = Field(description="Of this stage alone.")


class PortfolioRun(InputSize, RunSettings):
    """One run of the portfolio; `run` in the question answers with its figures, or its script."""

    run: int = Field(description="Its number, in the order of training.")
    model: str
    seeds: int = Field(description="Repeats of all folds.")
    start_minute: float
    deadline_minute: float = Field(description="Over by then nine times in ten, its prediction written.")
    expected_gain: float = Field(
        description="Points of the quality index that the plan reaches more than without this run."
    )
    why: str
    stage: SearchStage | None = left_out("Of a search in two stages.")


class Blend(Answer):
    """How the runs become one submission."""

    method: Literal["none", "mean"]
    runs: list[int] = Field(description="Those that are blended, what was done before included.")


class Links(Answer):
    """Paths of this server."""

    script: str | None = left_out("The training script, where there is one.")
    page: str = Field(description="For people.")
    rule: str = Field(description="With a name, as R02, in place of {rule}: its rows.")


class Plan(TrainingSettings, _Answered):
    """A plan that keeps its promises: one value for everything, what to expect of them, and what to do when
    it goes wrong. The settings are those of the portfolio's main run, its timetable is from its own start."""

    feasible: Literal[True]
    run: int | None = Field(description="The run of the portfolio that was asked for; null: the main run.")
    seeds: int = Field(description="Repeats of all folds.")
    split: Split
    group_by: str | None = Field(description="What the groups are, or how time is cut; null: not known.")
    expected: Expected
    timetable: list[Stage]
    reserve_minutes: float = Field(description="Behind the last training step of the last run.")
    checks: Checks
    on_trouble: list[Trouble]
    alternatives: list[Alternative] | None = left_out("With `include=alternatives`.")
    parallel: list[ModelSet] | None = left_out("With `include=parallel`.")
    curves: list[dict[str, Any]] | None = left_out(
        "With `include=curves`: memory and speed by batch size, as /predict has them."
    )
    portfolio: list[PortfolioRun] = Field(description="What all of the minutes are for, in order.")
    blend: Blend
    used_percent: float = Field(description="Of the minutes, by the last run's deadline.")
    runner_up: RunnerUp | None = Field(description="Null where there is none, as with a pinned model.")
    reasons: list[Sentence] = Field(description="The three that come first; with `include=reasons` all.")
    rationale: list[str] = Field(description="The sentences of `reasons`; until 2.0.")
    facts: list[Fact] = Field(description="What the plan rests on, each with where it came from.")
    links: Links


class Refusal(_Answered):
    """Nothing fits: why, and the smallest change that would."""

    feasible: Literal[False]
    why: str = Field(
        description="A sentence; or a code: out-of-scope, task-not-told, hardware-not-told. Then `detail` "
        "is the sentence."
    )
    reasons: list[Sentence] = Field(description="The same as data.")
    closest: Closest | None
    kind: str | None = left_out("What is asked for, where that is outside: generation, agents-games ...")
    detail: str | None = left_out("Why nothing was planned, and what would make it plannable.")
    needs: list[OpenQuestion] | None = left_out("What must be answered before a plan is made.")
    facts: list[Fact] | None = left_out("What was understood all the same.")


class Recommendation(RootModel[Plan | Refusal]):
    """A plan, or why there is none."""
