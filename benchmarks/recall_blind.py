"""Texts written by someone who had not seen the reader: are task and facts read, and competitions recognised?

`descriptions()` are two sets of texts with what they say, `recognition()` four with the stored
competition that each is of, if any (tests/recall/blind*_*.jsonl); docs/methods/recall.md says who wrote them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.stated_facts import TOKENS_PER_WORD
from memory_service.domain.description.task_inference import InferredFacts

FOLDER = Path(__file__).parents[1] / "tests/recall"


def descriptions(name: str = "blind4") -> list[dict[str, Any]]:
    """`text`, `task`, `also_ok`, `facts`; `unscored`, `metric_also_ok` where readers could differ."""
    return [json.loads(line) for line in (FOLDER / f"{name}_descriptions.jsonl").read_text().splitlines()]


def recognition(name: str = "blind4") -> list[dict[str, Any]]:
    """`text`, `is` (slug or None), `near`, `kind` (stored | near | short | generic), and in "blind6" `style`
    (page | described | short) of those stored."""
    return [json.loads(line) for line in (FOLDER / f"{name}_recognition.jsonl").read_text().splitlines()]


@dataclass
class FactsRead:
    """Tasks right; of each fact how often it is stated, read rightly, read wrongly; facts claimed that the
    text does not state."""

    n: int = 0
    tasks: int = 0
    stated: Counter[str] = field(default_factory=Counter)
    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    unstated: Counter[str] = field(default_factory=Counter)

    @property
    def task_share(self) -> float:
        return self.tasks / self.n

    @property
    def fact_share(self) -> float:
        return self.right.total() / self.stated.total()

    @property
    def claimed_right_share(self) -> float:
        """Of the facts that were read, how many the text states so."""
        return self.right.total() / (self.right + self.wrong + self.unstated).total()


def facts_read(read: Callable[[str], InferredFacts], name: str = "blind4") -> FactsRead:
    """What `read` makes of a set's texts, of the kinds of facts that the set labels."""
    out, rows = FactsRead(), descriptions(name)
    labelled = [fact for fact in FACTS if any(fact in row["facts"] for row in rows)]
    for row in rows:
        found = read(row["text"])
        out.n += 1
        out.tasks += found.task in (row["task"], *row["also_ok"])
        skipped = set(row.get("unscored", ()))
        for fact in labelled:
            wanted, value = row["facts"].get(fact), _value(found, fact)
            if fact in skipped:
                continue
            if wanted is None:
                out.unstated[fact] += value is not None
                continue
            out.stated[fact] += 1
            good = value is not None and _same(fact, wanted, value, row.get("metric_also_ok", ()))
            out.right[fact] += good
            out.wrong[fact] += value is not None and not good
    return out


FACTS = (
    "metric", "metric_direction", "n_train", "n_test", "n_classes", "n_groups", "group_by", "n_features",
    "image_size", "seq_len", "split", "language", "multi_label", "imbalance",
)  # fmt: skip


def _value(found: InferredFacts, name: str) -> Any:
    return getattr(found, {"imbalance": "imbalanced"}.get(name, name))


def _same(name: str, wanted: Any, value: Any, also: Sequence[str]) -> bool:
    if name == "metric":
        names = (metric_named(word.replace("_", " ")) for word in (wanted, *also))
        return any(named is not None and named.name == value for named in names)
    if name == "imbalance":
        return bool(value)
    if name == "seq_len":
        return value in (wanted, round(wanted * TOKENS_PER_WORD))
    return bool(value == wanted)


@dataclass(frozen=True)
class Recognised:
    """Shares of the texts of stored competitions that are recognised, and taken for another one; of the
    others, by kind, that are taken for a stored one."""

    true: float
    another: float
    false: dict[str, float]
    false_all: float


def recognised(
    described: Callable[[str], str | None], stored: Container[str], name: str = "blind4"
) -> Recognised:
    """What `described` (the slug a text is taken for) makes of the texts, less those of competitions that
    are not `stored`."""
    rows = [row for row in recognition(name) if row["is"] is None or row["is"] in stored]
    answers = [(row, described(row["text"])) for row in rows]
    own = [(row["is"], said) for row, said in answers if row["is"]]
    others = [(row["kind"], said) for row, said in answers if not row["is"]]
    kinds = {
        kind: [said for each, said in others if each == kind] for kind in dict.fromkeys(k for k, _ in others)
    }
    return Recognised(
        true=sum(slug == said for slug, said in own) / len(own),
        another=sum(said is not None and slug != said for slug, said in own) / len(own),
        false={kind: sum(said is not None for said in each) / len(each) for kind, each in kinds.items()},
        false_all=sum(said is not None for _, said in others) / len(others),
    )
