"""One search over everything that has a page, by names and texts of rows; mistyped words are forgiven."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from math import log
from operator import itemgetter
from typing import Any, get_args
from urllib.parse import quote, urlencode

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.cost.decoders.decoder import Method
from memory_service.domain.description.quantities import numbers_in
from memory_service.domain.hardware.gpu_spec import MOST_CARDS, normal_gpu_name
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.recipe.solution import Solution
from memory_service.domain.recipe.vocabulary import TECHNIQUES
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of
from memory_service.services.pages.competitions import MOST_COMPARED
from memory_service.services.pages.sizing import spelled
from memory_service.settings import Settings
from memory_service.store.queries import runs
from memory_service.store.tables.runs import Run

MOST_OF_A_KIND = 8
LONGEST = 300
LATEST_RUNS = 200

_WORDS = shipped_table(__package__, "find.toml")
_STOP = frozenset(_WORDS["stop"])
_FILLING = _STOP.union(_WORDS["filling"])
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
    """`{"q", "read_as", "partly", "groups", "found"}`: groups `[{"kind", "entries": [{"name", "href",
    "about"}], "more"}]` of at most `MOST_OF_A_KIND` entries (`more` are left out), `found` of them; a name
    that begins with the words goes first, then the shorter one, then what has the words in its text. A model
    and GPUs in one text lead to their comparison, a long text, or one that begins with "plan", to a plan;
    none to pages.

    read_as   the words that were searched for, where one of them is no beginning of any name; else None
    partly    whether nothing has all of them: what has most is shown
    """
    knowledge, q = knowledge_of(database), requested.get("q", "").strip()[:LONGEST]
    given, alike = _words(q), "/browse/competitions?" + urlencode({"q": q})
    if not given:
        actions = [] if q else [_group("Go to", [_entry(*page) for page in _WORDS["pages"]])]
        return {"q": q, "read_as": None, "partly": False, "groups": actions, "found": 0}
    items, spelling = database.caches.stored(_index, knowledge.state, lambda: _index(knowledge), 2)
    words = [_spelled(word, spelling) for word in given]
    told = [word for word in words if word not in _STOP] or words
    answers = _questions(knowledge, q, spelling, [item for item in items if item.kind == "Competitions"])
    held = [{word for word in told[:_MOST_WORDS] if _holds(item, word)} for item in items]
    own = _runs(database, q, told)
    whole = own or any(each["name"] != _PLAN for each in answers) or {*told} in held
    rows = Counter(word for some in held for word in some)
    worth = [sum(log(len(items) / rows[word]) for word in some) for some in held]
    by_kind: dict[str, list[_Item]] = {}
    least = _NEARLY * max(worth)
    for item, some, much in zip(items, held, worth, strict=True):
        if some and (some == {*told} if whole else much >= least):
            by_kind.setdefault(item.kind, []).append(item)
    groups = [
        _group("Go to", answers),
        *(_named(kind, told, some) for kind, some in by_kind.items()),
        _group("Runs", own),
        _group("By meaning", [_entry("Competitions like this", alike)]),
    ]
    found = sum(len(group["entries"]) for group in groups[:-1])
    read_as = " ".join(words) if words != given else None
    shown = [group for group in groups if group["entries"]]
    partly = bool(by_kind) and not whole
    return {"q": q, "read_as": read_as, "partly": partly, "groups": shown, "found": found}


def _index(knowledge: Knowledge) -> tuple[list[_Item], Mapping[str, Sequence[str]]]:
    """Everything but runs, and the words of its names by their first letter."""
    solutions = (one for some in knowledge.solution_memory.by_competition.values() for one in some)
    recipes = ((one.id, one.id, ", ".join(one.families), _told(one)) for one in solutions)
    competitions = [
        (slug, row["title"], ", ".join(str(part) for part in (row["task"], row["year"]) if part), "")
        for slug, row in knowledge.competitions.items()
    ]
    techniques = [(name, name, what, "") for name, what in TECHNIQUES.items()]
    kinds: tuple[tuple[str, str, Iterable[tuple[str, Any, str, str]]], ...] = (
        ("Models", "models/{}", ((m.name, m.name, m.family, "") for m in knowledge.models.values())),
        ("GPUs", "devices/{}", ((name, name, card.name, "") for name, card in knowledge.gpus.items())),
        ("Competitions", "competitions/{}", competitions),
        ("Techniques", "solutions?technique={}", techniques),
        ("Winning solutions", "solutions/{}", recipes),
        ("Strategy tables", "strategies/{}", _statements(knowledge.strategies)),
        ("What worked", "patterns/{}", _statements(knowledge.patterns)),
    )
    items = [_item("Pages", name, path, about) for name, path, about in _WORDS["pages"]]
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
        for word in _words(item.text) if item.kind in _SAID else item.words:
            if item.kind != "Settings" and len(word) >= LEAST_SPELLED:
                letters.setdefault(word[0], {})[word] = None
    return items, {letter: list(found) for letter, found in letters.items()}


_SAID = ("Pages", "Techniques", "Strategy tables")
"""Kinds of whose texts mistyped words are corrected, too."""

LEAST_SPELLED = 4
"""Letters: shorter words are taken as they are."""


def settings_page(settings: Settings, requested: Mapping[str, str]) -> dict[str, Any]:
    """`{"items", "name"}`: every setting with its default and meaning, and whether it is set `here`, not to
    what; `name`: the one that is looked for, first."""
    asked = requested.get("name")
    items = [
        {"name": f"MEMORY_{name.upper()}", "default": default, "about": field.description}
        | {"here": "set" if name in settings.model_fields_set else None}
        for name, field in sorted(Settings.model_fields.items(), key=lambda each: each[0] != asked)
        for default in [None if field.default_factory or field.is_required() else field.default]
    ]
    return {"items": items, "name": asked}


def _item(kind: str, name: str, href: str, about: str, text: str = "", key: str = "") -> _Item:
    own = f"{key} {name}".lower()
    words = _words(f"{own} {about}" if kind == "GPUs" else own)
    said = f"{own} {about} {text}".lower().replace("isation", "ization")
    return _Item(kind, name, href, about, tuple(words), said)


def _told(solution: Solution) -> str:
    return " ".join((*solution.techniques, *solution.what_mattered, *solution.what_failed))


def _spelled(word: str, spelling: Mapping[str, Sequence[str]]) -> str:
    """The word, or what it is mistyped for: "efficentnet", "casava"."""
    word = _SHORT.get(word, word)
    known = spelling.get(word[0], ())
    known_so = word.isdigit() or word in _FILLING or any(each.startswith(word) for each in known)
    if len(word) < LEAST_SPELLED or known_so:
        return word
    return next(iter(get_close_matches(word, known, n=1, cutoff=0.82)), word)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("isation", "ization"))


def _entry(name: str, href: str, about: str = "") -> Entry:
    return {"name": name, "href": href, "about": about}


def _group(kind: str, entries: list[Entry]) -> dict[str, Any]:
    return {"kind": kind, "entries": entries, "more": 0}


def _named(kind: str, words: list[str], items: Iterable[_Item]) -> dict[str, Any]:
    """Entries of items; those go first whose names hold every word, then those that begin so."""
    found = []
    for item in items:
        named = all(any(one.startswith(word) for one in item.words) for word in words)
        begins = item.words[: len(words)] == tuple(words)
        entry = _entry(item.name, item.href, item.about)
        found.append((not named, not begins, len(item.name), item.name, entry))
    found.sort(key=itemgetter(0, 1, 2, 3))
    group = _group(kind, [entry for *_, entry in found[:MOST_OF_A_KIND]])
    return group | {"more": len(found) - len(group["entries"])}


def _holds(item: _Item, word: str) -> bool:
    if word not in item.text:  # most: cheaper than looking at each of their words
        return False
    return any(one.startswith(word) for one in item.words) or bool(re.search(rf"\b{word}", item.text))


def _statements(rows: Iterable[Any]) -> Iterable[tuple[str, str, str, str]]:
    for row in rows:
        yield str(row["id"]), str(row["id"]), str(row["statement"]), str(row.get("source") or "")


def _questions(
    knowledge: Knowledge, q: str, spelling: Mapping[str, Sequence[str]], competitions: Sequence[_Item]
) -> list[Entry]:
    """Pages that answer the text as a whole."""
    plain, words, entries = q.lower(), _words(q), []
    if _PLAN_ID.fullmatch(plain):
        entries.append(_entry(f"Plan {plain}", f"/browse/plans/{plain}"))
    gpus, rest = _gpus(knowledge, _NAME.findall(plain))
    rest, asking = [_spelled(word, spelling) for word in rest], _FILLING.union(*_WORDS["show"].values())
    if (gpus or {"batch", "memory"} & {*words}) and (
        model := _model_asked(list(knowledge.models.values()), rest)
    ):
        asked = {"q": model.pop("q")} | ({"gpu": ",".join(gpus)} if gpus else {}) | model
        most = max((n for n in numbers_in(q) if f"{n:.0f}" not in ",".join(gpus)), default=0.0)
        asked |= {"n_train": f"{most:.0f}"} if 2_048 < most <= 10**9 else {}
        asked |= next(({"show": show} for show, said in _WORDS["show"].items() if {*said} & {*words}), {})
        asked |= next(({"method": word} for word in words if word in get_args(Method)[1:]), {})
        told = {"image_size": " at {} px", "seq_len": " at {} tokens", "method": " by {}"}
        at = "".join(part.format(asked[name]) for name, part in told.items() if name in asked)
        at += f", {int(asked['n_train']):,} samples" if "n_train" in asked else ""
        what = "Minutes per epoch" if asked.get("show") == "epoch" else "Batch & speed"
        on = f" on {', '.join(gpus)}" * bool(gpus)
        name = f"{what} of {asked['q']}{on}{at}"
        entries.append(_entry(name, f"/browse/sizing?{urlencode(asked)}"))
    elif gpus and not {*rest} - asking and (len(gpus) > 1 or {*words} & asking):
        name = f"Batch & speed on {', '.join(gpus)}"
        entries.append(_entry(name, f"/browse/sizing?{urlencode({'gpu': ','.join(gpus)})}"))
    parts = [[word for word in _words(part) if word not in _STOP] for part in _BESIDE.split(plain)]
    best = [
        _named("", part, [one for one in competitions if all(_holds(one, word) for word in part)])
        for part in parts
        if part
    ]
    firsts = [each["entries"][0] for each in best if each["entries"]]
    if _COMPARED & set(words) and 2 <= len(firsts) == len(best) <= MOST_COMPARED:
        slugs = [one["href"].rpartition("/")[2] for one in firsts]
        name = "Compare " + " with ".join(one["name"] for one in firsts)
        entries.append(_entry(name, f"/browse/competitions/compare?{urlencode({'slug': ','.join(slugs)})}"))
    if words[0] == "plan" and len(words) > 1:
        entries.append(_entry(f"Plan: {q[5:]}", f"/?{urlencode({'description': q[5:]})}"))
    elif len(words) > 3:
        entries.append(_entry(_PLAN, f"/?{urlencode({'description': q})}"))
    return entries


def _gpus(knowledge: Knowledge, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cards that the words name as the field GPU reads them ("rtx 3090", "2 t4"), and the other words."""
    cards, at = knowledge.cards, 0
    found: list[str] = []
    rest: list[str] = []
    while at < len(words):
        for end in range(min(at + _LONGEST_GPU, len(words)), at, -1):
            name = " ".join(words[at:end])
            name = _UNCOUNTED.sub("", name)
            if slug := name if name in cards.devices else cards.models.get(normal_gpu_name(name)):
                found.append(slug)
                if rest and rest[-1].isdigit() and int(rest[-1]) <= MOST_CARDS:
                    rest.pop()  # how many
                at = end
                break
        else:
            rest.append(words[at])
            at += 1
    return list(dict.fromkeys(found)), [word for text in rest for word in _words(text)]


