"""Everything that past competitions, notes and runs say to one question.

A pattern that runs followed and fared worse with than without (`domain.runs.pattern_effect`) moves nothing
any more: it comes last, and says why.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.units import plural
from memory_service.domain.common.vocabulary import FRAMES_A_SECOND, modality_of, size_of
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.domain.planning.model_catalogue import CatalogueModel, normal_model_name
from memory_service.domain.planning.request import Question
from memory_service.domain.recipe.neighbourhood import (
    FACT_WEIGHTS,
    Neighbourhood,
    competition_weights,
    neighbourhood,
)
from memory_service.domain.recipe.notes import Note, beside_runs, note_of_pattern
from memory_service.domain.recipe.preferences import (
    FAMILY_YEARS,
    NO_PREFERENCES,
    SHOWN_BY_RUNS,
    ModelPreference,
    Preferences,
    preferences_of,
)
from memory_service.domain.recipe.recipe import Recipe, make_recipe
from memory_service.domain.recipe.solution import targets_of
from memory_service.domain.recipe.validation import SplitFact, Validation, decide_validation, unit_named
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.domain.recipe.votes import votes
from memory_service.domain.runs.pattern_effect import Tally, with_runs
from memory_service.recall.structure import answer_of
from memory_service.services.competitions.similar import Hit, Signals
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.outcomes import happened_there, score_of
from memory_service.services.knowledge.snapshot import Knowledge
from memory_service.services.knowledge.solution_memory import SolutionMemory
from memory_service.services.planning.request_text import RequestText

PITFALLS_FROM = 5
OWN_WEIGHT = 3.0
"""Of the very competition, by the nearest other one's: its cosine to itself would leave no other a say."""

_BY_TASK: Mapping[str, Callable[[str], str | None]] = {
    "task": lambda task: task,
    "modality": modality_of,
    "answer": answer_of,
}
"""Facts that follow from the task, which is uncertain where it was read from a text."""


def similarity_weights(signals: Signals, as_of: int | None) -> NDArray[np.float64]:
    """Weight of each stored competition for the question (C,)."""
    snapshot = signals.snapshot
    structure = snapshot.structure
    certain = {name: weight for name, weight in FACT_WEIGHTS.items() if name not in _BY_TASK}
    agreement = structure.shared_weight(signals.kind, certain).astype(np.float64)
    for name, value_of in _BY_TASK.items():
        likely: dict[str, float] = {}
        for task, probability in signals.tasks.items():
            value = value_of(task)
            if value is not None:
                likely[value] = likely.get(value, 0.0) + probability
        agreement += FACT_WEIGHTS[name] * structure.probability(name, likely)
    left_out = np.zeros(len(agreement), dtype=np.bool_) if signals.left_out is None else signals.left_out
    meaning = None if signals.meaning is None else signals.meaning.astype(np.float64)
    weights = competition_weights(meaning, agreement, snapshot.years, as_of, left_out, signals.year)
    if signals.own is not None and weights[signals.own] > 0.0:
        others = np.delete(weights, signals.own)
        weights[signals.own] = OWN_WEIGHT * others.max(initial=1.0 / OWN_WEIGHT)
    return weights


class TasksOfFamilies(dict[str, set[str]]):
    """Family -> the tasks that models of a catalogue serve of it."""

    def __init__(self, models: Iterable[CatalogueModel]) -> None:
        for model in models:
            for family in families_of(model.name, model.family):
                self.setdefault(family, set()).update(model.tasks)


