"""Everything a plan may rest on, as one frozen snapshot: cards, models, profiles, claims, strategies,
patterns.

Only what changed is read again: adding a competition prices nothing anew, and a finished run leaves models,
profiles and everything but the cards as they are.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import chain
from time import monotonic, thread_time
from typing import Any, NamedTuple

from cachetools import LRUCache

from memory_service import resources
from memory_service.domain.cost.profile import Profile
from memory_service.domain.hardware.gpu_spec import normal_gpu_name
from memory_service.domain.learning.observation import Observation
from memory_service.domain.learning.observation_selection import ObservationSelection
from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.model_catalogue import (
    CatalogueModel,
    model_index,
    normal_model_name,
    resolve_model,
    taken_for,
)
from memory_service.domain.planning.model_names import built_name
from memory_service.domain.planning.policy import Policy, policy_of
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.prediction.trust import KEY, heard, is_key
from memory_service.domain.quality.conditioning import Surprise, taught
from memory_service.domain.quality.quality_model import NO_FIGURES, QualityModel
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import InvalidInput, MemoryServiceError, nothing_named
from memory_service.linear_algebra import on_one_thread
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.devices.calibrations import reference_profiles
from memory_service.services.devices.devices import calibrations_of, device_of
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.cards import MOST_NAMES, Cards, cards_of
from memory_service.services.knowledge.cost_cache import PricedCatalogue
from memory_service.services.knowledge.evidence import evidence_rows
from memory_service.services.knowledge.learned_corrections import (
    Observed,
    observation_selection,
    observed,
    predicted_alike,
)
from memory_service.services.knowledge.outcomes import MOST_RUNS, heard_runs, surprises
from memory_service.services.knowledge.profile_library import ProfileLibrary
from memory_service.services.knowledge.profiling import (
    may_be_built,
    require_tracing,
    unlisted_row_in_child_process,
)
from memory_service.services.knowledge.solution_memory import SolutionMemory
from memory_service.services.tables.usable_rows import readable_rows, readable_sheets, usable
from memory_service.store.queries import calibrations as device_store
from memory_service.store.queries import history, outcomes
from memory_service.store.queries.rows import (
    TRACED_FOR_A_RUN,
    all_rows,
    damaged_rows,
    fingerprints,
    traced_since,
    written_here,
)

Row = Mapping[str, Any]

_log = logging.getLogger(__name__)

WRITABLE = ("patterns", "solutions")
"""Whose rows count otherwise where a person wrote them."""

CATALOGUE = ("models", "profiles")
LeftOut = Mapping[str, tuple[str, ...]]
"""Table -> "table key: why" of each row that cannot be used."""

MOST_BEHIND_SECONDS = 2.0

LONG_SECONDS = 0.05
"""Of the processor: a snapshot that takes more is made aside for whoever changed nothing."""

RESTS = 4
"""So many times as long as it was made it is not made anew for whoever changed nothing."""

_MOST_AT_ONCE = 64
"""Changes of devices that are written at the same time."""

MOST_VIEWS = 64
"""Of the last askers that reported themselves; all others share one. They share all but the cards, and
remember together as many answers as eight of those."""

_OF_DEVICES = "devices", "calibrations"

_MOST_VIEWS_ASIDE = 32

LIGHT_TABLES = ("strategies", "patterns", "solutions", "claims", "competitions")


@dataclass(frozen=True)
class Knowledge:
    """One revision of what is known.

    revision   of the database
    priced     models and profiles: options and cost tables, filled as questions come
    cards      GPU models and registered devices, with what was measured and observed
    observations   what runs showed, oldest first
    competitions   slug -> facts, without the long description
    written_here   ids of patterns and solutions that a person wrote or corrected
    solution_memory  winning solutions by competition
    quality        what models are expected to reach, by public results
    ended_runs     the latest ended runs of competitions
    remembered     what plans were told of questions of bare facts, while nothing remembered changes
    tallies        memory ("pattern:<id>", "competition:<slug>", "technique:<name>") -> what runs say of it
    view           the key for whose questions these are (`_Read.view`); None = all that was told
    """

    revision: int
    priced: PricedCatalogue
    cards: Cards
    strategies: tuple[Row, ...]
    patterns: tuple[Row, ...]
    claims: tuple[Row, ...]
    competitions: Mapping[str, Row]
    model_names: Mapping[str, str] = field(default_factory=dict)
    observations: tuple[Observation, ...] = ()
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    written_here: frozenset[str] = frozenset()
    solution_memory: SolutionMemory = field(default_factory=lambda: SolutionMemory({}, {}))
    quality: QualityModel = NO_FIGURES
    ended_runs: Sequence[Any] = ()
    remembered: dict[Hashable, Any] = field(default_factory=dict)
    view: str | None = None

    @property
    def state(self) -> Hashable:
        """Tells apart what is cached of it: another revision, or an asker for whom other reports count."""
        return self.revision, self.view

    @property
    def gpus(self) -> Mapping[str, TargetDevice]:
        """Every card by the key it is asked for: a device hides the GPU model of its name."""
        return self.cards.all

    @property
    def models(self) -> Mapping[str, CatalogueModel]:
        return self.priced.models

    @property
    def profiles(self) -> Mapping[tuple[str, int, str], Profile]:
        return self.priced.library.profiles

    def gpu(self, name: str) -> TargetDevice:
        """The device, else the GPU model, that a name means; InvalidInput with the nearest names
        otherwise."""
        return self.cards.named(name)

    def words_on_names(self, gpus: Iterable[str], model: str | None) -> list[str]:
        """How names of cards and of a model were taken that leave something open."""
        words = [self.cards.words_on(name) for name in gpus]
        if model and model not in self.models and normal_model_name(model) not in self.model_names:
            stored = self.priced.caches.stored
            words.append(stored(taken_for, model, lambda: taken_for(model, self.models), MOST_NAMES))
        return [each for each in words if each]

    def listed_model(self, name: str) -> CatalogueModel:
        """The catalogue row a name means; InvalidInput with the nearest names otherwise."""
        if slug := self.model_names.get(normal_model_name(name)):
            return self.models[slug]
        make = partial(resolve_model, name, self.models)
        return self.priced.caches.stored(resolve_model, name, make, MOST_NAMES)

    def model(self, name: str) -> CatalogueModel:
        """The catalogue row a name means, or one made for a model that can be built by its name (seconds).

        InvalidInput with the nearest names otherwise. A row made here serves who pinned it and nobody else.
        """
        try:
            return self.listed_model(name)
        except InvalidInput as unknown:
            name = built_name(name)
            require_tracing(name, unknown)
            if not may_be_built(name):
                raise
            row = unlisted_row_in_child_process(name, self.models)
        return self.priced.unlisted.setdefault(row.name, row)

    def quality_without(self, competition: str | None) -> QualityModel:
        """`quality` after the runs here, but for those of one competition."""
        left_out = competition if any(one.competition == competition for one in self._surprises) else None
        if left_out not in self._taught:
            self._taught[left_out] = taught(self.quality, self._surprises, left_out)
        return self._taught[left_out]

    @cached_property
    def _taught(self) -> dict[str | None, QualityModel]:
        return {}

    @cached_property
    def _surprises(self) -> tuple[Surprise, ...]:
        return surprises(self.models, self.quality, self.ended_runs)

    @cached_property
    def rules(self) -> Mapping[str, tuple[Row, ...]]:
        """Rule id -> its rows of the strategy tables."""
        out: dict[str, list[Row]] = {}
        for row in self.strategies:
            out.setdefault(row["rule"], []).append(row)
        return {rule: tuple(rows) for rule, rows in out.items()}

    @cached_property
    def strategy(self) -> Mapping[str, Row]:
        """Row id -> row of the strategy tables."""
        return {row["id"]: row for row in self.strategies}

    @cached_property
    def policy(self) -> Policy:
        """The numbers of the strategy tables that plans are made with."""
        return policy_of(self.strategies)

    @cached_property
    def located_claims(self) -> tuple[tuple[Row, str | None, str | None], ...]:
        """Every claim with the GPU model and the catalogue model it speaks of; None where it names none we
        know."""
        return tuple(
            (row, self._slug(row.get("gpu")), self.model_names.get(normal_model_name(row.get("model") or "")))
            for row in self.claims
        )

    @cached_property
    def observed(self) -> Mapping[tuple[str, str], tuple[Observation, ...]]:
        """(GPU model, architecture) -> what runs showed of it, oldest first."""
        out: dict[tuple[str, str], list[Observation]] = {}
        for one in self.observations:
            out.setdefault((one.gpu, one.model), []).append(one)
        return {case: tuple(found) for case, found in out.items()}

    def _slug(self, name: str | None) -> str | None:
        return self.cards.models.get(normal_gpu_name(name)) if name else None

    def competition(self, slug: str) -> Row:
        """The facts of a known competition; NotFound with the nearest slugs otherwise."""
        row = self.competitions.get(slug)
        if row is None:
            raise nothing_named("competition", slug, self.competitions)
        return row

    def table(self, case: PlanningProblem, cards: tuple[TargetDevice, ...], precision: str) -> CostTable:
        return self.priced.table(case, cards, precision)

    def trees(self, case: PlanningProblem) -> CostTable:
        return self.priced.trees(case)

    def evidence(self, case: PlanningProblem, model: str, input_size: int) -> tuple[Row, ...]:
        """Strategy rows that decided something for the task, and the claims about the model on these
        cards."""
        return evidence_rows(self.strategy, self.rules, self.located_claims, case, model, input_size)


class _Locks:
    """One of the table of views, and one of each view that is made."""

    def __init__(self) -> None:
        self.table, self._of = threading.Lock(), dict[Hashable, threading.Lock]()

    def of(self, view: Hashable) -> threading.Lock:
        with self.table:
            return self._of.setdefault(view, threading.Lock())


class _Taught(NamedTuple):
    """Reports that a view hears, and what they say beside predictions on the cards of its base."""

    told: tuple[tuple[Observation, ...], tuple[Observation, ...]]
    base: ObservationSelection
    selection: ObservationSelection


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of a database, the fingerprints it was read at, and the rows that could not be used."""

    prints: Mapping[str, Hashable]
    rows: Mapping[str, Sequence[Row]]
    calibrated: Cards
    observations: Observed
    selection: ObservationSelection
    knowledge: Knowledge
    left_out: LeftOut
    catalogue: Mapping[str, Sequence[Any]]
    # Of an asker; the keys that told of anything, and of these those that told of a device.
    cards_for: Callable[[str], Cards]
    reporters: frozenset[str] = frozenset()
    # Of the snapshot before, to go on with where what they follow from is the same.
    bases_before: Mapping[str, tuple[Cards, ObservationSelection]] = field(default_factory=dict)
    taught_before: Mapping[str, _Taught] = field(default_factory=dict)
    views: LRUCache[str, Knowledge] = field(default_factory=lambda: LRUCache(MOST_VIEWS))
    bases: dict[str, tuple[Cards, ObservationSelection]] = field(default_factory=dict)
    taught: LRUCache[str, _Taught] = field(default_factory=lambda: LRUCache(MOST_VIEWS))
    posted: frozenset[str] = frozenset()
    locks: _Locks = field(default_factory=_Locks)

    def views_of_late(self) -> list[str]:
        """Some that were asked for."""
        with self.locks.table:
            return list(self.views)[-_MOST_VIEWS_ASIDE:]

    def view(self, asker: str | None) -> str | None:
        """What the views of askers that see the same go by; "": what everybody hears, None: all that was
        told."""
        if asker is None:
            return None if self.reporters else ""
        return asker if asker in self.reporters else ""

    def seen_by(self, asker: str | None) -> Knowledge:
        """What a key's questions rest on (`domain.prediction.trust.heard`). Who has a view waits for nobody
        whose view is being made."""
        view = self.view(asker)
        if view is None or not self.reporters:
            return self.knowledge
        if (known := self._known(view)) is None:
            with self.locks.of(view):
                known = self._known(view) or self._made_for(view)
                with self.locks.table:
                    self.views[view] = known
        return known

    def _known(self, view: str) -> Knowledge | None:
        with self.locks.table:
            return self.views.get(view)

    def _made_for(self, view: str) -> Knowledge:
        told = heard(self.observations.all, self.observations.confirmed, view)
        cards, base = self._base(view if view in self.posted else "")
        known = self.taught_before.get(view)
        if known is None or known.base is not base or known.told != told:
            known = _Taught(told, base, base.renewed(*told))
        with self.locks.table:
            self.taught[view] = known
        taught = cards.taught(known.selection)
        taught.caches.share = 8 / MOST_VIEWS if view else 1.0
        ended = heard_runs(self.knowledge.ended_runs, view)
        return replace(self.knowledge, cards=taught, observations=told[0], ended_runs=ended, view=view)

    def _base(self, view: str) -> tuple[Cards, ObservationSelection]:
        """The cards before runs teach, and what runs say beside them: for all who told of no
        device the same."""
        if not self.posted:
            return self.calibrated, self.selection
        with self.locks.of(("base", view)):
            if view not in self.bases:
                cards, (_, known) = self.cards_for(view), self.bases_before.get(view, (None, None))
                selection = predicted_alike(known, cards, self.observations.all)
                self.bases[view] = cards, selection or observation_selection(cards, (), self.knowledge.priced)
            return self.bases[view]


