"""Runs: their begin, their end, and the page of one."""

import datetime as dt
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson
from sqlalchemy import null

from memory_service.domain.common.quoted_text import named, quoted
from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.monitoring.plausibility import earliest_moment
from memory_service.domain.prediction.trust import reporter_of
from memory_service.domain.runs.learned_figures import learned_figures
from memory_service.errors import Conflict, FieldError, MemoryServiceError
from memory_service.schemas.runs import RunExclusion, RunFinish, RunStart
from memory_service.schemas.validation_errors import checked
from memory_service.services.database.transactions import Database, ReadTransaction, WriteTransaction
from memory_service.services.knowledge.learned_corrections import observed_profile
from memory_service.services.knowledge.snapshot import Knowledge, asker_view, knowledge_of
from memory_service.services.planning.recommend import cached_plan, question_of
from memory_service.services.runs.expectations import expected_rounds, frozen_watch
from memory_service.services.runs.frozen_prediction import frozen_prediction
from memory_service.services.runs.observations import conclude, mark_excluded
from memory_service.services.runs.outcome_evidence import evidence_of, named_direction
from memory_service.services.runs.run_configuration import (
    RunCase,
    advised,
    begin_outcome,
    plan_brought,
    run_case,
    splits_by_time,
    with_plan,
)
from memory_service.services.runs.run_log import end_log
from memory_service.services.runs.scored_runs import compared
from memory_service.services.runs.summaries import begin_summary, note_teller, or_nothing, read_summary
from memory_service.services.runs.telemetry import RUNNING, known_run_key
from memory_service.services.runs.verdicts import next_minutes, watched_page
from memory_service.services.tables.audit import note
from memory_service.services.tables.mode_limit import LIMIT
from memory_service.services.tables.table_rows import keep_trace, on_the_wire
from memory_service.store.engine import is_readable
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

LONGEST_NAME = 200
"""Characters of a name of an imported run that its note says."""
LONGEST_KEPT = 4_000
"""Characters of a description that is kept with a run."""


