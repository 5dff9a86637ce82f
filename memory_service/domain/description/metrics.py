"""Metrics by name (`metrics.toml`): family, direction, and the kind of answer they judge.

A family groups metrics that reward the same behaviour, so that "mean column-wise ROC AUC" and "weighted
AUC" meet.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import PhraseTable, patterns, words_of


@dataclass(frozen=True, slots=True)
class Metric:
    """One way of judging. `forms`: the kinds of answer it judges and of input it is used with
    (`domain.description.phrases`), with weights."""

    name: str
    family: str
    direction: str
    phrases: str
    forms: Mapping[str, float] = field(default_factory=dict, hash=False)


METRICS = tuple(
    Metric(name, family, direction, " ".join(phrases.split()), forms)
    for name, (family, direction, forms, phrases) in shipped_table(__package__, "metrics.toml").items()
)

METRIC_PHRASES: PhraseTable[Metric] = PhraseTable(
    {phrase.strip(): [metric] for metric in METRICS for phrase in metric.phrases.split(",")}
)

_SIGNS = {name.replace("_", " "): pattern for name, pattern in patterns("metric_signs").items()}
_F_OF = re.compile(r"\bF[-_ ]?\{?([125])\}?(?=\W)")
_OF_CLASSES = re.compile(r"(?i)(balanced|cro|mean|averaged) (multi[- ]?(class|label)|classification)\b")


def spell_out(text: str) -> str:
    """The text with metric signs that lose their meaning as words (`MAP@5`, `mAP`, `R^2`) made into words."""
    for name, pattern in _SIGNS.items():
        text = pattern.sub(f" {name} ", text)
    return _OF_CLASSES.sub(r"\1", _F_OF.sub(r" f\1 ", text))


_IN_SCRIPTS = re.compile(r"^(eval|val|valid|validation|dev|best|mean|cv|oof)[_/ ]|[_-]", re.IGNORECASE)
_SHORT = {"acc": "max", "ap": "max", "map": "max", "loss": "min", "precision": "max", "recall": "max",
          "ppl": "min", "error": "min", "error rate": "min", "r2": "max", "score": None,
          "aucpr": "max", "multiclass": "min"}  # fmt: skip


@lru_cache(256)
def direction_of_name(name: str | None) -> str | None:
    """max | min: which way a metric gets better, by its name as scripts write it ("eval_f1", "val_acc",
    "neg_log_loss"); None where the name does not say."""
    plain = " ".join(_IN_SCRIPTS.sub(" ", _IN_SCRIPTS.sub(" ", name or "")).lower().split())
    if plain.startswith("neg "):  # sklearn's: the larger the better
        return "max"
    if plain in _SHORT:
        return _SHORT[plain]
    known = metric_named(plain)
    last = plain.rpartition(" ")[2]
    return known.direction if known is not None else _SHORT.get(last)


def metric_named(name: str) -> Metric | None:
    """The metric that a stored metric field names ("mean column-wise ROC AUC"), None if none is known in it.

    Of several, the one whose phrase is longest, then first.
    """
    found = METRIC_PHRASES.find(words_of(spell_out(name)))
    longest = max(found, key=lambda each: (len(each[1].split()), -each[0]), default=None)
    return longest and longest[2]