def _stored_prints(transaction: ReadTransaction) -> dict[str, Hashable]:
    """Of all but what runs taught."""
    prints: dict[str, Hashable] = {**fingerprints(transaction.session, *LIGHT_TABLES, *CATALOGUE, "gpus")}
    for name in _OF_DEVICES:
        prints[name] = history.latest_ids(transaction.session, name, _MOST_AT_ONCE)
    return prints


def _traced_since(
    transaction: ReadTransaction, before: Mapping[str, Any], now: Mapping[str, Any]
) -> list[dict[str, Any]] | None:
    """The profiles traced for runs between two fingerprints; None where the catalogue's changed, too."""
    (number, _, latest), (more, *_) = before.get("profiles", (0, 0, "None")), now["profiles"]
    if latest == "None":
        return None
    found = traced_since(transaction.session, dt.datetime.fromisoformat(latest))
    return found if found is not None and len(found) == more - number else None


def _take(priced: PricedCatalogue, traced: Iterable[Row]) -> tuple[str, ...]:
    """Those that cannot be used, as `usable` names them."""
    profiles, left_out = usable("profiles", traced)
    for profile in profiles:
        priced.library.add_trace(profile)
    return left_out


def _nothing() -> _Read:
    """What was read before anything was."""
    cards, priced = Cards({}), PricedCatalogue({}, ProfileLibrary(()))
    known = Knowledge(-1, priced, cards, (), (), (), {})
    selection = observation_selection(cards, (), priced)
    return _Read({}, {}, cards, Observed(), selection, known, {}, {}, lambda _: cards)


