"""One search over everything that has a page: models, GPUs, competitions, solutions, strategies, what worked,
runs."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from memory_service.domain.hardware.gpu_spec import normal_gpu_name
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.sizing import spelled
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

MOST_OF_A_KIND = 8
LONGEST = 300
LATEST_RUNS = 200

_WORD = re.compile(r"[a-z0-9]+")
_RUN_ID = re.compile(r"[0-9a-f]{4,8}(?:-[0-9a-f-]*)?")

Entry = dict[str, Any]


def find_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"q", "groups", "found"}`: groups `[{"kind", "entries": [{"name", "href", "about"}], "more"}]` of at
    most `MOST_OF_A_KIND` entries (`more` are left out), `found` of them by name; a name that begins with the
    words goes first, then the shorter one. A model and GPUs in one text lead to their comparison, a long
    text to a plan.
    """
    knowledge, q = knowledge_of(database), requested.get("q", "").strip()[:LONGEST]
    words, alike = _words(q), "/browse/competitions?" + urlencode({"q": q})
    if not words:
        return {"q": q, "groups": [], "found": 0}
    solutions = (one for some in knowledge.solution_memory.by_competition.values() for one in some)
    kinds: tuple[tuple[str, str, Iterable[tuple[str, str, str]]], ...] = (
        ("Models", "models", ((m.name, m.name, m.family) for m in knowledge.models.values())),
        ("GPUs", "devices", ((name, name, "") for name in knowledge.gpus)),
        ("Competitions", "competitions", _competitions(knowledge, words)),
        ("Winning solutions", "solutions", ((s.id, s.id, ", ".join(s.families)) for s in solutions)),
        ("Strategy tables", "strategies", _statements(knowledge.strategies)),
        ("What worked", "patterns", _statements(knowledge.patterns)),
    )
    groups = [
        _group("Go to", _questions(knowledge, q, words)),
        *(_named(kind, words, names, f"/browse/{path}/") for kind, path, names in kinds),
        _group("Runs", _runs(database, q, words)),
        _group("By meaning", [_entry("Competitions like this", alike)]),
    ]
    found = sum(len(group["entries"]) for group in groups[:-1])
    return {"q": q, "groups": [group for group in groups if group["entries"]], "found": found}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _entry(name: str, href: str, about: str = "") -> Entry:
    return {"name": name, "href": href, "about": about}


def _group(kind: str, entries: list[Entry]) -> dict[str, Any]:
    return {"kind": kind, "entries": entries, "more": 0}


def _named(kind: str, words: list[str], names: Iterable[tuple[str, str, str]], path: str) -> dict[str, Any]:
    """Entries of (key, name, what it is) that hold every word, at the beginning of one of theirs."""
    found = []
    for key, name, about in names:
        text = f"{key} {name}".lower()
        if not all(word in text for word in words):  # most: cheaper than cutting all of them into words
            continue
        own = _words(text)
        if all(any(one.startswith(word) for one in own) for word in words):
            found.append((own[: len(words)] != words, len(name), _entry(name, path + quote(key), about)))
    found.sort(key=lambda entry: (*entry[:2], entry[2]["name"]))
    group = _group(kind, [entry for *_, entry in found[:MOST_OF_A_KIND]])
    return group | {"more": len(found) - len(group["entries"])}


def _competitions(knowledge: Knowledge, words: list[str]) -> Iterable[tuple[str, str, str]]:
    """Those that may hold the words: of ten thousand, what they are is said of these alone."""
    for slug, row in knowledge.competitions.items():
        text = f"{slug} {row['title']}".lower()
        if all(word in text for word in words):
            yield slug, str(row["title"]), ", ".join(str(p) for p in (row["task"], row["year"]) if p)


def _statements(rows: Iterable[Any]) -> Iterable[tuple[str, str, str]]:
    return ((str(row["id"]), str(row["id"]), str(row["statement"])) for row in rows)


def _questions(knowledge: Knowledge, q: str, words: list[str]) -> list[Entry]:
    """Pages that answer the text as a whole."""
    cards = knowledge.cards
    gpus = [w for w in q.lower().split() if normal_gpu_name(w) in cards.models or w in cards.devices]
    rest = " ".join(word for word in words if word not in gpus and word not in _FILLING)
    entries = []
    models = knowledge.models.values() if gpus and rest else ()
    if any(all(word in spelled(row) for word in rest.split()) for row in models):
        query = urlencode({"q": rest, "gpu": ",".join(gpus)})
        entries.append(_entry(f"Batch & speed of {rest} on {', '.join(gpus)}", f"/browse/sizing?{query}"))
    if len(words) > 3:
        entries.append(_entry("A plan for this text", f"/?{urlencode({'description': q})}"))
    return entries


_FILLING = frozenset({"a", "an", "and", "at", "batch", "for", "in", "of", "on", "or", "speed", "the", "vs"})


def _runs(database: Database, q: str, words: list[str]) -> list[Entry]:
    """Runs whose id begins with the text; of the latest those whose model and GPU have its words."""
    entries = []
    with database.read() as transaction:
        named: set[str] = set()
        if _RUN_ID.fullmatch(q.lower()):
            named.update(runs.ids_from(transaction.session, q.lower(), MOST_OF_A_KIND))
        found: list[Run | runs.Recent] = list(runs.several(transaction.session, named))
        found += (run for run in runs.recent(transaction.session, LATEST_RUNS) if run.id not in named)
        for run in found:
            name = f"{run.model} on {run.device or run.gpu}"
            own = _words(name)
            if run.id in named or all(any(one.startswith(word) for one in own) for word in words):
                about = f"{run.started_at:%Y-%m-%d}, {run.id[:8]}"
                entries.append(_entry(name, f"/browse/runs/{run.id}", about))
    return entries[:MOST_OF_A_KIND]
