"""Cue phrases for a task. A task is a pair (`TASK_OF`): the input and the kind of answer; `cues.toml` has the
phrases of both, with their weights."""

from collections.abc import Mapping

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import phrases_listed

_CUES = shipped_table(__package__, "cues.toml")
INPUT_CUES: Mapping[str, Mapping[str, str]] = _CUES["input"]
ANSWER_CUES: Mapping[str, Mapping[str, str]] = _CUES["answer"]
"""Kind -> weight -> phrases with commas between them."""

INPUT_PRIOR = {"tabular": 1.5}
"""A description that names no kind of data is nearly always of a table."""

ANSWER_PRIOR = {"class": 1.5, "value": 0.5}
"""One that names no kind of answer nearly always asks for a class."""

TASK_OF: dict[tuple[str, str], str] = {
    (given, answer): task for pair, task in _CUES["tasks"].items() for given, answer in [pair.split()]
}

SENTENCES = {kind: phrases_listed(listed) for kind, listed in _CUES["sentences"].items()}
"""Kind of sentence -> phrases that make it one. A `goal` says what the task is, rather than why it matters:
its cues count double."""

SMALL_WORDS: Mapping[str, str] = _CUES["small_words"]