def recipe_of(
    memory: SolutionMemory,
    slugs: Sequence[str],
    weights: NDArray[np.float64],
    task: str,
    as_of: int | None,
    split: SplitFact | None,
    served: TasksOfFamilies | None = None,
) -> tuple[Recipe, Neighbourhood]:
    """The recipe for a task, and the solutions it came from.

    slugs, weights   of all stored competitions (C,), as `similarity_weights` gives them
    served           by the catalogue: families that it has for other tasks only are not named, unless a
                     solution of the task used them
    """
    near = neighbourhood(weights, slugs, memory.by_competition, memory.known(as_of))
    nearest = ((slug, memory.competitions[slug]) for slug in near.competitions[:PITFALLS_FROM])
    pitfalls = [(slug, one_line(str(row["pitfalls"]))) for slug, row in nearest if row.get("pitfalls")]
    base = memory.base(modality_of(task), as_of)
    of_others = {family for family, tasks in (served or {}).items() if task not in tasks}
    of_others -= memory.families_of_task(task, as_of)
    validation = decide_validation(near, task, split)
    return make_recipe(near, validation, task, base, pitfalls, of_others), near


def family_shares(
    memory: SolutionMemory,
    slugs: Sequence[str],
    weights: NDArray[np.float64],
    years: NDArray[np.float64],
    task: str,
    as_of: int | None,
) -> dict[str, float]:
    """Family -> share among winners of similar competitions of the `FAMILY_YEARS` before `as_of` (the latest
    year that is known, where none is asked for), drawn to that of the modality in the same years.

    slugs, weights, years   of all stored competitions (C,)
    """
    since = (np.nanmax(years) if as_of is None else as_of) - FAMILY_YEARS
    near = neighbourhood(np.where(years >= since, weights, 0.0), slugs, memory.by_competition, 0)
    base = memory.base(modality_of(task), as_of, int(since))["families"]
    return {vote.name: vote.share for vote in votes(near, "families", base)}


def split_fact(
    question: Question, said: InferredFacts | None, record: Mapping[str, Any], notes: Sequence[Note]
) -> SplitFact | None:
    """What is known of the way the test differs: as asked > a note of a person > the record of the very
    competition, completed by notes and the text where it names no groups > the text > a shipped note."""
    if question.split in ("random", "time"):
        return SplitFact(question.split, f"Asked: split={question.split}.")
    if question.group_by or question.n_groups or question.split:
        by, groups = question.group_by, question.n_groups
        if groups is None and said is not None and said.group_by in (by, f"{by}_id"):
            groups = said.n_groups
        return SplitFact(
            "group", f"Asked: the rows come from groups ({by or groups or 'not named'}).", by, groups=groups
        )
    read = split_read(said) if said is not None else None
    here = next((note for note in notes if note.here and note.split), None)
    noted_folds = next((note.folds for note in notes if note.here and note.folds), None)
    if record.get("split") in ("group", "time"):
        return _split_noted(here, noted_folds) if here is not None else _split_recorded(record, read, notes)
    if read is not None:
        return replace(read, folds=noted_folds)
    noted = here or next((note for note in notes if note.split), None)
    return None if noted is None else _split_noted(noted, noted_folds if here else None)


def _split_recorded(record: Mapping[str, Any], read: SplitFact | None, notes: Sequence[Note]) -> SplitFact:
    """A record's split, by the column that it, else a note, else the text names."""
    split, slug = str(record["split"]), str(record["slug"])
    noted = next((note for note in notes if note.by and (note.split or split) == split), None)
    of_text = read if read is not None and read.split == split else None
    by = unit_named(record.get("group_by"))
    if by is None and noted is not None:
        by = unit_named(noted.by)
    if by is None and of_text is not None:
        by = of_text.by
    about = f" ({by})" if by else ""
    source = (slug, noted.source) if noted is not None and by == noted.by else (slug,)
    groups = of_text.groups if of_text is not None and of_text.by in (by, f"{by}_id") else None
    because = f"The record of {slug}: the test differs by {split}{about}."
    return SplitFact(split, because, by, None, source, split == "time" or by is not None, groups)


def _split_noted(note: Note, folds: int | None = None) -> SplitFact:
    by = note.by if note.here else unit_named(note.by)
    return SplitFact(str(note.split), f"Noted: {note.text}", by, note.folds or folds, (note.source,))


