"""What winners did: each technique's share by kind of input, and what runs here say."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from memory_service.domain.recipe.vocabulary import STAGE_OF, TECHNIQUES
from memory_service.domain.runs.pattern_effect import Tally
from memory_service.services.database.transactions import Database
from memory_service.services.knowledge.snapshot import Knowledge, knowledge_of

LEAST_COMPETITIONS = 5
"""A kind of input with fewer competitions has no column."""


def techniques_page(database: Database, _: Mapping[str, str]) -> dict[str, Any]:
    """`{"modalities", "items"}`: modalities `[(name, competitions)]`, most first; items, the most used first:
    `{"name", "what", "stage", "n", "shares", "followed", "chance_better"}`.

    n         solutions that used it; shares: modality -> share of its solutions that say what they did, each
              competition equal (the base rate that a recipe's lift is over)
    followed  runs here that used it; chance_better: that one is better than one without (None: not compared)
    """
    knowledge = knowledge_of(database)
    memory = knowledge.solution_memory
    known = Counter(str(memory.competitions[slug].get("modality")) for slug in memory.by_competition)
    modalities = [(name, n) for name, n in known.most_common() if n >= LEAST_COMPETITIONS and name != "None"]
    base = {name: memory.base(name, None)["techniques"] for name, _ in modalities}
    used = Counter(t for some in memory.by_competition.values() for one in some for t in one.techniques)
    return {
        "modalities": modalities,
        "items": [
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
        ],
    }


def _runs_here(knowledge: Knowledge, name: str) -> dict[str, Any]:
    tally = sum(knowledge.tallies.get(f"technique:{name}", {}).values(), Tally())
    chance = tally.chance_better
    return {"followed": tally.followed, "chance_better": chance.as_dict() if chance else None}
