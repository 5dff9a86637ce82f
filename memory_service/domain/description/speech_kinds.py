"""Kinds of speech task that share a label with others: who speaks, are two voices one, which phones."""

from dataclasses import replace
from typing import Any

from memory_service.domain.description.phrases import patterns
from memory_service.domain.description.quantities import quantities_in
from memory_service.domain.description.task_inference import InferredFacts

_P = patterns("speech_kinds")
_SPEAKERS = ("speaker", "person", "people", "caller")
_TASKS = {
    "phonemes": "speech-recognition",
    "diarization": "audio-classification",
    "speaker-verification": "audio-classification",
    "speaker-identification": "audio-classification",
}
"""Kind -> the task whose label it has; the first whose words a text has is meant."""


def with_speech_kind(facts: InferredFacts, text: str) -> InferredFacts:
    """The facts with `subtask` of speech, and what it says of counts and groups: speakers that are verified
    are others than those of training, speakers that are identified are classes."""
    said = ((kind, _P[kind].search(text)) for kind, task in _TASKS.items() if task == facts.task)
    kind, match = next((each for each in said if each[1]), ("", None))
    if match is None or (kind == "phonemes" and facts.metric == "word error rate"):
        return facts
    words = {**facts.words, "subtask": match[0]}
    changed: dict[str, Any] = {"subtask": kind}
    found = [q for q in quantities_in(text) if q.role != "test"]
    speakers = round(max((q.value for q in found if q.noun in _SPEAKERS), default=0.0)) or None
    if kind in ("speaker-verification", "speaker-identification"):
        others = [n for n in facts.rivals.get("n_train", ()) if n != speakers]
        if facts.n_train in (None, speakers) and len(others) == 1:
            left = {name: each for name, each in facts.rivals.items() if name != "n_train"}
            changed |= {"n_train": others[0], "rivals": left}
        changed |= {"n_classes": speakers or facts.n_classes}
    if kind == "speaker-verification":
        words.setdefault("group_by", words["subtask"])
        changed |= {"split": "group", "group_by": "speaker", "n_groups": speakers or facts.n_groups}
    elif kind == "diarization" and facts.group_by is None:
        changed |= {"split": "group", "group_by": "recording"}
        words.setdefault("group_by", words["subtask"])
    elif kind == "speaker-identification" and facts.group_by == "speaker":
        changed |= {"n_groups": None, "group_by": None, "split": None}
    return replace(facts, words=words, **changed)
