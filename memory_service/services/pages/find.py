"""One search over everything that has a page, by names and texts of rows; mistyped words are forgiven."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from operator import itemgetter
from typing import Any
from urllib.parse import quote, urlencode

from memory_service.domain.hardware.gpu_spec import normal_gpu_name
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.vocabulary import TECHNIQUES
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, asker_view, knowledge_of
from memory_service.services.pages.sizing import spelled
from memory_service.settings import Settings
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

MOST_OF_A_KIND = 8
LONGEST = 300
LATEST_RUNS = 200

_WORD = re.compile(r"[a-z0-9]+")
_RUN_ID = re.compile(r"[0-9a-f]{4,8}(?:-[0-9a-f-]*)?")

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Item:
    """What can be found: by the words of its name, or by those of its text.

    about   what the page says of it beside its name
    """

    kind: str
    name: str
    href: str
    about: str
    words: tuple[str, ...]
    text: str


def find_page(database: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"q", "read_as", "groups", "found"}`: groups `[{"kind", "entries": [{"name", "href", "about"}],
    "more"}]` of at most `MOST_OF_A_KIND` entries (`more` are left out), `found` of them; a name that begins
    with the words goes first, then the shorter one, then what has the words in its text. A model and GPUs in
    one text lead to their comparison, a long text, or one that begins with "plan", to a plan; none to pages.

    read_as   the words that were searched for, where one of them is no beginning of any name; else None
    """
    knowledge, q = knowledge_of(database), requested.get("q", "").strip()[:LONGEST]
    given, alike = _words(q), "/browse/competitions?" + urlencode({"q": q})
    if not given:
        actions = [] if q else [_group("Go to", [_entry(name, path, about) for name, path, about in PAGES])]
        return {"q": q, "read_as": None, "groups": actions, "found": 0}
    key = (knowledge.revision, asker_view(database))
    items, spelling = database.caches.stored(_index, key, lambda: _index(knowledge), 2)
    words = [_spelled(word, spelling) for word in given]
    by_kind: dict[str, list[_Item]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item)
    groups = [
        _group("Go to", _questions(knowledge, q, words)),
        *(_named(kind, words, some) for kind, some in by_kind.items()),
        _group("Runs", _runs(database, q, words)),
        _group("By meaning", [_entry("Competitions like this", alike)]),
    ]
    found = sum(len(group["entries"]) for group in groups[:-1])
    read_as = " ".join(words) if words != given else None
    shown = [group for group in groups if group["entries"]]
    return {"q": q, "read_as": read_as, "groups": shown, "found": found}


def _index(knowledge: Knowledge) -> tuple[list[_Item], Mapping[str, Sequence[str]]]:
    """Everything but runs, and the words of its names by their first letter."""
    solutions = [one for some in knowledge.solution_memory.by_competition.values() for one in some]
    competitions = [
        (slug, row["title"], ", ".join(str(part) for part in (row["task"], row["year"]) if part), "")
        for slug, row in knowledge.competitions.items()
    ]
    techniques = [(name, name, what, "") for name, what in TECHNIQUES.items()]
    kinds: tuple[tuple[str, str, Iterable[tuple[str, Any, str, str]]], ...] = (
        ("Models", "models/{}", ((m.name, m.name, m.family, "") for m in knowledge.models.values())),
        ("GPUs", "devices/{}", ((name, name, "", "") for name in knowledge.gpus)),
        ("Competitions", "competitions/{}", competitions),
        ("Techniques", "solutions?technique={}", techniques),
        (
            "Winning solutions",
            "solutions/{}",
            ((s.id, s.id, ", ".join(s.families), _told(s)) for s in solutions),
        ),
        ("Strategy tables", "strategies/{}", _statements(knowledge.strategies)),
        ("What worked", "patterns/{}", _statements(knowledge.patterns)),
    )
    items = [_item("Pages", name, path, about) for name, path, about in PAGES]
    items += [
        _item(kind, str(name), "/browse/" + path.format(quote(key)), about, text, key)
        for kind, path, rows in kinds
        for key, name, about, text in rows
    ]
    items += [
        _item("Settings", f"MEMORY_{name.upper()}", f"/browse/settings?name={name}", field.description or "")
        for name, field in Settings.model_fields.items()
    ]
    letters: dict[str, dict[str, None]] = {}
    for item in items:
        for word in item.words if item.kind != "Settings" else ():
            if len(word) >= LEAST_SPELLED:
                letters.setdefault(word[0], {})[word] = None
    return items, {letter: list(found) for letter, found in letters.items()}