def _renewed(transaction: ReadTransaction, revision: int, before: _Read) -> _Read:
    """The snapshot at a revision; unchanged parts of the one `before` are reused."""
    on_one_thread()
    prints = {**_stored_prints(transaction), "tallies": outcomes.fingerprint(transaction.session)}
    same = {name for name, value in prints.items() if before.prints.get(name) == value}
    left_out = dict(before.left_out)
    if "profiles" not in same and (traced := _traced_since(transaction, before.prints, prints)) is not None:
        left_out["profiles"] += _take(before.knowledge.priced, traced)
        same.add("profiles")
    known, catalogue = before.knowledge, dict(before.catalogue)
    rows = dict(before.rows)
    for name in set(LIGHT_TABLES) - same:
        rows[name], left_out[name] = readable_rows(transaction, name)
    priced = known.priced
    if not same.issuperset(CATALOGUE):
        traces: list[Row] = []
        for name in set(CATALOGUE) - same:  # most of the time is that of the profiles, which nobody edits
            stored = all_rows(transaction.session, name)
            traces += [row for row in stored if row["source"] == TRACED_FOR_A_RUN]
            catalogue[name], left_out[name] = usable(
                name, [row for row in stored if row["source"] != TRACED_FOR_A_RUN]
            )
        models = {model.name: model for model in catalogue["models"]}
        if "profiles" in same:
            priced = known.priced.with_models(models)
        else:
            priced = PricedCatalogue(models, ProfileLibrary(catalogue["profiles"]))
            left_out["profiles"] += _take(priced, traces)
    calibrated, cards_for, posted = before.calibrated, before.cards_for, before.posted
    if not same.issuperset(("gpus", "devices", "calibrations")):
        sheets, left_out["gpus"] = readable_sheets(transaction)
        devices, ended = device_store.devices(transaction.session), device_store.ended(transaction.session)
        left_out["devices"] = tuple(damaged_rows((*devices, *ended)))
        silent = [row.name for row in devices if not row.fingerprint]
        by = history.creators(transaction.session, "devices")
        known_devices = [device_of(row, by.get(row.name, "")) for row in devices if row.fingerprint]
        measured = calibrations_of(transaction, known_devices, ended)
        of = sheets, known_devices, measured, reference_profiles(), silent
        calibrated, cards_for = cards_of(*of), partial(cards_of, *of)
        tellers = {*(d.told_by for d in known_devices), *(c.told_by for c in measured)}
        posted = frozenset(filter(is_key, tellers))
    observations = observed(transaction, calibrated, before.observations)
    selection: ObservationSelection | None = before.selection
    if "profiles" not in same or not priced.library.profiles.keys() >= known.priced.library.profiles.keys():
        selection = None  # a model that was traced here is another one now
    selection = predicted_alike(selection, calibrated, observations.all)
    if selection is None:
        selection = observation_selection(calibrated, observations.all, priced)
    elif observations is not before.observations:
        selection = selection.renewed(observations.all)
    cards = known.cards
    if selection is not before.selection or calibrated is not before.calibrated:
        cards = calibrated.taught(selection) if observations.rows else replace(calibrated)
    tallies = known.tallies if "tallies" in same else outcomes.tallies(transaction.session)
    names = known.model_names if priced is known.priced else model_index(priced.models)
    here = known.written_here
    if not same.issuperset(WRITABLE):
        here = frozenset().union(*(written_here(transaction.session, name) for name in WRITABLE))
    kept = _kept(known, same)
    knowledge = assemble(revision, priced, names, cards, rows, observations.all, tallies, **kept)
    ended_runs = outcomes.with_metric(transaction.session, MOST_RUNS)
    knowledge = replace(knowledge, written_here=here, ended_runs=ended_runs)
    _log_left_out(left_out, before.left_out)
    scored = {row.told_by for row in ended_runs if is_key(row.told_by)}
    told = frozenset({o.reporter for o in observations.all if is_key(o.reporter)} | posted | scored)
    read = prints, rows, calibrated, observations, selection, knowledge, left_out, catalogue
    reused = before if priced is known.priced else _nothing()
    with reused.locks.table:
        of_before = {**reused.bases}, {**reused.taught}
    return _Read(*read, cards_for, told, *of_before, posted=posted)


