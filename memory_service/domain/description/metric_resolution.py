"""Resolves the metric of a plan: its name, its source, and whether a generated script computes it.

A script prints a score under a metric's name only where it computes exactly that: "weighted ROC AUC" is not
ROC AUC. Of all others it says so, and goes by the validation loss.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, Literal, get_args

from memory_service.domain.common.tables import shipped_table, with_parts
from memory_service.domain.description.metrics import METRIC_PHRASES, METRICS, Metric, metric_named, spell_out
from memory_service.domain.description.phrases import patterns, sentences_of, words_of

_P = patterns("metric_resolution")

Answer = Literal["labels", "values", "masks", "matches", "boxes", "items", "texts"]
Form = Literal[
    "chances", "classes", "cut", "grades", "ranked", "values", "logs", "masks", "matches", "boxes", "texts"
]  # fmt: skip

_TABLE = shipped_table(__package__, "measures.toml")
ANSWERS: Mapping[str, Answer] = {
    task: answer for answer, tasks in _TABLE["answers"].items() for task in tasks.split()
}
"""What the script of a task answers; tasks without a script are not here. Of pairs see `answer_of`."""

_EITHER: Mapping[str, tuple[Answer, Answer]] = {
    "text-pair-similarity": ("values", "labels"),
    "multimodal": ("labels", "values"),
}
"""Task -> what its script answers, and what where the metric judges this alone."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric as scripts compute it.

    of            its name in `domain.description.metrics`
    function      `score_` and this, in `memory_service.train`; label: its word in a line of the log
    form          what it judges: chances | classes | cut (classes by a cut in the chances, tuned on the rows
                  held out) | grades (cut likewise) | ranked (the k likeliest classes, or nearest images) |
                  values | logs (of values) | masks | matches (images nearer than a cut, tuned likewise) |
                  boxes | texts
    wants, unless patterns of the words in which it is said: one that must be there, one that makes it another
    k             of ranked, the k; of the first rows how many, below 1 their share; of
                  boxes, the IoU in percent; of an F-beta, beta in percent; of a quantile
                  loss, the quantile in thousandths, 0 where none or several are named
    """

    name: str
    of: str
    answer: Answer
    function: str
    label: str
    form: Form
    wants: str = ""
    unless: str = ""
    k: float = 0

    @property
    def upwards(self) -> bool:
        return _KNOWN[self.of].direction == "max"


_KNOWN = {metric.name: metric for metric in METRICS}


def _measure(answer: Answer, row: Mapping[str, Any]) -> Measure:
    """A row of `measures.toml`, the patterns that it names put in."""
    said = {"of": row["name"], "unless": "@usual", **row}
    for name in ("wants", "unless"):
        said[name] = with_parts(said.get(name, ""), _TABLE["patterns"])
    return Measure(answer=answer, **said)


MEASURES = tuple(_measure(answer, row) for answer in get_args(Answer) for row in _TABLE["measures"][answer])
"""The first that fits what is said is meant."""

MOST_K = 100
_PHRASES = [phrase.strip() for metric in METRICS for phrase in metric.phrases.split(",")]


def measure_of(text: str, answer: Answer) -> Measure | None:
    """What a script computes for a metric said in these words; None where that would be another metric.

    A measure's own name gives that measure back.
    """
    metric = metric_named(text)
    words = re.sub(r"[\W_]+", " ", text.lower())
    if metric is None or _of_several(text) or _P["mixed"].search(words):
        return None
    for measure in MEASURES:
        if measure.of != metric.name or measure.answer != answer:
            continue
        if re.search(measure.wants, words) and not (measure.unless and re.search(measure.unless, words)):
            if measure.function.endswith("_top"):
                return _in_first(measure, text)
            if measure.form == "ranked":
                return _at_k(measure, text)
            if measure.function == "quantile":
                return _at_quantile(measure, text)
            if measure.function.startswith("f_beta"):
                return _at_beta(measure, text)
            return _at_iou(measure, text) if measure.function == "map_iou" else measure
    return None


def _of_several(text: str) -> bool:
    """Whether it is made of more than one metric: "0.5 AUC + 0.5 F1"."""
    found = METRIC_PHRASES.find(words_of(spell_out(text)))
    spans = [(place, place + len(phrase.split()), metric.name) for place, phrase, metric in found]
    whole = {
        name
        for start, end, name in spans
        if not any(a <= start and end <= b and (a, b) != (start, end) for a, b, _ in spans)
    }
    if _P["iou_of_boxes"].search(text):
        whole.discard("IoU")
    return len(whole) > 1


def _at_k(measure: Measure, text: str) -> Measure | None:
    found = re.search(r"(?:@|\bat|\btop|\bamong the|\bamong)[\s-]?(\d{1,3})\b(?!\s?%)", text, re.IGNORECASE)
    if found is None or not 1 <= int(found[1]) <= MOST_K:
        return None
    name = f"top-{found[1]} accuracy" if measure.function == "top_k" else f"{measure.name[:-1]}{found[1]}"
    return replace(measure, name=name, k=int(found[1]))


def _in_first(measure: Measure, text: str) -> Measure | None:
    """Of so many rows of the test set, or of such a share of them; "@5" is of the classes of a row."""
    found = _P["first"].search(text)
    if found is None or not (k := _first_rows(found)) or (found["at"] and 1 <= k <= _LIKELIEST):
        return None
    return replace(measure, name=f"{measure.name[:-1]}{f'{100 * k:g}%' if k < 1 else k}", k=k)


_LIKELIEST = 20
"""Classes of a row that may be judged: from more on rows of the test set are meant."""


def _first_rows(found: re.Match[str]) -> float:
    """How many, or which share of all."""
    if found["part"]:
        return 0.01 if found["part"].lower() == "percentile" else 1 / _PARTS[found["part"].lower()]
    number = float(re.sub("[ ,\u00a0]", "", found["k"]))
    return round(number / 100, 6) if found["percent"] else number if number < 1 else round(number)


_OF_FIRST = {measure.of for measure in MEASURES if measure.function.endswith("_top")}
_PARTS = {"decile": 10, "tenth": 10, "quintile": 5, "fifth": 5, "quartile": 4, "quarter": 4, "half": 2}


def first_words(description: str, metric: str) -> str:
    """What a description says, where it names this metric, of the rows that count: " at the top 0.1"."""
    for sentence in sentences_of(description) if metric in _OF_FIRST else ():
        named = {each.name for _, _, each in METRIC_PHRASES.find(words_of(spell_out(sentence)))}
        if metric in named and (found := _P["first"].search(sentence)) and (k := _first_rows(found)):
            return "" if found["at"] and k <= _LIKELIEST else f" at the top {k}"
    return ""


def _at_quantile(measure: Measure, text: str) -> Measure:
    """At the one quantile that is named; else the columns to predict name theirs, or it is the median."""
    said = _quantiles(text)
    if len(said) != 1 or not 0 < max(said) < 1:
        return measure
    return replace(measure, name=f"{measure.name} at {max(said):g}", k=round(1000 * max(said)))


def _quantiles(text: str) -> set[float]:
    return {
        round(float(each) / (1 if place < 2 else 100), 6)
        for groups in _P["levels"].findall(text)
        for place, some in enumerate(groups)
        for each in re.findall(r"\d*\.?\d+", some)
    }


def _by_costs(text: str) -> set[float]:
    """The shares told for errors where the true value is the higher, of two that sum to 1 and are told for
    both sides."""
    found = set()
    for sentence in re.split(r"(?<=[.!?;])\s+", text):
        shares = list(_P["share"].finditer(sentence))
        for one, other in pairwise(shares):
            if abs(float(one[1]) + float(other[1]) - 1) > 1e-9:
                continue
            between = sentence[one.end() : other.start()]
            pairs = ((between, sentence[other.end() :]), (sentence[: one.start()], between))
            sides = {tuple(map(_side, pair)) for pair in pairs}
            if ((1, -1) in sides) != ((-1, 1) in sides) and not _P["turned"].search(sentence):
                found.add(float((one if (1, -1) in sides else other)[1]))
    return found


def _side(words: str) -> int:
    """1: where the true value is higher than the predicted, -1: where it is lower, 0: not told."""
    return bool(_P["under"].search(words)) - bool(_P["over"].search(words))


def quantile_words(description: str) -> str:
    """What a description says of its one quantile, beside the words of the metric: the level as a share, also
    where it only tells what errors of both sides cost ("0.85 d where d is positive, -0.15 d where it is
    negative"), and logarithms."""
    lines = [
        line
        for line in re.split(r"\n\s*\n", description)
        if re.search(r"pinball|quantile", line, re.IGNORECASE)
    ]
    named = [
        sentence
        for line in lines
        for sentence in re.split(r"(?<=[.!?])\s+", line)
        if re.search(r"pinball|quantile|\btau\b|\balpha\b|[τα]", sentence, re.IGNORECASE)
    ]
    said = {level for one in named for level in _quantiles(one)} or {
        level for one in lines for level in _by_costs(one)
    }
    level = f" at the {max(said):g} quantile" if len(said) == 1 else ""
    return level + (" of logarithms" if _P["log_of"].search(" ".join(lines)) else "")


def _at_beta(measure: Measure, text: str) -> Measure | None:
    """Of the beta that is named: F2 weighs recall more than precision, F0.5 less."""
    found = _P["beta"].search(text)
    if found is None:
        return None
    beta = 0.5 if (found[1] or found[2]).startswith("0") else float(found[1] or found[2])
    name = measure.name.replace("F-beta", f"F{beta:g}")
    return replace(measure, name=name, label=f"F{beta:g}", k=round(100 * beta))


def _at_iou(measure: Measure, text: str) -> Measure | None:
    """At the one IoU that is named; at 0.5, the usual one, where none is."""
    said = {float(f"0.{found}") for found in re.findall(r"(?:(?<!\d)0?\.|\b0 |AP(?=\d\d))(\d{1,2})\b", text)}
    iou = round(100 * min(said, default=0.5))
    return replace(measure, name=f"mAP@{iou / 100:g}", k=iou) if len(said) < 2 and iou else None


@dataclass(frozen=True, slots=True)
class ResolvedMetric:
    """The metric of a plan.

    family, direction   "max" | "min"; None for a metric that is not known
    source              "as asked", "the description", "the record of ..."
    in_script           whether the script of the plan computes it
    note                why not, where there is a script
    """

    name: str
    family: str | None
    direction: str | None
    source: str
    in_script: bool
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"from" if name == "source" else name: value for name, value in asdict(self).items()}