LEAST_SPELLED = 4
"""Letters: shorter words are taken as they are."""

PAGES = (
    ("Plan", "/", "describe a competition, a GPU and a time limit: one plan that fits"),
    ("Runs", "/browse/runs", "what trains, what ended, minutes that were wasted"),
    ("Competitions", "/browse/competitions", "past competitions, alike ones, their map"),
    ("Models", "/browse/models", "what can be trained, quality, licences"),
    ("Techniques", "/browse/techniques", "what winners did, by modality"),
    ("What worked", "/browse/patterns", "patterns of winners and what runs here say of them"),
    ("Choose hardware", "/browse/choose", "which box to take: cost, minutes, quality of offers"),
    (
        "Batch & speed by GPU",
        "/browse/sizing",
        "largest batch size, samples per second and epochs of models on GPUs",
    ),
    ("Strategy tables", "/browse/strategies", "default batch sizes, reserve, monitoring: rules behind plans"),
    ("Accuracy", "/browse/accuracy", "how good predictions of memory and speed were"),
    ("Disagreements", "/browse/conflicts", "claims that contradict each other or what was measured"),
    ("Devices", "/browse/devices", "register and calibrate a GPU"),
    ("Settings", "/browse/settings", "port, database, keys, rate limits, quotas: every MEMORY_ variable"),
    ("HTTP description", "/docs", "API: routes, schemas, curl"),
    ("Import", "/browse/import/strategies", "bring an edited spreadsheet or CSV back, undo it as one"),
    ("Operate", "/browse/operate", "health, versions, migrations, encoder, queues, slow requests, metrics"),
    ("Make a key", "/browse/operate#keys", "keys, scopes, rotate, revoke: memory-service keys create NAME"),
    ("Back up", "/browse/operate#backups", "backup, restore, check: memory-service db backup FILE"),
    ("Change log", "/browse/operate#changes", "who changed what, audit, history, undo"),
    ("Export", "/browse/strategies", "memory-service export TABLE: csv, jsonl, parquet"),
    ("Watch a run", "/browse/runs", "memory-service watch train.log -- python train.py: report, monitor"),
)
"""Name, path, and what is done there in the words that people search with."""