def _kept(before: Knowledge, same: set[str]) -> dict[str, Any]:
    """Parts of the snapshot before for `assemble`, where nothing that they are made of changed."""
    kept: dict[str, Any] = {"solution_memory": before.solution_memory}
    if "competitions" in same:
        kept["competitions"] = before.competitions
    if same.issuperset((*LIGHT_TABLES, "models", "tallies")):
        kept["remembered"] = before.remembered
    return kept


def _log_left_out(now: LeftOut, before: LeftOut) -> None:
    known = {one for some in before.values() for one in some}
    for one in (each for some in now.values() for each in some if each not in known):
        _log.error("row cannot be used and is left out: %s", one)


class _Latest:
    """The latest snapshot of a database; one thread makes it anew.

    Others answer from the one before meanwhile, where runs ended or other keys told of devices, if it was the
    latest shortly before. Where making it takes long, a thread of its own does it, and rests in between:
    whatever others tell all the time, nobody waits for it."""

    def __init__(self) -> None:
        self._lock, self._aside = threading.Lock(), threading.Lock()
        self._begun = self._current = self._took = 0.0
        self._long = False
        self._read: _Read | None = None
        self._prints: tuple[int, Mapping[str, Hashable]] = -1, {}
        self._wrote: dict[str | None, float] = {}

    def at(self, revision: int) -> Knowledge | None:
        read = self._read
        known = read is not None and read.knowledge.revision == revision
        return read.seen_by(ASKER.get()) if known and read is not None else None

    def view(self) -> str | None:
        """What the asker's view goes by, as of the latest snapshot."""
        return "" if self._read is None else self._read.view(ASKER.get())

    def left_out(self) -> tuple[str, ...]:
        read = self._read
        return () if read is None else tuple(one for some in read.left_out.values() for one in some)

    @property
    def at_hand(self) -> Knowledge | None:
        return None if self._read is None else self._read.seen_by(ASKER.get())

    def _note_writer(self) -> None:
        self._wrote[ASKER.get()] = monotonic()

    def get(self, database: Database) -> Knowledge:
        database.on_write = self._note_writer
        revision = database.knowledge_revision()
        known, before = self.at(revision), self._read
        if known is not None:
            self._current = monotonic()
            return known
        if before is None or self._is_needed(database, revision):
            with self._lock:  # another thread may have made it meanwhile
                read = self._read
                if read is None or self._is_needed(database, database.knowledge_revision(), waited=True):
                    read = self._make(database)
            return read.seen_by(ASKER.get())
        if self._long and ASKER.get() is not None and self._aside.acquire(blocking=False):
            threading.Thread(target=self._keep_up, args=(database,), daemon=True).start()
        return before.seen_by(ASKER.get())

    def _is_needed(self, database: Database, revision: int, *, waited: bool = False) -> bool:
        """Whether the asker needs the snapshot at this revision; waited: it holds the lock."""
        before = self._read
        if before is None or before.knowledge.revision == revision:
            return before is None
        keyed, behind = ASKER.get() is not None, monotonic() - self._current
        long, rests = keyed and self._long, keyed and behind < RESTS * self._took
        most_behind = max(MOST_BEHIND_SECONDS, 3 * (1 + RESTS) * self._took) if long else MOST_BEHIND_SECONDS
        made = self._lock.locked() and not waited
        late = behind >= most_behind or not (long or rests or made)
        late = late or (keyed and self._wrote.get(ASKER.get(), 0.0) > self._begun)
        return late or not self._may_be_behind(database, revision, before)

    def _may_be_behind(self, database: Database, revision: int, before: _Read) -> bool:
        """Whether nothing was written since but by runs and, of devices, by other keys: whoever registered
        one or corrected a row finds it in the next answer."""
        with database.read() as transaction:
            if self._prints[0] != revision:
                self._prints = revision, _stored_prints(transaction)
            now = self._prints[1]
            other = {name for name, value in now.items() if before.prints.get(name) != value}
            if "profiles" in other and _traced_since(transaction, before.prints, now) is None:
                return False
            asker = ASKER.get()
            if asker is None:  # anybody on the server's own machine may have written
                return other <= {"profiles"}
            others = (
                isinstance(ids := before.prints[name], tuple)
                and not history.wrote_since(transaction.session, name, ids, asker.removeprefix(KEY))
                for name in other & {*_OF_DEVICES}
            )
            return other <= {"profiles", *_OF_DEVICES} and all(others)

    def _keep_up(self, database: Database) -> None:
        """Makes the snapshot anew, with the views of who asked, until nothing changed meanwhile."""
        try:
            while not database.closed.is_set() and self.at(database.knowledge_revision()) is None:
                with self._lock:
                    self._make(database)
                database.closed.wait(RESTS * self._took)
        except MemoryServiceError as error:
            _log.warning("the snapshot was not made anew aside, whoever asks next makes it: %s", error)
        finally:
            if database.closed.is_set():
                database.close()  # what was opened while it closed
            self._aside.release()

    def _make(self, database: Database) -> _Read:
        revision = database.knowledge_revision()
        begun, used = monotonic(), thread_time()
        with database.read() as transaction:
            read = _renewed(transaction, revision, self._read or _nothing())
        late = () if self._read is None else self._read.views_of_late()
        seen = [read.knowledge, *map(read.seen_by, late)]
        read.knowledge.priced.forget_all_but(chain(*(each.gpus.values() for each in seen)))
        if self._read is not None:  # the first one is of everything
            self._long = thread_time() - used >= LONG_SECONDS
            self._took = monotonic() - begun
        self._read, self._current, self._begun = read, begun, begun
        return read

    def read_traces(self, database: Database) -> None:
        with database.read() as transaction:
            read = self._read
            traced = read and _traced_since(transaction, read.prints, _stored_prints(transaction))
        if read is not None and traced:
            _take(read.knowledge.priced, traced)