def split_read(said: InferredFacts) -> SplitFact | None:
    """What a text says of the way the hidden test differs: groups that rows come in count unless it speaks of
    the future or of a random test, for series as for anything else."""
    by = said.group_by
    words = said.words.get("split") or said.words.get("group_by") or said.words.get("n_groups")
    quoted = f'The text says "{words}".' if words else f"The text says that the test differs by {said.split}."
    if said.split == "time":
        return SplitFact("time", quoted, by)
    if said.split == "group" or (by is not None and said.split is None):
        return SplitFact("group", quoted, by, groups=said.n_groups)
    return None


Row = Mapping[str, Any]

MOST_ROWS = 6
MOST_DEMOTED = 2
NEIGHBOURS = 12
"""Competitions whose patterns are looked at, nearest first."""

CLOSE = 0.85
"""Probability that a competition shares task and techniques with the question, as `/similar` says it, from
which what a person noted of it steers the plan: of weights of pigs and sheep by photo after a note on cattle
(0.90, 0.89), not of prices of cars (0.80), ages of faces (0.74), popularity of pets (0.64)."""

_SOLUTIONS = "; solutions: "
"""What stands before the solutions in the source of a shipped pattern."""

_STEERING = ("model", "validation", "input", "schedule")
"""Kinds of patterns that say what to do; a pitfall names a model to warn of it."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered for one question.

    validation   how to split, by what the question itself says where nothing is remembered
    noted      what a person wrote here about the very competition, or one much like it, with a best model
    evidence   what runs of the very competition came to, and pattern rows to show, the weightiest first;
               `demoted`: true on those that are ranked down
    results    model -> points of its best run there; similar: the neighbours
    warnings   a sentence for each of these
    """

    validation: Validation
    recipe: Recipe | None = None
    preferences: Preferences = NO_PREFERENCES
    targets: Mapping[str, Any] | None = None
    noted: Note | None = None
    evidence: tuple[Row, ...] = ()
    warnings: tuple[Sentence, ...] = ()
    results: Mapping[str, float] = field(default_factory=dict)
    similar: tuple[Hit, ...] = ()


def _length(said: InferredFacts, kind: str) -> int | None:
    """Of a text's sequences what it tells; of sounds the frames of a clip."""
    frames = kind == "audio" and said.clip_seconds
    return round(FRAMES_A_SECOND * frames) if frames else said.seq_len


