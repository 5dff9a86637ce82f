"""Pages of what is known, table by table: models, patterns, solutions, techniques,
sources; a list, and one row."""

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memory_service import resources
from memory_service.domain.recipe.vocabulary import STAGE_OF, TECHNIQUES
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.errors import nothing_named
from memory_service.services.conflicts.conflicts import kin
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.asker import ASKER
from memory_service.services.knowledge.outcomes import with_tallies
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.tables.table_rows import every_row, get_row, history_of, list_rows
from memory_service.store.queries import outcomes

_MOST_PROFILES, _MOST_PLACES = 200, 100
_USUAL = ("t4", "p100", "v100", "l4", "a10g", "rtx3090", "rtx4090", "a100", "a100-80gb", "h100")


def models(database: Database, _: Mapping[str, str]) -> list[dict[str, Any]]:
    """By task, those with most models first; best first within one: a score says nothing across tasks."""
    with database.read() as transaction:
        rows = every_row(transaction, "models")
    many = Counter(task for row in rows for task in row["tasks"][:1])
    place = {task: n for n, (task, _) in enumerate(many.most_common())}
    best = sorted(rows, key=lambda row: (-(row["quality_score"] or 0.0), row["name"]))
    return sorted(best, key=lambda row: place[row["tasks"][0]] if row["tasks"] else len(place))


def model_page(database: Database, name: str) -> dict[str, Any]:
    """`{"model", "profiles", "claims", "history", "cards", "usual_cards"}`; NotFound with the nearest names.

    profiles   what a sample costs by input size and precision, ascending
    claims     rows of claims about its architecture, whatever the weights and the spelling
    """
    knowledge = knowledge_of(database)
    if name not in knowledge.models:
        raise nothing_named("model", name, knowledge.models)
    with database.read() as transaction:
        row = get_row(transaction, "models", name)
        profiles = list_rows(transaction, "sizing", {"model": name}, "input_size", _MOST_PROFILES).items
        history = history_of(transaction, "models", name)
    own, located = kin(name), knowledge.located_claims
    claims = [dict(claim) for claim, _, model in located if model is not None and kin(model) == own]
    cards = [*knowledge.cards.devices, *(c for c in _USUAL if c in knowledge.cards.sheets)]
    page = {"model": row, "profiles": profiles, "claims": claims, "usual_cards": cards}
    return page | {"cards": sorted(knowledge.gpus), "history": history}


def patterns(database: Database, _: Mapping[str, str]) -> list[dict[str, Any]]:
    """Each with `outcomes`, its tally; those that runs tried first."""
    with database.read() as transaction:
        rows = with_tallies(transaction, every_row(transaction, "patterns"))
    return sorted(rows, key=lambda row: (-row["outcomes"]["followed"], -row["outcomes"]["served"], row["id"]))


def pattern_page(database: Database, key: str) -> dict[str, Any]:
    """`{"pattern", "outcomes", "places", "beside", "history"}`; NotFound with the nearest ids.

    outcomes   the tally of all places, in words and figures
    places     the same by competition or kind of task, the most followed first
    beside     other patterns of the same competition, or of the same task and size
    """
    knowledge = knowledge_of(database)
    ids = [row["id"] for row in knowledge.patterns]
    if key not in ids:
        raise nothing_named("pattern", key, ids)
    with database.read() as transaction:
        row = get_row(transaction, "patterns", key)
        (reported,) = with_tallies(transaction, [row])
        history = history_of(transaction, "patterns", key)
        places = outcomes.places_of(transaction.session, f"pattern:{key}", _MOST_PLACES)
    others = [other for other in knowledge.patterns if other["id"] != key and _same_place(other, row)]
    beside = [{name: other[name] for name in ("id", "kind", "statement")} for other in others]
    page = {"pattern": row, "outcomes": reported["outcomes"], "beside": beside, "history": history}
    return page | {"places": [_place(*each) for each in places.items()]}


def _place(name: str, tally: Tally) -> dict[str, Any]:
    what, _, key = name.partition(":")
    return {"place": key, "competition": key if what == "competition" else None, **tally.as_dict(ASKER.get())}


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if other["competition"]:
        return bool(one["competition"] == other["competition"])
    return not one["competition"] and (one["task"], one["size"]) == (other["task"], other["size"])


def solutions(database: Database, _: Mapping[str, str]) -> list[dict[str, Any]]:
    """Each with the `title`, `task` and `modality` of its competition, best rank first."""
    known = knowledge_of(database).competitions
    with database.read() as transaction:
        rows = every_row(transaction, "solutions")
    told = [
        {**row, **{name: known.get(row["competition"], {}).get(name) for name in _OF_COMPETITION}}
        for row in rows
    ]
    return sorted(told, key=lambda row: (row["rank"], (row["title"] or row["id"]).lower()))