def settings_page(_: Database, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "name"}`: every setting with its default and meaning, not what it is set to; `name`: the
    one that is looked for, first."""
    asked = requested.get("name")
    items = [
        {"name": f"MEMORY_{name.upper()}", "default": default, "about": field.description}
        for name, field in sorted(Settings.model_fields.items(), key=lambda each: each[0] != asked)
        for default in [None if field.default_factory or field.is_required() else field.default]
    ]
    return {"items": items, "name": asked}


def _item(kind: str, name: str, href: str, about: str, text: str = "", key: str = "") -> _Item:
    own = f"{key} {name}".lower()
    return _Item(kind, name, href, about, tuple(_words(own)), f"{own} {about} {text}".lower())


def _told(solution: Solution) -> str:
    return " ".join((*solution.techniques, *solution.what_mattered, *solution.what_failed))


def _spelled(word: str, spelling: Mapping[str, Sequence[str]]) -> str:
    """The word, or what it is mistyped for: "efficentnet", "casava"."""
    known = spelling.get(word[0], ())
    if (
        len(word) < LEAST_SPELLED
        or word.isdigit()
        or word in _FILLING
        or any(each.startswith(word) for each in known)
    ):
        return word
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.82)), word)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _entry(name: str, href: str, about: str = "") -> Entry:
    return {"name": name, "href": href, "about": about}


def _group(kind: str, entries: list[Entry]) -> dict[str, Any]:
    return {"kind": kind, "entries": entries, "more": 0}


def _named(kind: str, words: list[str], items: Iterable[_Item]) -> dict[str, Any]:
    """Entries of items that hold every word, at the beginning of one of theirs."""
    found = []
    for item in items:
        if not all(word in item.text for word in words):  # most: cheaper than looking at each of their words
            continue
        named = all(any(one.startswith(word) for one in item.words) for word in words)
        if named or all(re.search(rf"\b{word}", item.text) for word in words):
            begins = item.words[: len(words)] == tuple(words)
            entry = _entry(item.name, item.href, item.about)
            found.append((not named, not begins, len(item.name), item.name, entry))
    found.sort(key=itemgetter(0, 1, 2, 3))
    group = _group(kind, [entry for *_, entry in found[:MOST_OF_A_KIND]])
    return group | {"more": len(found) - len(group["entries"])}


def _statements(rows: Iterable[Any]) -> Iterable[tuple[str, str, str, str]]:
    for row in rows:
        yield str(row["id"]), str(row["id"]), str(row["statement"]), str(row.get("source") or "")


def _questions(knowledge: Knowledge, q: str, words: list[str]) -> list[Entry]:
    """Pages that answer the text as a whole."""
    cards, entries = knowledge.cards, []
    if _PLAN_ID.fullmatch(q.lower()):
        entries.append(_entry(f"Plan {q.lower()}", f"/browse/plans/{q.lower()}"))
    said = {word: _UNCOUNTED.sub("", word) for word in _NAME.findall(q.lower())}
    told = {w: gpu for w, gpu in said.items() if normal_gpu_name(gpu) in cards.models or gpu in cards.devices}
    gpus = list(dict.fromkeys(told.values()))
    named = (_SHORT.get(word, word) for word in words if word not in told)
    rest = [word for word in named if word not in _FILLING]
    models = list(knowledge.models.values()) if gpus and rest else []
    sizes = [word for word in rest if word.isdigit() and 32 <= int(word) <= 2048][-1:]
    alike = _matching(models, [word for word in rest if word not in sizes])
    sized = [row for row in alike if sizes and int(sizes[0]) in (*row.input_sizes, row.default_input_size)]
    if sized:
        rest = [word for word in rest if word not in sizes]
        family = {row.family for row in sized}
        if len(family) == 1 and family <= set(_words(" ".join(spelled(row) for row in sized))) - set(rest):
            rest = [*family, *rest]  # others that are called alike are not made for this size
    if rest and (sized or _matching(models, rest)):
        asked = {"q": " ".join(rest), "gpu": ",".join(gpus), **({"image_size": sizes[0]} if sized else {})}
        at = f" at {sizes[0]} px" if sized else ""
        name = f"Batch & speed of {asked['q']} on {', '.join(gpus)}{at}"
        entries.append(_entry(name, f"/browse/sizing?{urlencode(asked)}"))
    if words[0] == "plan" and len(words) > 1:
        entries.append(_entry(f"Plan: {q[5:]}", f"/?{urlencode({'description': q[5:]})}"))
    elif len(words) > 3:
        entries.append(_entry("A plan for this text", f"/?{urlencode({'description': q})}"))
    return entries


def _matching(models: Iterable[CatalogueModel], words: Sequence[str]) -> list[CatalogueModel]:
    return [row for row in models if words and all(word in spelled(row) for word in words)]


_PLAN_ID = re.compile(r"plan-[0-9a-f]{8,}")

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}(?<![.-])")
_UNCOUNTED = re.compile(r"^\d{1,2}x(?=[a-z])|(?<=\d)x\d{1,2}$")
_SHORT = {"effnet": "efficientnet", "efficientnets": "efficientnet"}
"""What people call families whose names neither begin so nor are mistyped so."""

_FILLING = frozenset({
    "a", "against", "an", "and", "at", "batch", "best", "biggest", "can", "compare", "do", "does", "fit",
    "fits", "for", "how", "i", "in", "is", "largest", "many", "of", "on", "or", "px", "samples", "size",
    "speed", "the", "use", "versus", "vs", "what", "which", "with",
})  # fmt: skip


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