def answer_of(task: str, metric: str | None) -> Answer | None:
    """What the script of a task answers; of pairs of texts classes where the metric judges these alone."""
    if task in _EITHER and metric is not None:
        usual, other = _EITHER[task]
        return usual if measure_of(metric, usual) or not measure_of(metric, other) else other
    return ANSWERS.get(task)


def resolve_metric(
    text: str, source: str, task: str, stored: Mapping[str, Any] | None = None
) -> ResolvedMetric:
    """The metric that these words name, for a plan of this task.

    stored   what else is known of it: name, metric_family and metric_direction
    """
    metric, answer = metric_named(text), answer_of(task, text)
    measure = measure_of(text, answer) if answer else None
    of_words, function = task == "token-classification", measure.function if measure else ""
    beside = function in (_BESIDE_NONE if of_words else ("f1_entities",))
    if beside:
        measure = measure_of("entity F1", "labels") if function in ("f1", "f1_micro") else None
    row = stored or {}
    name = _said_of(metric, text) if metric is not None and row.get("name") else text
    shown = name
    if metric is not None and not beside and any((m.of, m.answer) == (name, answer) for m in MEASURES):
        name, shown = f"a variant of {_phrase_of(metric, text)}", text
    family = row.get("metric_family") or (metric.family if metric else None)
    direction = row.get("metric_direction") or (metric.direction if metric else None)
    if measure is not None:
        return ResolvedMetric(measure.name, family, direction, source, True)
    note = _why_not(text, shown, metric is not None, task)
    return ResolvedMetric(name, family, direction, source, False, note)


