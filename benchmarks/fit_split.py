"""Where the weights of `recall/split_classifier.py` come from, and how often it is right.

    python -m benchmarks.fit_split [--fit]

Fitted to `data/split_sentences.jsonl`: sentences with their label (group, time, random, none) and the word
of the unit, by authors a and b, who had read no reader of ours, c and d, who had (denials, other languages,
long sentences), and e, who had read what was missed of blind9 to blind11. Besides to the clauses of stored
competitions and of texts of blind4, blind7 and blind8 that have no split by group or time and forecast
nothing, as "none". Judged on each author by a fit without that author, and on texts of blind9, blind10 and
blind11, none of whose words it is fitted to. --fit writes
seeds/split_classifier.npz, fitted to all sentences.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.recall_blind import descriptions
from memory_service.domain.description.languages import in_english, language_of
from memory_service.domain.description.phrases import readable, spaced
from memory_service.domain.description.stated_facts import stated_in
from memory_service.domain.description.stated_split import unit_in_singular
from memory_service.domain.description.task_inference import InferredFacts, with_separation
from memory_service.recall import split_classifier as reader
from memory_service.recall.encoder import TokenStates, load_encoder

ROOT = Path(__file__).parents[1]
WRITTEN = Path(__file__).parent / "data" / "split_sentences.jsonl"
JUDGED = ("blind9", "blind10", "blind11")
PROJECTIONS, FITS, EPOCHS, RATE, DECAY, DROPPED, BATCH = 48, 4, 12, 4e-3, 1e-2, 0.3, 32
"""Projections of each of the fits that are averaged, and how they are fitted."""

Floats = NDArray[np.float32]
Row = dict[str, Any]


def english(text: str) -> str:
    return in_english(text, language_of(text))


class States:
    """States of the tokens of clauses, each encoded once."""

    def __init__(self) -> None:
        self._known: dict[str, TokenStates] = {}
        encoder = load_encoder().encoder
        if encoder is None or encoder.states is None:
            raise SystemExit("the packaged encoder is not installed")
        self._states = encoder.states

    def of(self, clauses: Sequence[str], layers: int = reader.LAYERS) -> list[TokenStates]:
        for new in (each for each in clauses if each not in self._known):
            self._known[new] = self._states([new], layers)[0]
        return [self._known[each] for each in clauses]


def words_fitted(clauses: Sequence[str], labels: Sequence[int]) -> Floats:
    """(words + 1, labels): weights, the bias last."""
    grams = [reader.word_grams(each) for each in clauses]
    rows = np.repeat(np.arange(len(grams)), [len(each) for each in grams])
    places = np.concatenate([reader.places_of(each) for each in grams])
    values = np.concatenate([np.full(len(each), reader.WORDS / np.sqrt(max(len(each), 1))) for each in grams])
    x = csr_matrix((values, (rows, places)), shape=(len(grams), reader.WORD_BUCKETS))
    model = LogisticRegression(C=3.0, max_iter=500).fit(x, labels)
    return np.concatenate([model.coef_.T, model.intercept_[None]]).astype(np.float32)


def padded(states: Sequence[Floats]) -> tuple[Tensor, Tensor]:
    """(n, tokens, width), and which tokens are there."""
    x = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(each) for each in states], batch_first=True)
    return x, torch.arange(x.shape[1]) < torch.tensor([len(each) for each in states])[:, None]


def projections_fitted(states: Sequence[Floats], labels: Sequence[int], seed: int) -> tuple[Floats, Floats]:
    """`projections` and `labels` of a classifier."""
    torch.manual_seed(seed)
    project = torch.nn.Linear(states[0].shape[1], PROJECTIONS)
    tell = torch.nn.Linear(PROJECTIONS, len(reader.LABELS))
    drop = torch.nn.Dropout(DROPPED)
    order = sorted(range(len(states)), key=lambda place: len(states[place]))
    places = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    batches = [
        (*padded([states[i] for i in some]), torch.tensor([labels[i] for i in some])) for some in places
    ]
    weights = [*project.parameters(), *tell.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * len(batches))
    for _ in range(EPOCHS):
        for place in torch.randperm(len(batches)).tolist():
            x, there, wanted = batches[place]
            kept = project.weight * drop(torch.ones(x.shape[2]))
            projected = torch.relu(x @ kept.T + project.bias).masked_fill(~there[:, :, None], 0.0)
            loss = cross_entropy(tell(drop(projected.amax(dim=1))), wanted)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    found = [torch.cat([each.weight.T, each.bias[None]]).detach().numpy() for each in (project, tell)]
    return found[0], found[1]


def tokens_of_units(rows: Sequence[Row], states: States) -> Iterator[tuple[Floats, list[int]]]:
    """States of the tokens of each sentence on groups, and the tokens of its unit."""
    for row in rows:
        if row["label"] == "group" and row["text"].isascii():
            x, stands = states.of([row["text"]])[0]
            unit = re.escape(row["unit"].split()[-1].lower()[:5]) if row["unit"] else "(?!)"
            starts = {match.start() for match in re.finditer(rf"(?<![a-z]){unit}", row["text"].lower())}
            yield x, [place for place, (start, end) in enumerate(stands) if end > start and start in starts]


def units_fitted(rows: Sequence[Row], states: States) -> Floats:
    """A score of each token (width,): those of the unit are to have it all, the first, 0, where none is."""
    found = [(x, places or [-1]) for x, places in tokens_of_units(rows, states)]
    x, there = padded([each for each, _ in found])
    wanted = torch.zeros((len(found), x.shape[1] + 1))
    for row, (_, places) in enumerate(found):
        wanted[row, [place + 1 for place in places]] = 1.0
    weights = torch.zeros(x.shape[2], requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        scores = torch.cat([torch.zeros(len(found), 1), (x @ weights).masked_fill(~there, -1e9)], dim=1)
        chance = (torch.softmax(scores, dim=1) * wanted).sum(dim=1)
        value = -chance.clamp_min(1e-9).log().mean() + 2e-3 * (weights**2).sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach().numpy()


def fitted(rows: Sequence[Row], quiet: Sequence[str], states: States) -> reader.SplitClassifier:
    clauses = [*(english(row["text"]) for row in rows), *quiet]
    labels = [*(reader.LABELS.index(row["label"]) for row in rows), *[0] * len(quiet)]
    seen = [x for x, _ in states.of([spaced(each) for each in clauses])]
    fits = [projections_fitted(seen, labels, seed) for seed in range(FITS)]
    tell = [each[:-1] / FITS for _, each in fits]
    bias = np.mean([each[-1] for _, each in fits], axis=0)
    return reader.SplitClassifier(
        words_fitted(clauses, labels),
        np.concatenate([each for each, _ in fits], axis=1),
        np.concatenate([*tell, bias[None]]),
        units_fitted(rows, states),
    )


def judge(classifier: reader.SplitClassifier, rows: Sequence[Row], states: States) -> dict[str, int]:
    """How often texts with `split` and `unit` are told rightly, asked, or left."""
    found: Counter[str] = Counter()
    for row in rows:
        text = readable(english(row["text"]))
        counted = {name: value for name, (value, _) in stated_in(text).items() if name == "group_by"}
        read = classifier.separation(text, states.of)
        facts = with_separation(InferredFacts(None, 0.0, **counted), read, text)
        want = {"stratified": "random", "none": None}.get(row["split"], row["split"])
        asked = facts.split_open.split if facts.split_open is not None else None
        if want is None:
            found["false" if facts.split in ("group", "time") else "asked in vain" if asked else "left"] += 1
        elif facts.split is not None:
            found["right" if facts.split == want else "wrong"] += 1
        else:
            found["missed" if asked is None else "asked" if asked == want else "asked for another"] += 1
        if want == "group" and facts.split == "group" and row["unit"]:
            unit = unit_in_singular(row["unit"].split()[-1])
            found["unit right" if unit[:5] in (facts.group_by or "") else "unit wrong"] += 1
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    options = parser.parse_args()
    rows = [json.loads(line) for line in WRITTEN.read_text("utf-8").splitlines()]
    stored = [json.loads(line) for line in (ROOT / "seeds/competitions.jsonl").open(encoding="utf-8")]
    seen = [(row["description"], row["task"], row.get("split")) for row in stored]
    seen += [
        (english(row["text"]), row["task"], row["facts"].get("split"))
        for name in ("blind4", "blind7", "blind8") for row in descriptions(name)
    ]  # fmt: skip
    texts = [
        text for text, task, split in seen
        if split not in ("group", "time") and not str(task).startswith("time-series")
    ]  # fmt: skip
    quiet = list(dict.fromkeys(clause for text in texts for clause in reader.clauses_of(text)))
    states = States()
    final = fitted(rows, quiet, states)
    for name in JUDGED:
        blind = [
            {"text": row["text"], "split": row["facts"].get("split"), "unit": row["facts"].get("group_by")}
            for row in descriptions(name) if row["task"]
        ]  # fmt: skip
        print(name, judge(final, blind, states), flush=True)
    if options.fit:
        arrays = {name: getattr(final, name).astype(np.float16) for name in reader.SplitClassifier.__slots__}
        np.savez_compressed(ROOT / "seeds" / reader.FILE, **arrays)
        print((ROOT / "seeds" / reader.FILE).stat().st_size, "bytes")
    for author in sorted({row["author"] for row in rows}):
        others = fitted([row for row in rows if row["author"] != author], quiet, states)
        own = [{**row, "split": row["label"]} for row in rows if row["author"] == author]
        ascii_only = [{**row, "unit": row["unit"] if row["text"].isascii() else ""} for row in own]
        print("author", author, judge(others, ascii_only, states), flush=True)


if __name__ == "__main__":
    main()
