"""The answer of /similar: text read, neighbours with their reasons and what their best solutions taught.

The task of a text is inferred on its own, not by its neighbours' votes. Without an encoder the words and the
structure go on and the answer says `degraded`. Asking writes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from memory_service.domain.common.quoted_text import one_line
from memory_service.domain.common.vocabulary import TASKS, Mode
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.phrases import READ_CHARACTERS
from memory_service.domain.description.task_inference import InferredFacts
from memory_service.errors import nothing_named
from memory_service.recall import rank_fusion
from memory_service.recall.encoder import LoadedEncoder, load_encoder
from memory_service.recall.recognition import recognised
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.recall.structure import Kind, kind_of, shared_facts
from memory_service.recall.words import shared_terms
from memory_service.schemas.similar import DEFAULT_LIMIT, SimilarRequest
from memory_service.services.competitions.signals import ReadText, closeness_to, read_text, text_signals
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.store.queries import outcomes
from memory_service.store.tables.knowledge import Competition, Pattern, Solution

_FACTS = (
    "task", "metric", "metric_family", "n_train", "n_classes", "image_size", "split", "modality", "size",
)  # fmt: skip

Row = Mapping[str, Any]
Scores = NDArray[np.float32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Hit:
    """One neighbour. `score` is the probability that it shares task and at least two techniques of winners
    with the question, never higher than that of the hit before it; 1 for the competition itself.

    `lessons` come from `services.competitions.similar`.
    `signals` are what each opinion thought of it, None where it had none: embedding = cosine, words = share
    of the best full-text score, structure = share of the known facts that agree.
    """

    slug: str
    title: str
    task: str | None
    score: float
    signals: Mapping[str, float | None]
    why: str
    lessons: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"lessons": list(self.lessons)}


@dataclass(frozen=True, slots=True)
class Signals:
    """What was compared with every stored competition, as arrays over `snapshot.competitions`.

    meaning    cosine (C,), None without an encoder; kind: the facts that were compared
    tasks      probability of each task, empty where no task is known
    own        place of the competition that was named or described; left_out: those that the mode hides
    year       of the competition asked about, NaN where not known
    shared     probability (C,) that it shares task and at least two techniques of winners with the question
    """

    snapshot: RecallSnapshot
    meaning: Scores | None
    kind: Kind
    tasks: Mapping[str, float]
    own: int | None
    left_out: Flags | None
    year: float = np.nan
    shared: Floats | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The neighbours, best first. `described` is the stored competition that the text describes, if one
    stands out.

    `facts` is what is known of the question: with mode "open" the task of a described competition overrules
    what was read, and its other facts fill in what the text does not say.
    """

    hits: tuple[Hit, ...]
    facts: InferredFacts | None = None
    described: str | None = None
    signals: Signals | None = None


