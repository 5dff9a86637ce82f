"""Splits competitions and questions into passages that are encoded.

The encoder reads 256 tokens. A competition is kept as several passages, one per question a neighbour may
share (what is predicted, from what data, how it is judged) and its description in pieces. A long question
is reduced to the few passages that answer the same questions, so that it costs a few encodings and not a
dozen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.description.phrases import (
    PhraseTable,
    phrases_listed,
    readable,
    sentences_of,
    task_sentences,
    words_of,
)

PASSAGE_CHARACTERS = 1_000
"""About 256 tokens: what the encoder reads of a passage."""

QUERY_CHARACTERS = 400
"""Of each passage of a long question: 500 and 600 find the same and cost more (docs/methods/recall.md)."""

_MAX_SENTENCE = 400
_LISTED = shipped_table(__package__, "words.toml")["passages"]
_METRIC, _DATA, _GOAL = (phrases_listed(_LISTED[kind]) for kind in ("judged", "data", "goal"))


@dataclass(frozen=True, slots=True)
class Passage:
    """One text with the question it answers ("predicted", "data", "judged", "text")."""

    kind: str
    text: str


def passages_of(competition: Mapping[str, Any]) -> list[Passage]:
    """The passages of a competition's row, at least one."""
    title = _text(competition, "title") or _text(competition, "slug").replace("-", " ")
    summary, description = _text(competition, "summary"), _text(competition, "description")
    task = _text(competition, "task").replace("-", " ")
    sentences = [piece for sentence in sentences_of(readable(description)) for piece in _split_long(sentence)]
    data = [s for s in sentences if _hits(_DATA, s) >= 2]
    metric = [s for s in sentences if _hits(_METRIC, s) >= 1]
    labels = {"Domain": "domain", "Data": "modality", "Labels": "label_structure"}
    facts = [_labelled(label, competition, key) for label, key in labels.items()]
    said = {
        "predicted": [f"{title}.", summary, f"Task: {task}." if task else "", *sentences[:2]],
        "data": [*facts, *data],
        "judged": [_labelled("Metric", competition, "metric"), *metric],
    }
    out = [Passage(kind, _joined(texts)) for kind, texts in said.items()]
    out += [Passage("text", piece) for piece in _pieces(sentences)]
    return [passage for passage in out if passage.text]


def query_passages(text: str) -> list[Passage]:
    """One to three passages of a question: the whole of a short text, else what says most.

    A long text gives its title and opening with the goal, the data, and the metric; each at most
    `QUERY_CHARACTERS` characters of whole sentences.
    """
    text = readable(text)
    if len(text) <= QUERY_CHARACTERS:
        return [Passage("predicted", text)]
    sentences = [piece for sentence in task_sentences(text) for piece in _split_long(sentence)]
    opening, rest = sentences[:2], sentences[2:]
    goal = _best(rest, _GOAL)
    data = _best([s for s in rest if s not in goal], _DATA)
    metric = _best([s for s in rest if s not in goal and s not in data], _METRIC)
    chosen = [
        Passage("predicted", _joined([*(s[:200] for s in opening), *goal], QUERY_CHARACTERS)),
        Passage("data", _joined(data, QUERY_CHARACTERS)),
        Passage("judged", _joined(metric, QUERY_CHARACTERS)),
    ]
    return [passage for passage in chosen if passage.text]


def _best(sentences: list[str], table: PhraseTable[bool]) -> list[str]:
    """The sentences with most hits per length, as many as fit a passage, in text order."""
    scored = [
        (_hits(table, sentence) / (30 + len(sentence)) ** 0.5, -index)
        for index, sentence in enumerate(sentences)
        if len(sentence) >= 25
    ]
    chosen: list[int] = []
    length = 0
    for score, negative in sorted(scored, reverse=True):
        if score <= 0:
            break
        size = len(sentences[-negative])
        if length + size > QUERY_CHARACTERS:
            continue
        chosen.append(-negative)
        length += size
    return [sentences[index] for index in sorted(chosen)]


def _hits(table: PhraseTable[bool], sentence: str) -> int:
    return len({phrase for _, phrase, _ in table.find(words_of(sentence))})


def _pieces(sentences: Iterable[str]) -> list[str]:
    """Sentences packed in order into pieces of at most `PASSAGE_CHARACTERS`."""
    pieces: list[str] = []
    current = ""
    for sentence in sentences:
        if current and len(current) + len(sentence) + 1 > PASSAGE_CHARACTERS:
            pieces.append(current)
            current = ""
        current = f"{current} {sentence}".strip()
    return [*pieces, current] if current else pieces


def _joined(sentences: Iterable[str], limit: int = PASSAGE_CHARACTERS) -> str:
    """Distinct sentences in order, whole ones only, at most `limit` characters."""
    out = ""
    for sentence in dict.fromkeys(sentences):
        if sentence and len(out) + len(sentence) + 1 <= limit:
            out = f"{out} {sentence}".strip()
    return out


def _split_long(sentence: str) -> list[str]:
    return [sentence[start : start + _MAX_SENTENCE] for start in range(0, len(sentence), _MAX_SENTENCE)]


def _text(row: Mapping[str, Any], key: str) -> str:
    return str(row.get(key) or "").strip()


def _labelled(label: str, row: Mapping[str, Any], key: str) -> str:
    value = _text(row, key)
    return f"{label}: {value}." if value else ""