def knowledge_of(database: Database) -> Knowledge:
    """The snapshot at the database's current revision: one cheap read when nothing changed."""
    return database.caches.of(_Latest).get(database)


def knowledge_at_hand(database: Database) -> Knowledge:
    """The snapshot of whatever revision was read last, for what hardly ever changes: sheets and profiles."""
    return database.caches.of(_Latest).at_hand or knowledge_of(database)


def knowledge_with_traces(database: Database) -> Knowledge:
    """The snapshot with what was traced since for runs that began in other processes."""
    known = knowledge_of(database)
    database.caches.of(_Latest).read_traces(database)
    return known


def asker_view(database: Database) -> str | None:
    """What tells apart answers to askers for whom other reports count; asks no database."""
    return database.caches.of(_Latest).view()


def rows_left_out(database: Database) -> tuple[str, ...]:
    """ "table key: why" of each row that the latest snapshot does without; asks no database."""
    return database.caches.of(_Latest).left_out()


def assemble(
    revision: int,
    priced: PricedCatalogue,
    model_names: Mapping[str, str],
    cards: Cards,
    rows: Mapping[str, Sequence[Row]],
    observations: tuple[Observation, ...] = (),
    tallies: Mapping[str, Tally] | None = None,
    solution_memory: SolutionMemory | None = None,
    competitions: Mapping[str, Row] | None = None,
    remembered: dict[Hashable, Any] | None = None,
) -> Knowledge:
    """A snapshot of what was read, with the quality that ships; the last two are made of the rows where they
    are not given. solution_memory: the one before."""
    competitions = competitions or {
        row["slug"]: {key: value for key, value in row.items() if key != "description"}
        for row in rows["competitions"]
    }
    return Knowledge(
        revision=revision, priced=priced, cards=cards, strategies=tuple(rows["strategies"]),
        patterns=tuple(rows["patterns"]), claims=tuple(rows["claims"]), competitions=competitions,
        model_names=model_names, observations=observations, tallies=tallies or {},
        solution_memory=SolutionMemory.of(rows["solutions"], competitions, solution_memory),
        quality=shipped_quality(), remembered={} if remembered is None else remembered,
    )  # fmt: skip


@cache
def shipped_quality() -> QualityModel:
    """The shipped model, read once. Raises FileNotFoundError where the installation lacks it."""
    return QualityModel.from_dict(json.loads(resources.path("seeds", "quality.json").read_text()))
