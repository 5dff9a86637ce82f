"""What a plan rests on, fact by fact: its value, where that came from, and the words that say so.

asked > record > text > usual: what the caller gave is overruled by nothing, the record of the very
competition by no text.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memory_service.domain.common.sentences import Sentence, sentence
from memory_service.domain.common.vocabulary import modality_of
from memory_service.domain.description.metrics import metric_named
from memory_service.domain.description.task_inference import InferredFacts

Source = Literal["asked", "record", "text", "usual"]

NAMES = (
    "task", "metric", "n_train", "n_test", "n_classes", "n_groups", "group_by", "n_features", "image_size",
    "seq_len", "split", "multi_label", "imbalanced", "language", "subtask", "cpu_count", "horizon",
    "n_series", "covariates", "audio_hours", "clip_seconds", "bands", "aspect_ratio",
    "submission",
)  # fmt: skip
"""In the order in which they are listed."""

_DIFFERENT, _SERIOUS = 1.1, 3.0
"""Numbers further apart than by the first factor contradict each other, nearer ones were rounded; by more
than the second they are of other data."""


@dataclass(frozen=True, slots=True)
class Fact:
    """words: of the text, where it was read from; notes: on how it was found; warnings: on what contradicts
    it, serious where a plan by the other value would be another one."""

    name: str
    value: Any
    source: Source
    words: str | None = None
    notes: tuple[Sentence, ...] = ()
    warnings: tuple[Sentence, ...] = ()
    serious: bool = False

    def as_dict(self) -> dict[str, Any]:
        words = {"words": self.words} if self.words else {}
        return {"name": self.name, "value": self.value, "from": self.source, **words}


@dataclass(frozen=True, slots=True)
class Sources:
    """What each source of facts says of one question; `record`: of the named or recognised competition;
    `whose`: its slug, with a word where nobody named it."""

    asked: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)
    said: InferredFacts | None = None
    whose: str = ""

    def fact(self, name: str, usual: Any = None) -> Fact | None:
        """The fact from the first source that has it, with a warning where a later one contradicts it."""
        asked, record, said = self.asked.get(name), self.record.get(name), getattr(self.said, name, None)
        if asked not in _UNKNOWN:
            return self._against(Fact(name, asked, "asked"), record, f"{asked} (as asked)", f"{asked} counts")
        words = self.said.words.get(name) if self.said is not None else None
        if record not in _UNKNOWN:
            fact = Fact(name, record, "record")
            given = None if said in _UNKNOWN or name in ("task", "metric") else said
            return fact if given is None else self._against(fact, given, f"{given} (from the description)")
        if said not in _UNKNOWN:
            return Fact(name, said, "text", words, (), self.competing(name))
        return None if usual is None else Fact(name, usual, "usual", None, (), self.competing(name))

    def competing(self, name: str) -> tuple[Sentence, ...]:
        """A warning where the text names several numbers for a count."""
        rivals = self.said.rivals.get(name, ()) if self.said is not None else ()
        told = ", ".join(map(str, rivals))
        return (sentence("counts-compete", name=name, told=told),) if rivals else ()

    def _against(self, fact: Fact, other: Any, given: str, who: str = "the record counts") -> Fact:
        """The fact with a warning where the other value is another one. `given`: what is not the record's."""
        if fact.name not in ("task", "metric", "n_train", "n_classes") or other in _UNKNOWN:
            return fact
        if (fact.name == "task" and modality_of(str(other)) == fact.value) or not _differ(fact.value, other):
            return fact
        stored = self.record[fact.name]
        names = {"name": fact.name, "given": given, "competition": self.whose, "stored": stored}
        warning = sentence("record-differs", **names, who=who)
        far = not isinstance(other, str) and max(other, fact.value) > _SERIOUS * min(other, fact.value)
        return replace(fact, warnings=(warning,), serious=far)


_UNKNOWN = (None, "unknown")


def facts_of(sources: Sources) -> tuple[Fact, ...]:
    """Every fact that a source has."""
    return tuple(fact for name in NAMES if (fact := sources.fact(name)) is not None)


def _differ(one: Any, other: Any) -> bool:
    if isinstance(one, str):
        named, stored = metric_named(one), metric_named(str(other))
        if named is None or stored is None:
            return one.lower() != str(other).lower()
        return named.name != stored.name
    return bool(max(one, other) > _DIFFERENT * min(one, other))
