"""Example sentences of each kind of data and answer, compared with a question by the encoder.

The phrases of `domain.description.cues` miss what is said in other words ("old typewritten sheets with
coffee marks"); nearness to these sentences (`prototypes.toml`) catches some of it.
"""

import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.task_inference import Leanings
from memory_service.recall.encoder import TextEncoder

_Sentences = Mapping[str, Sequence[str]]
_TABLES = shipped_table(__package__, "prototypes.toml")
INPUT_SENTENCES: _Sentences = _TABLES["input"]
ANSWER_SENTENCES: _Sentences = _TABLES["answer"]
TASK_SENTENCES: Mapping[tuple[str, str], Sequence[str]] = {
    (given, answer): texts for given, answers in _TABLES["task"].items() for answer, texts in answers.items()
}
"""By (input, answer): what both together sound like."""

_Name = TypeVar("_Name", bound=Hashable)
_Axis = tuple[tuple[_Name, ...], NDArray[np.intp], NDArray[np.float32]]
"""Names; of each, the places of its sentences, filled up with -1 to the length of the longest; vectors."""

_Axes = tuple[_Axis[str], _Axis[str], _Axis[tuple[str, str]]]
_encoded: WeakKeyDictionary[TextEncoder, _Axes] = WeakKeyDictionary()
_encoding = threading.Lock()


def sentences() -> list[str]:
    """All example sentences, in the order in which they are encoded."""
    tables: tuple[Mapping[Any, Sequence[str]], ...] = (INPUT_SENTENCES, ANSWER_SENTENCES, TASK_SENTENCES)
    return [text for table in tables for texts in table.values() for text in texts]


def leanings_of(encoder: TextEncoder, vectors: NDArray[np.float32]) -> Leanings:
    """Similarity of a question's passages (q, 384) to each kind, around 0."""
    with _encoding:
        if encoder not in _encoded:
            _encoded[encoder] = (
                _axis(encoder, INPUT_SENTENCES),
                _axis(encoder, ANSWER_SENTENCES),
                _axis(encoder, TASK_SENTENCES),
            )
        inputs, answers, pairs = _encoded[encoder]
    return Leanings(_near(inputs, vectors), _near(answers, vectors), _near(pairs, vectors))


def _axis(encoder: TextEncoder, sentences: Mapping[_Name, Sequence[str]]) -> _Axis[_Name]:
    names = tuple(sentences)
    places = np.full((len(names), max(map(len, sentences.values()))), -1, dtype=np.intp)
    count = 0
    for row, name in zip(places, names, strict=True):
        row[: len(sentences[name])] = np.arange(count, count + len(sentences[name]))
        count += len(sentences[name])
    return names, places, encoder.encode([text for name in names for text in sentences[name]])


def _near(axis: _Axis[_Name], vectors: NDArray[np.float32]) -> dict[_Name, float]:
    """Mean over passages, then of each kind's two nearest sentences, less the mean over kinds."""
    names, places, sentences = axis
    cosines = np.append((vectors @ sentences.T).mean(axis=0), np.float32(-1.0))
    near = np.sort(cosines[places], axis=1)[:, -2:].mean(axis=1)
    return dict(zip(names, (near - near.mean()).tolist(), strict=True))