_BESIDE_NONE = ("f1", "f1_micro", "f1_samples", "f1_weighted", "f_beta", "f_beta_micro", "f_beta_samples")
"""F scores that hosts compute of the entities alone; with the words that are none they are near accuracy. Of
the first two a script computes what they mean there, the F1 of whole entities."""


def _phrase_of(metric: Metric, text: str) -> str:
    found = METRIC_PHRASES.find(words_of(spell_out(text)))
    return max((phrase for _, phrase, each in found if each == metric), key=len)


_QUALIFIERS = frozenset(
    ["macro", "micro", "weighted", "modified", "partial", "columnwise", "global", "median", "custom"]
)


def _said_of(metric: Metric, text: str) -> str:
    """The metric with the words right before it that make it another one, and its k: "weighted RMSE",
    "recall@10"."""
    words, phrase = words_of(spell_out(text)), words_of(_phrase_of(metric, text))
    places = [at for at in range(len(words)) if words[at : at + len(phrase)] == phrase]
    start = end = places[0] if places else 0
    while start and words[start - 1] in _QUALIFIERS:
        start -= 1
    k = _P["k"].search(text) if metric.family == "ranking" else None
    name = f"{metric.name.removesuffix('@k')}@{k[1]}" if k else metric.name
    return " ".join([*words[start:end], name])


def _why_not(text: str, shown: str, known: bool, task: str) -> str | None:
    if task not in ANSWERS:
        return None
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    if known:
        kind, _, answer = task.rpartition("-")
        other = f"{kind}-{'regression' if answer == 'classification' else 'classification'}"
        fits = other in ANSWERS and measure_of(text, ANSWERS[other]) is not None
        hint = f" Where that is what counts, ask with task={other}." if fits else ""
        return f'The script for {task} cannot compute "{shown}": it goes by the validation loss.{hint}'
    near = get_close_matches(text.lower(), _PHRASES, n=1, cutoff=0.8)
    meant = f" (do you mean {near[0]}?)" if near else ""
    return f'"{shown}" is no metric that is known here{meant}: the script goes by the validation loss.'