_OF_COMPETITION = ("title", "task", "modality")


def solution_page(database: Database, key: str) -> dict[str, Any]:
    """`{"solution", "techniques", "history"}`; techniques: [[name, what is done]]. NotFound."""
    with database.read() as transaction:
        row = get_row(transaction, "solutions", key)
        history = history_of(transaction, "solutions", key)
    techniques = [[name, TECHNIQUES[name]] for name in row["techniques"] if name in TECHNIQUES]
    return {"solution": row, "techniques": techniques, "history": history}


LEAST_COMPETITIONS = 5
"""A kind of input with fewer competitions has no column."""


def modalities(database: Database, *_: Any) -> dict[str, Any]:
    """`{"modalities": [(name, competitions)]}`, most first."""
    memory = knowledge_of(database).solution_memory
    known = Counter(str(memory.competitions[slug].get("modality")) for slug in memory.by_competition)
    shown = [(name, n) for name, n in known.most_common() if n >= LEAST_COMPETITIONS and name != "None"]
    return {"modalities": shown}


def won(database: Database, *_: Any) -> dict[str, Any]:
    """`{"won": [(modality, competitions, [(technique, share)])]}`: the four most used of each."""
    memory, shown = knowledge_of(database).solution_memory, modalities(database)["modalities"]
    rates = [(name, n, memory.base(name, None)["techniques"]) for name, n in shown]
    return {
        "won": [(name, n, Counter({t: r for t, r in base.items() if t in TECHNIQUES}).most_common(4))
                for name, n, base in rates]
    }  # fmt: skip


TECHNIQUE_COLUMNS: Mapping[str, type[Any]] = {
    "name": str, "stage": str, "n": int, "shares": object, "followed": int, "what": str
}  # fmt: skip


def techniques(database: Database, _: Mapping[str, str]) -> list[dict[str, Any]]:
    """The most used first: `{"name", "what", "stage", "n", "shares", "followed", "chance_better"}`.

    n         solutions that used it; shares: modality -> share of its solutions that say what they did, each
              competition equal (the base rate that a recipe's lift is over)
    followed  runs here that used it; chance_better: that one is better than one without (None: not compared)
    """
    knowledge = knowledge_of(database)
    memory, shown = knowledge.solution_memory, modalities(database)["modalities"]
    base = {name: memory.base(name, None)["techniques"] for name, _ in shown}
    used = Counter(t for some in memory.by_competition.values() for one in some for t in one.techniques)
    return [
        {
            "name": name,
            "what": TECHNIQUES[name],
            "stage": STAGE_OF.get(name),
            "n": count,
            "shares": {modality: round(rates.get(name, 0.0), 4) for modality, rates in base.items()},
            **_runs_here(knowledge, name),
        }
        for name, count in used.most_common()
        if name in TECHNIQUES
    ]


def _runs_here(knowledge: Knowledge, name: str) -> dict[str, Any]:
    tally = knowledge.tallies.get(f"technique:{name}", Tally())
    chance = tally.chance_better(ASKER.get())
    return {"followed": tally.followed, "chance_better": chance.as_dict() if chance else None}


def source_page(_: Database, name: str) -> dict[str, Any]:
    """`{"name", "lines"}` of a shipped note; NotFound with the nearest names."""
    notes = {note.name: note for note in resources.path("seeds", "sources").iterdir()}
    if name not in notes:
        raise nothing_named("source", name, notes)
    return {"name": name, "lines": notes[name].read_text("utf-8").splitlines()}


def linked(source: str, claim: str = "") -> Iterator[tuple[str, str]]:
    """Each part of the text with its address, or "". claim: the id of the claim whose source it is."""
    addresses, lines = _table("addresses.csv"), _table("claim_lines.csv")
    end = 0
    for found in re.finditer(rf"(?<!\w)(?:{'|'.join(addresses)})", source):
        yield source[end : found.start()], ""
        end, name = found.end(), found[0]
        to = next(re.sub(shape, to, name) for shape, to in addresses.items() if re.fullmatch(shape, name))
        yield name, f"{to}#L{lines[claim]}" if claim in lines and to.endswith(".txt") else to
    yield source[end:], ""


@lru_cache(maxsize=2)
def _table(name: str) -> dict[str, str]:
    text = resources.path("seeds", "sources", name).read_text("utf-8")
    return {row[0]: row[1] for row in csv.reader(text.splitlines()[1:])}
