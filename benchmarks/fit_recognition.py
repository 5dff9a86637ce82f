"""Where the weights of `recall/recognition.py` come from.

    python -m benchmarks.fit_recognition

Texts of stored competitions: 120 paraphrases with and without the title, 50 descriptions written when their
competitions were not yet stored, 57 short ones written for this, and the 110 of two sets of
`benchmarks/recall_blind.py` that were measured before, blind4 and blind5. Texts of others: the descriptions
that are left, and 155 short ones about things near to stored ones; those of blind4 and blind5 are only looked
at. Each text of a stored competition is also asked with that competition and its editions left out.

Logistic regression over the likeliest places of each text; held out by eighths of the competitions.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from benchmarks.recall import questions
from benchmarks.recall_blind import recognition
from memory_service.recall.encoder import TextEncoder, load_encoder
from memory_service.recall.recognition import (
    READ_CHARACTERS,
    Evidence,
    Ranked,
    Words,
    candidates,
    evidence_of,
)
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.services.competitions.signals import ReadText, closeness_to, read_text, text_signals
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.editorial import seeding
from memory_service.services.operations import database as databases

DATA = Path(__file__).parent / "data" / "recognition.jsonl"
STRENGTH = 1.0
"""Inverse strength of the l2 penalty, on standardised signals."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """A text and a likely place. asked: which asking it belongs to; own: is it the text's competition?
    of_stored: the asking has a right answer;
    learned: may be fitted to."""

    asked: int
    group: str
    own: bool
    of_stored: bool
    evidence: Evidence
    learned: bool


def texts(snapshot: RecallSnapshot) -> list[tuple[str, str | None, bool]]:
    """(text, slug or None, whether it may be fitted to)."""
    rows = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
    since = {row["same"]: row["is"] for row in rows if "same" in row}
    out: list[tuple[str, str | None]] = [(row["text"], row["is"]) for row in rows if "text" in row]
    for question in questions():
        slug = question.slug or since.get(question.name)
        if slug is None and question.name in since:
            continue  # of one of several editions
        out.append((question.text, slug))
        if question.slug:
            title = snapshot.competitions[snapshot.position[question.slug]]["title"]
            out.append((f"{title}. {question.text}", slug))
    blind = [row for name in ("blind4", "blind5") for row in recognition(name)]
    looked_at = [(row["text"], row["is"]) for row in blind if row["is"] in {None, *snapshot.position}]
    return [(*each, True) for each in out] + [(*each, each[1] is not None) for each in looked_at]


def places(unit: ReadTransaction, encoder: TextEncoder) -> Iterator[Place]:
    snapshot = recall_snapshot(unit)
    asked = 0
    for text, slug, learned in texts(snapshot):
        read = read_text(text, encoder)
        own = snapshot.position[slug] if slug else None
        nobody = np.zeros(len(snapshot.competitions), dtype=np.bool_)
        hidings = [nobody]
        if own is not None:
            hidings.append(snapshot.family_of(own, closeness_to(unit, snapshot, own)))
        for hidden in hidings:
            of_stored = own is not None and not hidden[own]
            group = slug or f"other {asked}"
            for place, evidence in _asked(unit, snapshot, read, hidden, own if of_stored else None):
                yield Place(asked, group, of_stored and place == own, of_stored, evidence, learned)
            asked += 1


def _asked(
    unit: ReadTransaction,
    snapshot: RecallSnapshot,
    read: ReadText,
    hidden: NDArray[np.bool_],
    own: int | None,
) -> Iterator[tuple[int, Evidence]]:
    signals, _ = text_signals(unit, snapshot, None, read)
    words = np.where(hidden, 0.0, signals["words"]).astype(np.float32)
    meaning = np.where(hidden, -1.0, signals["embedding"]).astype(np.float32)
    tasks = snapshot.structure.task_probability(read.task_probability)
    opening = Words(read.text[:READ_CHARACTERS])
    ranked = Ranked(words), Ranked(meaning)
    for place in {*candidates(*ranked), *([] if own is None else [own])}:
        task = float(tasks[place])
        yield place, evidence_of(snapshot, place, opening, read.facts, *ranked, task)


def fit(signals: Floats, own: Floats) -> tuple[Floats, float]:
    """Weights and bias for signals (N, 11) as they are."""
    scaler = StandardScaler().fit(signals)
    model = LogisticRegression(C=STRENGTH, max_iter=3000).fit(scaler.transform(signals), own)
    weights = model.coef_[0] / scaler.scale_
    return weights, float(model.intercept_[0] - weights @ scaler.mean_)


def held_out(rows: list[Place], signals: Floats, own: Floats) -> Floats:
    eighth = np.array([zlib.crc32(row.group.encode()) % 8 for row in rows])
    learned = np.array([row.learned for row in rows])
    out = np.zeros(len(rows))
    for part in range(8):
        weights, bias = fit(signals[(eighth != part) & learned], own[(eighth != part) & learned])
        out[eighth == part] = 1.0 / (1.0 + np.exp(-(signals[eighth == part] @ weights + bias)))
    return out


def report(rows: list[Place], probability: Floats) -> None:
    best: dict[int, tuple[float, Place]] = {}
    for row, value in zip(rows, probability, strict=True):
        if value > best.get(row.asked, (-1.0, row))[0]:
            best[row.asked] = float(value), row
    stored = [(value, row.own) for value, row in best.values() if row.of_stored]
    others = [value for value, row in best.values() if not row.of_stored]
    print(f"{len(stored)} of stored ones, {len(others)} of others, held out by eighths:")
    for least in (0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.8):
        right = np.mean([value >= least and own for value, own in stored])
        false = np.mean([value >= least for value in others])
        print(f"  from {least:g} on: {right:.1%} recognised, {false:.1%} of others taken for one")


def main() -> None:
    loaded = load_encoder()
    if loaded.encoder is None:
        raise SystemExit(loaded.reason)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/recognition.sqlite3")
        databases.upgrade(database)
        seeding.seed(database, encoder=loaded.encoder)
        with database.read() as unit:
            rows = list(places(unit, loaded.encoder))
        database.close()
    signals = np.array([astuple(row.evidence) for row in rows])
    own = np.array([float(row.own) for row in rows])
    report(rows, held_out(rows, signals, own))
    learned = np.array([row.learned for row in rows])
    weights, bias = fit(signals[learned], own[learned])
    shown = Evidence(*(round(float(weight), 2) for weight in weights))
    print(", ".join(f"{each.name}={getattr(shown, each.name)}" for each in fields(shown)), f"bias={bias:.2f}")


if __name__ == "__main__":
    main()