def memory_of(knowledge: Knowledge, question: Question, text: RequestText, task: str, n_train: int) -> Memory:
    """Mode blind: the split alone; family: nothing of the competition asked about."""
    said, found = text.said, text.neighbours(question, task, n_train)
    outcomes, points = text.outcomes(question, task)
    listed = knowledge.model_names
    results = {listed.get(normal_model_name(name), name): each for name, each in points.items()}
    happened = happened_there(outcomes, question.competition or text.described)
    signals = found.signals
    if question.mode == "blind" or signals is None:
        validation = decide_validation(_NOTHING_NEAR, task, split_fact(question, said, {}, ()))
        return Memory(validation, evidence=happened, results=results, similar=found.hits)
    own = question.competition or found.described
    named = {slug for slug in (question.competition, found.described) if slug}
    hidden = named if question.mode == "family" else set()
    record = knowledge.competitions.get(own, {}) if own and question.mode == "open" else {}
    if question.as_of is not None and not (record.get("year") or question.as_of + 1) <= question.as_of:
        record = {}
    held_back = question.mode == "family" or question.as_of is not None
    slugs, weights = signals.snapshot.slugs, similarity_weights(signals, question.as_of)
    order = np.argsort(-weights, kind="stable")[:NEIGHBOURS]
    near = [slugs[i] for i in order if weights[i] > 0.0 and slugs[i] not in hidden]
    counted = text.tallies(None, hidden) if hidden and knowledge.tallies else knowledge.tallies
    shown: list[Row] = []
    demoted: list[Row] = []
    notes: list[Note] = []
    for row in _relevant(knowledge, task, size_of(n_train), near):
        why = _worse(counted, row)
        if why:
            told = f"Ranked down: {why}. It says: {row['statement']}"
            demoted.append(_shown(knowledge, row, told, held_back) | {"demoted": True})
            continue
        shown.append(_shown(knowledge, row, row["statement"], held_back))
        note = _note(knowledge, signals, row, own if question.mode == "open" else None, question)
        notes += [note] if note is not None else []
    notes = [note for note in notes if note.own] or notes
    notes, refutations = beside_runs(notes, results)
    notes.sort(key=lambda note: not note.here)
    split = split_fact(question, said, record, notes)
    served = knowledge.priced.caches.of(TasksOfFamilies, knowledge.models.values())
    recipe, _ = recipe_of(knowledge.solution_memory, slugs, weights, task, question.as_of, split, served)
    if record:
        recipe = with_runs(recipe, text.tallies(own, ()), ASKER.get())
    most = recipe.validation.most_folds
    if most is not None:
        notes = [replace(note, folds=min(note.folds, most)) if note.folds else note for note in notes]
    kind = modality_of(task)  # solutions do not count sounds in frames of 10 ms, as models here do
    preferences = preferences_of(
        family_shares(
            knowledge.solution_memory, slugs, weights, signals.snapshot.years, task, question.as_of
        ),
        notes,
        _shown_by_runs(knowledge, (outcomes or {}).get("best")),
        {"image_size": recipe.image_size, "seq_len": recipe.seq_len if kind != "audio" else None},
        {
            "image_size": record.get("image_size") or (said.image_size if said else None),
            "seq_len": _length(said, kind) if said else None,
        },
        recipe.validation.folds,
        unit={"time-series": "steps", "audio": "frames of 10 ms"}.get(kind, "tokens"),
    )
    demoted = demoted[:MOST_DEMOTED]
    targets = targets_of(record, knowledge.solution_memory.by_competition.get(str(own), ()))
    evidence = (*happened, *shown[: MOST_ROWS - len(demoted)], *demoted)
    warnings = tuple(
        sentence("ranked-down", memory=row["id"], why=row["text"].partition(". It says: ")[0])
        for row in demoted
    )
    warnings += tuple(sentence("ranked-down", memory=note, why=why) for note, why in refutations.items())
    noted = _noted_best(notes)
    if noted is not None and task not in knowledge.models[noted.prefer[0]].tasks:
        noted = None
    return Memory(
        recipe.validation, recipe, preferences, targets, noted, evidence, warnings, results, found.hits
    )


_NOTHING_NEAR = Neighbourhood((), (), (), 0)


def remembered(
    knowledge: Knowledge, question: Question, text: RequestText, task: str, n_train: int
) -> Memory:
    """`memory_of`; of facts alone, of which there are few kinds, kept while what is remembered stays."""
    if text.database is None or text.found is not None:
        return memory_of(knowledge, question, text, task, n_train)
    key = (
        question.task, task, size_of(n_train), question.n_classes, question.mode, question.as_of,
        question.group_by, question.n_groups, question.split,
    )  # fmt: skip
    known: Memory | None = knowledge.remembered.get(key)
    if known is None:
        if len(knowledge.remembered) >= MOST_REMEMBERED:
            knowledge.remembered.clear()
        known = knowledge.remembered[key] = memory_of(knowledge, question, text, task, n_train)
    return known


MOST_REMEMBERED = 256


def _relevant(knowledge: Knowledge, task: str, size: str, near: list[str]) -> Iterator[Row]:
    """Patterns of similar competitions in order of similarity, what a person wrote first; then those of the
    kind; only of the same task."""
    place = {slug: i for i, slug in enumerate(near)}
    alike = [row for row in knowledge.patterns if row.get("competition") in place]
    of_competitions = [row for row in alike if row.get("task") in (None, task)]
    of_competitions.sort(key=lambda row: (place[row["competition"]], row["id"] not in knowledge.written_here))
    yield from of_competitions
    for row in knowledge.patterns:
        if not row.get("competition") and row.get("task") == task and row.get("size") in (None, size):
            yield row