def begin_run(
    database: Database, start: RunStart | Mapping[str, Any], *, who: str | None = None, since: bool = False
) -> tuple[dict[str, Any], bool]:
    """(`{"run_id", "status", "prediction", "notes"}`, whether it is new). What is predicted for it is frozen
    now. who: the name of the key that reported it; since: it tells what happened in the run, which may have
    ended.

    The same id with the same body again changes nothing; with another body it is a Conflict.
    """
    reported = checked(RunStart, start, "This cannot begin a run").explicit()
    joins, key = reported.pop("join", False), reported.pop("run_id", None)
    joins = joins or (key is None and "pid" not in (reported.get("host") or {}))
    digest = hashlib.blake2b(orjson.dumps(reported, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
    if key is not None:
        with database.read() as transaction:
            known = runs.find(transaction.session, key)
        if known is not None:
            return _same(known, digest), False
    key = key or str(uuid.uuid4())
    brought = plan_brought(reported)
    knowledge = knowledge_of(database)
    # What was asked for may be the short answer: the whole one says which memories it rests on.
    plan = cached_plan(database, reported["plan_id"]) if "plan_id" in reported else None
    plan = plan or brought
    asked = question_of(database, reported["plan_id"]) if "plan_id" in reported else None
    if asked is not None and asked.competition is not None:
        reported.setdefault("competition", asked.competition)
    case = run_case(knowledge, with_plan(knowledge, reported, plan))
    if joins and (joined := _joined(database, key, case, who, since=since)) is not None:
        return _begun(joined), False
    _keep_profile(database, knowledge, case)
    prediction = frozen_prediction(
        database, knowledge, case, expected_rounds(case, plan),
        on_card=plan is not None and plan.get("tree_device") == "cuda",
        by_time=splits_by_time(case.reported["task"], plan),
    )  # fmt: skip
    if prediction["case"] is not None:
        prediction["case"]["reporter"] = reporter_of(who, reported.get("host"))
    watch = frozen_watch(knowledge, case, prediction, plan) | {"reporter": reporter_of(who, None)}
    if asked is not None and len(asked.description or "") <= LONGEST_KEPT:
        watch["question"] = asked.canonical()  # for the plan's page, once its answer is forgotten
    advice = advised(knowledge, case, plan)
    try:
        with database.write_untracked() as transaction:
            meanwhile = _meant(transaction, key, case, who, since=since) if joins else None
            if meanwhile is None:
                values = _values(transaction, key, digest, case, prediction)
                told_by = (prediction["case"] or watch)["reporter"] or ""
                runs.add(transaction.session, values | {"watch": watch, "told_by": told_by})
                begin_summary(transaction, key)
                begin_outcome(transaction, key, case, told_by, advice)
                note(transaction, "runs", key, "create", "begun", who=who)
        if meanwhile is not None and (joined := _joined(database, key, case, who, since=since)) is not None:
            return _begun(joined), False
    except Conflict:
        with database.read() as transaction:  # somebody sent the same at the same time
            return _same(runs.existing(transaction.session, key), digest), False
    with database.read() as transaction:
        return _begun(runs.existing(transaction.session, key)), True


def _joined(database: Database, key: str, case: RunCase, who: str | None, *, since: bool) -> Run | None:
    """The run that the caller means (`_meant`), to which its process belongs from now on."""
    host = case.reported.get("host") or {}
    with database.read() as transaction:
        meant = _meant(transaction, key, case, who, since=since)
    if meant is None or "pid" not in host or _host(meant).get("run_id") == key:
        return meant
    with database.write_untracked() as writing:
        run = runs.find(writing.session, meant.id, to_change=True)
        if run is None or "pid" in _host(run):  # a process joined it meanwhile
            return run if run is not None and _host(run).get("run_id") == key else None
        given = {**run.given, "host": {**_host(run), **host, "run_id": key}}
        runs.change(writing.session, run.id, {"given": given, "updated_at": writing.now})
        note(writing, "runs", run.id, "update", f"joined by process {host['pid']}", who=who)
    return run


def _meant(
    transaction: ReadTransaction, key: str, case: RunCase, who: str | None, *, since: bool
) -> Run | None:
    """The run of this plan that the caller means, where exactly one has these settings (a plan may have
    several runs): to a process of the training, which calls it `key`, the one that its caller began and no
    process reports to; to the caller, the one that a process reports to. A run has one such process at most:
    its `host` is kept with the run, and the samples of one that was told the run's id are seen."""
    said, host = case.reported, case.reported.get("host") or {}
    if "plan_id" not in said:
        return None
    started = said.get("started_at") or dt.datetime.now(dt.UTC).isoformat()
    started_at = dt.datetime.fromisoformat(started).timestamp()
    reporter = reporter_of(who, None)
    latest = runs.of_plan(transaction.session, said["plan_id"], reporter)
    own = [run for run in latest if (run.watch or {}).get("reporter") == reporter]
    if again := [run for run in own if _host(run).get("run_id") == key]:
        return again[0]
    meant = [
        run
        for run in own
        if (since or run.finished_at is None)
        and ("pid" in _host(run)) != ("pid" in host)
        and earliest_moment(run.started_at.timestamp()) <= started_at
        and run.gpu == case.gpu.slug
        and all(getattr(run, name) == said.get(name) for name in ("batch_size", "folds"))
        and all(getattr(run, name) == getattr(case, name) for name in ("model", "input_size", "mode"))
        and ("pid" not in host or not _is_sampled(transaction, run))
    ]
    return meant[0] if len(meant) == 1 else None


def _is_sampled(transaction: ReadTransaction, run: Run) -> bool:
    return "gpu" in read_summary(transaction, run.id, run.started_at.timestamp()).counts


def _host(run: Run) -> Mapping[str, Any]:
    return (run.given or {}).get("host") or {}


def _keep_profile(database: Database, knowledge: Knowledge, case: RunCase) -> None:
    """What was traced for a run is kept: whatever process learns from the run must know what ran. Nobody
    else's answer rests on it (`ProfileLibrary.traces`), so that the revision stays."""
    of = case.observation()
    if of is None or case.profile is None or observed_profile(knowledge.priced, of) is not None:
        return
    with database.write_untracked() as transaction:
        keep_trace(transaction, case.profile)
    knowledge.priced.library.add_trace(case.profile)


def finish_run(
    database: Database, run_id: str, end: RunFinish | Mapping[str, Any], *, who: str | None = None
) -> dict[str, Any]:
    """The run's page after it ended. Repeated, or with more than before, it is the same end; what
    contradicts the end that is known is a Conflict."""
    reported = checked(RunFinish, end, "This cannot end a run").explicit()
    key = known_run_key(run_id)
    note_teller(database, key)
    end_log(database, key)
    with database.write_untracked() as transaction:
        run = runs.existing(transaction.session, key, to_change=True)
        finish = _merged(run, reported)
        concluded = run.summary is not None and run.finish == finish
        if run.finish != finish:
            said = dt.datetime.fromisoformat(finish["at"]) if "at" in finish else None
            ended = said or run.finished_at or transaction.now
            shown = ("status", "best_metric", "best_epoch", "submission")
            values = {name: finish.get(name) for name in shown}
            values |= {"finish": finish, "finished_at": ended, "updated_at": transaction.now}
            values["summary"] = null()  # of the end before: whoever tells this one again has it concluded
            runs.change(transaction.session, key, values)
            note(transaction, "runs", key, "update", f"ended: {finish['status']}", who=who)
    if not concluded:  # else it said nothing new; of later events their own conclusion is drawn
        or_nothing(key, lambda: conclude(database, key))
    return run_page(database, key)


def mark_run(
    database: Database,
    run_id: str,
    why: str,
    *,
    excluded: bool,
    who: str | None = None,
    confirms: bool = True,
) -> dict[str, Any]:
    """Exclude a run, or restore it; its page. Restoring one that counts confirms it: it teaches everybody,
    whoever told of it (Conflict unless it `confirms`). InvalidInput without a reason, NotFound."""
    key, reason = known_run_key(run_id), checked(RunExclusion, {"why": why}, "This needs a reason").why
    mark_excluded(database, key, reason, who, excluded=excluded, confirms=confirms)
    return run_page(database, key)


def run_page(database: Database, run_id: str) -> dict[str, Any]:
    """Facts, what was predicted, what happened, both beside each other, and every epoch. NotFound."""
    key = known_run_key(run_id)
    with database.read() as transaction:
        run = runs.existing(transaction.session, key)
        found = [dict(one) for one in runs.observations_of(transaction.session, key)]
        # What a plan served names competitions, which a caller with a limit of memory may not see.
        shown = LIMIT.get() == "open"
        evidence = evidence_of(transaction, key) if shown else {"advice": None, "evidence": None}
        watch = watched_page(transaction, run)
    row = {c.name: getattr(run, c.name) for c in Run.__table__.columns if c.name not in _APART}
    state = (run.id, run.updated_at, database.knowledge_revision(), asker_view(database))
    learned = database.caches.stored(_learned, state, lambda: _learned(database, run, found), 256)
    compare = compared(row, run.prediction, found)
    page = {**on_the_wire(row), "given": run.given, "finish": run.finish, "prediction": run.prediction}
    excluded = {name: run.exclusion[name] for name in ("who", "at", "why")} if run.exclusion else None
    notes = _notes(run)
    page |= {"notes": notes, "reasons": [each.as_dict() for each in notes]}
    page |= {"comparison": compare, "observations": found, "learned": learned}
    page |= {"exclusion": excluded, **watch, **evidence}
    return page | {"next_minutes": or_nothing(key, lambda: next_minutes(database, page))}


def _learned(database: Database, run: Run, found: Sequence[dict[str, Any]]) -> list[str]:
    """What the run changed, by what is predicted now, or why nothing; nothing of one that still runs."""
    if run.exclusion is not None:
        who, why = (str(run.exclusion.get(name, "?")) for name in ("who", "why"))
        return [f"{named(who)} excluded it: it counts nowhere. Reason: {quoted(why)}"]
    if not run.finish:
        return []
    now = None
    if found:
        knowledge = knowledge_of(database)
        facts = {"gpu": run.device or run.gpu, "model": run.model, "batch_size": run.batch_size}
        facts |= {name: getattr(run, name) for name in ("precision", "layout", "optimizer", "mode")}
        size = {run.input_kind: run.input_size} if run.input_size else {}
        with suppress(MemoryServiceError):  # its model or card was taken out since
            case = run_case(knowledge, run.given | facts | size)
            now = frozen_prediction(database, knowledge, case, expected_rounds(case, None))
        taught = {(one.run_id, one.part, one.batch_size) for one in knowledge.observations if one.doubt}
        found = [
            one | {"doubt": None} if (run.id, one.get("part", "step"), one["batch_size"]) in taught else one
            for one in found
        ]
    return learned_figures(
        run.prediction or {}, now, found, run.excluded, run.batch_size,
        others="reserve_minutes" in (run.given or {}),
    )  # fmt: skip


_OBJECTS = ("given", "finish", "prediction", "summary", "watch", "exclusion", "waste")
_APART = ("digest", "given", "finish", "prediction", "summary", "watch", "exclusion", "told_by")


def _same(run: Run, digest: str) -> dict[str, Any]:
    if run.digest != digest:
        message = "is taken by a run that began with another body; make a new id"
        raise Conflict(f"run_id {message}", [FieldError("run_id", message, run.id)])
    return _begun(run)


def _begun(run: Run) -> dict[str, Any]:
    return {"run_id": run.id, "status": run.status, "prediction": run.prediction, "notes": _notes(run)}


def _notes(run: Run) -> list[Sentence]:
    """What a run is watched without, in words."""
    watch = run.watch or {}
    expected, facts, metric = watch.get("expected", {}), watch.get("facts", {}), run.given.get("metric")
    summary: Mapping[str, Any] = run.summary or {}
    scored = any(one.get("metric") is not None for one in summary.get("epochs") or ())
    cut = [name for name in _OBJECTS if not is_readable(getattr(run, name))]
    notes = [sentence("damaged", parts=", ".join(cut))] if cut else []
    imported = (run.given.get("host") or {}).get("imported")
    if isinstance(imported, dict) and {"tracker", "run"} <= imported.keys():
        said = {name: named(str(imported[name])[:LONGEST_NAME]) for name in ("tracker", "run")}
        notes.append(sentence("imported", **said))
    best = (run.finish or {}).get("best_metric")
    known = facts.get("metric_direction") or named_direction(summary)
    if known is None and best is None and (metric or scored):
        what = f"the metric {quoted(metric)}" if metric else "the metric that its epochs report"
        notes.append(sentence("direction-unknown", metric=what))
    if run.plan_id is None or "planned" in expected:
        return notes
    return [*notes, sentence("plan-unknown", plan_id=run.plan_id)]


def _merged(run: Run, reported: Mapping[str, Any]) -> dict[str, Any]:
    """The end as it is known with what is said now."""
    known: dict[str, Any] = run.finish or {}
    if known.get("assumed"):  # by the service, after silence
        known = {}
    wrong = [name for name, value in reported.items() if name in known and known[name] != value]
    if wrong:
        before = ", ".join(f"{name} is {known[name]!r}" for name in wrong)
        errors = [FieldError(name, "contradicts the end that is known", reported[name]) for name in wrong]
        raise Conflict(f"Run {run.id} has ended already, and its {before}", errors)
    return known | dict(reported)


def _values(
    transaction: WriteTransaction, key: str, digest: str, case: RunCase, prediction: Mapping[str, Any]
) -> dict[str, Any]:
    reported = case.reported
    said = reported.get("started_at")
    started = dt.datetime.fromisoformat(said) if said is not None else transaction.now

    def predicted(name: str) -> float | None:
        figure = prediction.get(name)
        return None if figure is None else float(figure["value"])

    plain = ("task", "competition", "plan_id", "batch_size", "folds", "epochs", "n_train", "minutes")
    of_case = ("model", "family", "input_kind", "input_size", "precision", "layout", "optimizer", "mode")
    return {
        "id": key,
        **{name: reported.get(name) for name in plain},
        "gpu": case.gpu.slug,
        "device": case.gpu.device,
        **{name: getattr(case, name) for name in of_case},
        "status": RUNNING,
        "started_at": started,
        "created_at": transaction.now,
        "updated_at": transaction.now,
        "predicted_samples_per_second": predicted("samples_per_second"),
        "predicted_peak_gib": predicted("peak_memory_gib"),
        "predicted_epoch_seconds": predicted("epoch_seconds"),
        "predicted_minutes": predicted("total_minutes"),
        "digest": digest,
        "given": dict(reported),
        "prediction": dict(prediction),
    }