def recall(
    source: ReadTransaction | RecallSnapshot,
    *,
    read: ReadText | None = None,
    competition: str | None = None,
    task: str | None = None,
    facts: Row | None = None,
    limit: int = 5,
    mode: Mode = "open",
    as_of: int | None = None,
) -> Found:
    """The neighbours of a known competition, else of a text, else of bare facts.

    `facts` (task, metric, n_train or size, n_classes, split, ...) and `task` overrule what the text says.
    Over a bare `RecallSnapshot` there is no full text. as_of: a year; competitions after it, or of no known
    year, are left out. mode "family" leaves out the competition asked about
    or described, and its near-duplicates; "blind" everything. NotFound for an unknown competition.
    """
    transaction = source if isinstance(source, ReadTransaction) else None
    snapshot = recall_snapshot(source) if isinstance(source, ReadTransaction) else source
    place = _place(snapshot, competition) if competition is not None else None
    reported = read.facts if read is not None else None
    if mode == "blind" or not snapshot.competitions:
        return Found((), reported)
    signals, terms = text_signals(transaction, snapshot, place, read)
    meaning, words = signals.get("embedding"), signals.get("words")
    described = None
    if place is None and read is not None:
        asked = replace(read.facts, **_known_metric({**(facts or {}), **({"task": task} if task else {})}))
        tasks = {task: 1.0} if task else read.task_probability
        described = recognised(
            snapshot, read.text, asked, signals, snapshot.structure.task_probability(tasks) if tasks else None
        )
    ratio = rank_fusion.WORD_RATIO_LEFT_OUT if mode == "family" else rank_fusion.WORD_RATIO_FIRST
    stands_out = place if place is not None else rank_fusion.outstanding(meaning, words, ratio)
    first = stands_out if described is None else described
    if described is not None and mode == "open" and reported is not None:
        reported = _completed(reported, snapshot.competitions[described])
        kind, probability = _asked(snapshot, described, None, task, facts)
    else:
        kind, probability = _asked(snapshot, place, read, task, facts)
    signals["structure"] = snapshot.structure.scores(kind)
    of_task = snapshot.structure.task_probability(probability) if probability else None
    fused, shared = rank_fusion.fuse(signals, of_task), rank_fusion.shared_probability(signals, of_task)
    itself = place if place is not None else described
    known = itself if mode == "open" else place
    if itself is not None:
        shared[itself] = 1.0
    left_out: Flags | None = None
    if mode == "family" and first is not None:
        closeness = meaning if place is not None else closeness_to(transaction, snapshot, first)
        left_out = snapshot.family_of(first, closeness)
    if as_of is not None:
        later = ~(snapshot.years <= as_of)
        left_out = later if left_out is None else left_out | later
    explain = _Explained(snapshot, signals, kind, terms, described)
    best = _best(fused, snapshot.years, limit, first, left_out)
    falling = np.minimum.accumulate(shared[best])
    hits = tuple(explain.hit(i, float(score)) for i, score in zip(best, falling, strict=True))
    slug = str(snapshot.competitions[described]["slug"]) if described is not None else None
    year = np.nan if known is None else float(snapshot.years[known])
    opinions = Signals(snapshot, meaning, kind, probability, itself, left_out, year, shared)
    return Found(hits, reported, slug, opinions)


def _place(snapshot: RecallSnapshot, slug: str) -> int:
    found = snapshot.position.get(slug)
    if found is None:
        raise nothing_named("competition", slug, snapshot.position)
    return found


def _asked(
    snapshot: RecallSnapshot, place: int | None, read: ReadText | None, task: str | None, facts: Row | None
) -> tuple[Kind, Mapping[str, float]]:
    """The kind asked for and the weight of each task, the square of its probability: likeness was fitted to
    texts whose task was told with less doubt. What the caller says overrules what a text says."""
    reported = {name: value for name, value in (facts or {}).items() if value is not None and name in _FACTS}
    if task is not None:
        reported["task"] = task
    known: Row = {}
    if place is not None:
        known = snapshot.competitions[place]
    elif read is not None:
        known = read.facts.as_dict()
        if "task" not in reported:
            squares = {name: p**2 for name, p in read.task_probability.items()}
            total = sum(squares.values()) or 1.0
            return kind_of({**known, **reported}), {name: p / total for name, p in squares.items()}
    merged = {**{name: known[name] for name in _FACTS if known.get(name) is not None}, **reported}
    certain = merged.get("task")
    return kind_of(merged), {str(certain): 1.0} if certain in TASKS else {}


def signals_of(
    transaction: ReadTransaction | None,
    snapshot: RecallSnapshot,
    read: ReadText,
    left_out: Flags | None = None,
) -> Signals:
    """What a text alone has in common with every competition; nothing is taken for the one it describes."""
    kind, tasks = _asked(snapshot, None, read, None, None)
    meaning = text_signals(transaction, snapshot, None, read)[0].get("embedding")
    return Signals(snapshot, meaning, kind, tasks, None, left_out)


def _known_metric(asked: Row) -> dict[str, Any]:
    """What the caller gave, as fields of `InferredFacts`; a metric with its family."""
    known = {name: value for name, value in asked.items() if name in _COMPARED and value is not None}
    if asked.get("metric"):
        named = metric_named(str(asked["metric"]))
        metric, family = (named.name, named.family) if named else (None, None)
        known |= {"metric": metric, "metric_family": family, "metric_sure": True}
    return known


_COMPARED = ("n_train", "n_classes", "task")


def _completed(reported: InferredFacts, row: Row) -> InferredFacts:
    """What a text says, with the task and the missing facts of the stored competition it describes."""
    names = (
        *(("metric", "metric_family", "metric_direction") if reported.metric is None else ()),
        *("n_train", "n_test", "n_classes", "image_size", "split"),
    )
    known = {
        name: row[name] for name in names if getattr(reported, name) is None and row.get(name) is not None
    }
    evidence = (f"the text describes {row['slug']}", *reported.evidence)
    if row.get("task"):
        known |= {"task": row["task"], "confidence": 1.0, "outside": None}
    return replace(reported, evidence=evidence, **known)