def _note(
    knowledge: Knowledge, signals: Signals, row: Row, own: str | None, question: Question
) -> Note | None:
    """A pattern that steers the plan: of the very competition, or written here about one much like it, then
    without groups that the text does not speak of."""
    here, slug = row["id"] in knowledge.written_here, row.get("competition")
    if slug is None or row["kind"] not in _STEERING or (slug != own and not (here and _alike(signals, slug))):
        return None
    note = note_of_pattern(row, lambda word: knowledge.model_names.get(normal_model_name(word)), here)
    if slug == own:
        return note
    if note.split == "group" and not (note.by and note.by.lower() in (question.description or "").lower()):
        note = replace(note, split=None, by=None)
    return replace(note, own=False)


def _alike(signals: Signals, slug: str) -> bool:
    """Whether a stored competition asks for the same answers and is near in meaning."""
    place = signals.snapshot.position[slug]
    asked, there = signals.kind, signals.snapshot.structure.kinds[place]
    same = asked.task == there.task and asked.n_classes in (None, there.n_classes)
    near = signals.meaning is not None and signals.shared is not None and signals.shared[place] >= CLOSE
    return bool(same and near)


def _noted_best(notes: list[Note]) -> Note | None:
    """The first note that a person wrote here of a best model, with what others of theirs say of folds."""
    here = [note for note in notes if note.here]
    best = next((note for note in here if note.prefer), None)
    return best and replace(best, folds=best.folds or next((note.folds for note in here if note.folds), None))


def _shown_by_runs(knowledge: Knowledge, best: Row | None) -> dict[str, ModelPreference]:
    """The model of the best run, where the catalogue has it, with the score that it is the best by; each
    further run of that model halves what is missing of `SHOWN_BY_RUNS`."""
    model = knowledge.model_names.get(normal_model_name(str(best["model"]))) if best else None
    if best is None or model is None:
        return {}
    runs = int(best.get("agreeing", 1))
    text = f"The best run here reached {score_of(best):g} with it ({plural(runs, 'run')} of it)"
    points = SHOWN_BY_RUNS * (1.0 - 0.5**runs)
    return {model: ModelPreference(points, f"run {best['run_id']}", text)}


def _shown(knowledge: Knowledge, row: Row, text: str, held_back: bool) -> dict[str, Any]:
    """With how many teams it rests on, and the year of the last of them. held_back: the solutions behind it
    go unnamed, as some may be what the question must not know."""
    source, _, solutions = str(row["source"]).partition(_SOLUTIONS)
    teams = {} if held_back else dict.fromkeys(_TEAM.findall(solutions))
    years = [knowledge.competitions.get(slug, {}).get("year") or 0 for slug, _ in teams]
    witnesses = {"teams": len(teams), "confirmed": max(years) or None} if teams else {}
    source = source + _SOLUTIONS + solutions if teams else source
    shown = {"id": row["id"], "grade": row["grade"], "text": one_line(text), "source": one_line(source)}
    return shown | witnesses


_TEAM = re.compile(r"(?<![\w.-])([\w.-]{1,120})#(\d+)")


def _worse(tallies: Mapping[str, Tally], row: Row) -> str:
    """Why a pattern, or the remembered competition it is of, is ranked down; "" where it is not."""
    subjects = [("followed", f"pattern:{row['id']}")]
    if row.get("competition"):
        subjects.append((f"what {row['competition']} taught", f"competition:{row['competition']}"))
    for what, subject in subjects:
        total = tallies.get(subject, Tally())
        if total.demoted:
            return f"{what} {total.sentence().removeprefix('followed ')}"
    return ""