def _model_asked(models: Sequence[CatalogueModel], words: Sequence[str]) -> dict[str, str]:
    """`{"q", "image_size" or "seq_len"}` of the words that name models, amid others; empty for none."""
    words = [_SHORT.get(word, word.removesuffix("px")) for word in words]
    tokens = {token for row in models for token in spelled(row).split()}
    firsts = {first for row in models for first in (row.family, *_words(row.name)[:1])}
    kept: list[str] = []
    alike = list(models)
    for word in sorted(words, key=str.isalpha):  # "b4" and "deberta" say which, "small" does not
        begins = word in firsts or any(one.startswith(word) for one in firsts if len(word) > LEAST_SPELLED)
        named = begins if word.isalpha() else word in tokens and not word.isdigit()
        if named and word not in _FILLING.union(_WORDS["plain"]) and (some := _matching(alike, [word])):
            kept, alike = [*kept, word], some
    if not kept:
        return {}
    sizes = [word for word in words if word.isdigit() and 32 <= int(word) <= 2048][-1:]
    for before, word in pairwise(words):  # "convnext base", "resnet 50"
        if before in kept and word not in (*kept, *_FILLING) and (some := _matching(alike, [word])):
            kept, alike = [*kept, word], some
    sized, other = _sized(alike, sizes), _sized(models, sizes)  # a usual size, of whichever model
    said = any(word in sizes and unit.startswith(("token", "px", "pixel")) for word, unit in pairwise(words))
    given = sized or said or {row.input_kind for row in alike} & {row.input_kind for row in other}
    kept = [word for word in dict.fromkeys(words) if word in kept and not (given and word in sizes)]
    family = {row.family for row in sized}
    if len(family) == 1 and family <= set(_words(" ".join(spelled(row) for row in sized))) - set(kept):
        kept = [*family, *kept]  # others that are called alike are not made for this size
    kind = "seq_len" if all(row.input_kind == "seq_len" for row in sized or alike) else "image_size"
    return {"q": " ".join(kept)} | ({kind: sizes[0]} if given else {})


def _sized(models: Iterable[CatalogueModel], sizes: Sequence[str]) -> list[CatalogueModel]:
    return [row for row in models if sizes and int(sizes[0]) in (*row.input_sizes, row.default_input_size)]


def _matching(models: Iterable[CatalogueModel], words: Sequence[str]) -> list[CatalogueModel]:
    return [row for row in models if words and all(word in spelled(row) for word in words)]


_MOST_WORDS = 20
_NEARLY = 0.75
"""Of the worth of the row that has the rarest of the words, where none has all: others shown with it."""

_LONGEST_GPU = 4
_PLAN = "A plan for this text"
_COMPARED = {"compare", "against", "versus", "vs"}
_BESIDE = re.compile(r"\b(?:compare|against|versus|vs|with|and|to)\b|,")

_PLAN_ID = re.compile(r"plan-[0-9a-f]{8,}")

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,60}(?<![.-])")
_UNCOUNTED = re.compile(r"^\d{1,2}x(?=[a-z])|(?<=\d)x\d{1,2}$")
_SHORT = {"effnet": "efficientnet", "efficientnets": "efficientnet", "kfold": "fold"}
"""What people call things whose names neither begin so nor are mistyped so."""


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