def _best(fused: Floats, years: Floats, limit: int, first: int | None, left_out: Flags | None) -> list[int]:
    """Places of the `limit` best, best first, of equal ones the latest first; `first` before all others."""
    scores = fused.copy()
    if first is not None:
        scores[first] = np.inf
    if left_out is not None:
        scores[left_out] = -np.inf
    floor = np.partition(scores, -limit)[-limit] if 0 < limit < len(scores) else -np.inf
    among = np.flatnonzero((scores >= floor) & (scores > -np.inf))
    order = np.lexsort((-np.nan_to_num(years[among]), -scores[among]))
    return [int(i) for i in among[order][:limit]]


@dataclass(frozen=True, slots=True)
class _Explained:
    """Makes hits with their reasons."""

    snapshot: RecallSnapshot
    signals: Mapping[str, Scores]
    kind: Kind
    terms: list[str]
    described: int | None

    def hit(self, i: int, score: float) -> Hit:
        row = self.snapshot.competitions[i]
        words = self.signals.get("words")
        best = float(words.max()) if words is not None else 0.0
        meaning = self.signals.get("embedding")
        cosine = round(float(meaning[i]), 4) if meaning is not None else None
        share = round(float(words[i]) / best, 4) if words is not None and best > 0 else None
        alike = round(float(self.signals["structure"][i]), 4)
        signals = {"embedding": cosine, "words": share, "structure": alike}
        slug, title = str(row["slug"]), str(row.get("title") or row["slug"])
        return Hit(slug, title, row.get("task"), round(score, 4), signals, why=self._why(i, cosine))

    def _why(self, i: int, cosine: float | None) -> str:
        parts = ["the text describes this competition"] if self.described == i else []
        common = shared_facts(self.kind, self.snapshot.structure.kinds[i])
        if common:
            parts.append("same " + _listed(common))
        shared = shared_terms(self.terms, self.snapshot.plain_text(i)) if self.terms else ()
        if shared:
            parts.append("shares " + ", ".join(f"'{term}'" for term in shared))
        if cosine is not None and cosine >= 0.5:
            parts.append(f"reads alike ({cosine:.2f})")
        return "; ".join(parts) or "the nearest of what is stored, with little in common"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


@dataclass(frozen=True, slots=True)
class SimilarAnswer:
    """Neighbours, best first, with what was understood of the question.

    `described` is the stored competition that the text itself describes; `reason` says why there are no
    items or why the answer is `degraded`.
    """

    items: tuple[Hit, ...]
    inferred: InferredFacts | None
    described: str | None
    degraded: bool
    mode: Mode
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The wire form of `/similar`."""
        task, inferred = (self.inferred.task, self.inferred.as_dict()) if self.inferred else (None, None)
        found = {"items": [hit.as_dict() for hit in self.items], "inferred_task": task, "inferred": inferred}
        return found | {name: getattr(self, name) for name in ("described", "degraded", "mode", "reason")}


def similar(
    database: Database, question: SimilarRequest, encoder: LoadedEncoder | None = None
) -> SimilarAnswer:
    """The answer of `/similar`; `encoder` is the process's own unless given. NotFound for an unknown
    competition."""
    loaded, mode = encoder or load_encoder(), question.mode or "open"
    read = read_text(question.text, loaded.encoder) if question.text is not None else None
    with database.read() as transaction:
        limit, task = question.limit or DEFAULT_LIMIT, question.task
        found = recall(
            transaction, read=read, competition=question.competition, task=task, limit=limit, mode=mode
        )
        nothing = question.task is None and _nothing_alike(found)
        hits = () if nothing else with_lessons(transaction, found.hits)
    degraded = loaded.encoder is None
    reason = f"Of the text the first {READ_CHARACTERS} characters were read." if _too_long(question) else None
    reason = loaded.reason if degraded else reason
    if mode == "blind":
        reason = "mode=blind: no competition memory is used"
    facts = found.facts
    if nothing and facts is not None:
        facts = replace(facts, task=None, confidence=0.0, runner_up=None, modality=None)
        reason = NOTHING_ALIKE if mode != "blind" else reason
    return SimilarAnswer(hits, facts, found.described, degraded, mode, reason)


LEAST_SCORE = 0.28
"""Texts that tell no task ("hello", "thanks") share at most 0.26 with anything, "quora" 0.30."""

SOME_TASK = 0.15
"""Texts of no task at all are given any at 0.13 at most, "photos of dogs" at 0.22."""

NOTHING_ALIKE = (
    "nothing alike is stored, and the text does not tell a task: say what goes in and what comes out"
)


def _too_long(question: SimilarRequest) -> bool:
    return len(question.text or "") > READ_CHARACTERS


def _nothing_alike(found: Found) -> bool:
    """Whether the text tells no task and nothing stored is much like it."""
    best = max((hit.score for hit in found.hits), default=0.0)
    return found.facts is not None and found.facts.confidence < SOME_TASK and best < LEAST_SCORE


MOST_LESSONS = 3


def with_lessons(transaction: ReadTransaction, hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits, each with its lessons."""
    lessons = lessons_of(transaction, [hit.slug for hit in hits])
    return tuple(replace(hit, lessons=lessons.get(hit.slug, ())) for hit in hits)


