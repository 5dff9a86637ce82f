"""What a plan rests on, fact by fact: its value, where that came from, and the words that say so.

asked > text > record > usual: what the caller gave is overruled by nothing, what the text says by no record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.task_inference import InferredFacts

Source = Literal["asked", "text", "record", "usual"]

NAMES = (
    "task", "metric", "n_train", "n_test", "n_classes", "n_groups", "group_by", "n_features", "image_size",
    "seq_len", "split", "multi_label", "imbalanced", "language", "subtask", "cpu_count",
)  # fmt: skip
"""In the order in which they are listed."""

_DIFFERENT = 1.1
"""Numbers further apart than by this factor contradict each other; nearer ones were rounded."""

SAID = {"asked": "as asked", "text": "from the description", "record": "from the record", "usual": "usual"}


@dataclass(frozen=True, slots=True)
class Fact:
    """words: of the text, where it was read from."""

    name: str
    value: Any
    source: Source
    words: str | None = None

    def as_dict(self) -> dict[str, Any]:
        words = {"words": self.words} if self.words else {}
        return {"name": self.name, "value": self.value, "from": self.source, **words}


def facts_of(
    asked: Mapping[str, Any], said: InferredFacts | None, record: Mapping[str, Any], used: Mapping[str, Any]
) -> tuple[Fact, ...]:
    """Every fact that is known, each from the first of asked, text and record that has it.

    used   what the plan was made with, by name; a value that none of the three has is a usual one
    """
    out = []
    for name in NAMES:
        sources = {"asked": asked.get(name), "text": getattr(said, name, None), "record": record.get(name)}
        known = {source: value for source, value in sources.items() if value not in (None, "unknown")}
        if name in used:
            known = {source: value for source, value in known.items() if value == used[name]}
            known = known or ({"usual": used[name]} if used[name] is not None else {})
        for source, value in known.items():
            words = said.words.get(name) if said is not None and source == "text" else None
            out.append(Fact(name, value, source, words))  # type: ignore[arg-type]
            break
    return tuple(out)


def contradictions(
    asked: Mapping[str, Any],
    said: InferredFacts | None,
    record: Mapping[str, Any],
    slug: str | None,
    described: bool,
) -> tuple[str, ...]:
    """Sentences on what the caller or the text says otherwise than the record of the competition.
    `described`: nobody named it, the text seems to be of it."""
    out = []
    whose = f"{slug}, which the description seems to be of," if described else f"{slug}"
    for name in ("task", "metric", "n_train", "n_classes"):
        given, stored = asked.get(name), record.get(name)
        where = SAID["asked"] if given is not None else SAID["text"]
        value = given if given is not None else getattr(said, name, None)
        sure = given is not None or name != "task"
        if name == "task" and value is not None and modality_of(str(stored)) == value:
            continue
        if sure and value is not None and stored is not None and _differ(value, stored):
            other = f"is not what the record of {whose} says ({stored})"
            out.append(f"{name} {value} ({where}) {other}: {value} counts.")
    return tuple(out)


def _differ(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        named, stored = metric_named(one), metric_named(str(other))
        if named is None or stored is None:
            return one.lower() != str(other).lower()
        return named.name != stored.name
    return bool(max(one, other) > _DIFFERENT * min(one, other))