def lessons_of(transaction: ReadTransaction, slugs: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Slug -> sentences: one of each kind first, in the order of `_KINDS`; of a kind the best rank first.

    What failed begins with "Failed:" and what trips people with "Pitfall:", for neither is advice. A pattern
    that runs followed and fared worse with, or one of a competition of which that holds, is left out. At one
    revision those of a competition are read once.
    """
    known = _known(transaction)
    missing = [slug for slug in slugs if slug not in known]
    if missing:
        known.update(_read(transaction, missing))
    return {slug: known[slug] for slug in slugs}


def _known(transaction: ReadTransaction) -> dict[str, tuple[str, ...]]:
    """Lessons by competition, of the latest revision that was asked for."""
    return transaction.caches.latest(_known, recall_snapshot(transaction).revision, dict)


def _read(transaction: ReadTransaction, slugs: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, list[str]]] = {slug: {kind: [] for kind in _KINDS} for slug in slugs}
    best = select(Solution.competition, Solution.what_mattered, Solution.what_failed)
    best = best.where(Solution.competition.in_(slugs)).order_by(Solution.rank, Solution.id)
    for slug, mattered, failed in transaction.session.execute(best):
        found[slug]["mattered"] += map(one_line, mattered)
        found[slug]["failed"] += [f"Failed: {one_line(text)}" for text in failed]
    pitfalls = select(Competition.slug, Competition.pitfalls).where(Competition.slug.in_(slugs))
    for slug, pitfall in transaction.session.execute(pitfalls):
        found[slug]["pitfalls"] += [f"Pitfall: {one_line(pitfall)}"] if pitfall else []
    columns = (Pattern.id, Pattern.competition, Pattern.statement, Pattern.origin, Pattern.corrected)
    patterns = select(*columns).where(Pattern.competition.in_(slugs)).order_by(Pattern.id)
    rows = transaction.session.execute(patterns).all()
    worse = _ranked_down(transaction, [f"pattern:{row.id}" for row in rows], slugs)
    for name, slug, statement, origin, corrected in rows:
        if slug is not None and not {f"pattern:{name}", f"competition:{slug}"} & worse:
            found[slug]["written here" if origin == "user" or corrected else "shipped"].append(
                one_line(statement)
            )
    return {slug: _first(list(kinds.values())) for slug, kinds in found.items()}


_KINDS = ("written here", "mattered", "failed", "pitfalls", "shipped")


def _ranked_down(transaction: ReadTransaction, patterns: Sequence[str], slugs: Sequence[str]) -> set[str]:
    """Of these memories those that plans rank down, too (`domain.runs.pattern_effect`)."""
    subjects = [*patterns, *(f"competition:{slug}" for slug in slugs)]
    tallies = outcomes.tallies_of(transaction.session, subjects)
    return {subject for subject, tally in tallies.items() if tally.demoted}


def _first(kinds: Sequence[Sequence[str]]) -> tuple[str, ...]:
    turns = chain.from_iterable(zip_longest(*kinds))
    return tuple(dict.fromkeys(sentence for sentence in turns if sentence))[:MOST_LESSONS]
