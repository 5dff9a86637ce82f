"""How well are past competitions and tasks found? Writes docs/methods/recall.md.

    python -m benchmarks.recall

Questions: two paraphrases of each of the 60 competitions (one short, one long) and 46 descriptions of other
competitions (tests/knowledge/paraphrases.jsonl), 61 page-like descriptions of others (tests/recall/
descriptions.txt), and two sets written later without sight of results (blind2.txt, blind3.txt there).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import recall_blind
from memory_service.domain.common.vocabulary import Mode
from memory_service.recall.encoder import TextEncoder, load_encoder
from memory_service.recall.rank_fusion import WEIGHTS, fuse, outstanding
from memory_service.recall.snapshot import RecallSnapshot
from memory_service.recall.structure import kind_of
from memory_service.services.competitions.signals import ReadText, read_text, text_signals
from memory_service.services.competitions.similar import recall
from memory_service.services.competitions.snapshot import recall_snapshot
from memory_service.services.database.transactions import Database, ReadTransaction
from memory_service.services.editorial import seeding
from memory_service.services.operations import database as databases
from tests.reading import read_alone

ROOT = Path(__file__).parents[1]
Scores = NDArray[np.float32]


@dataclass(frozen=True)
class Question:
    """A text with the competition it paraphrases (None for another one's) and its true task."""

    name: str
    group: str
    half: str
    text: str
    slug: str | None
    task: str


@dataclass(frozen=True)
class Asked:
    """A question read, with what each signal says of every competition."""

    question: Question
    read: ReadText
    signals: Mapping[str, Scores]


def questions() -> list[Question]:
    out = []
    for line in (ROOT / "tests/knowledge/paraphrases.jsonl").read_text().splitlines():
        row = json.loads(line)
        own = row["kind"] == "paraphrase"
        group = f"paraphrases, {row['length']}" if own else "others, short"
        out.append(
            Question(row["id"], group, row["half"], row["text"], row["slug"] if own else None, row["task"])
        )
    for file in ("descriptions", "blind2", "blind3"):
        for block in (ROOT / f"tests/recall/{file}.txt").read_text().split("\n=== "):
            head, text = block.removeprefix("=== ").split("\n", 1)
            name, task, part = (field.strip() for field in head.split("|"))
            if part == "skip":
                continue
            page_like = file == "descriptions"
            group, half = ("others, page-like", part) if page_like else (f"others, {part}", file)
            out.append(Question(name, group, half, text.strip(), None, task))
    return out


def measure(unit: ReadTransaction, asked: Sequence[Asked], encoder: TextEncoder) -> str:
    snapshot = recall_snapshot(unit)
    parts = [_tasks(asked), _signals(snapshot, asked), _service(unit, asked), _blind(unit, encoder)]
    return "\n\n".join([HEAD.format(n=len(snapshot.competitions)), *parts]) + "\n"


HEAD = """# Finding similar competitions

Written by `python -m benchmarks.recall`; {n} competitions stored. Own paraphrases and descriptions, not real
pages. None of the halves is a clean test: errors were studied on "tune" and, once its first figures were
written down, on "blind2"; the texts of "held-out" were not studied, but settings were chosen while its
figures were in sight. Take all of them as development figures. Only the first figures of the two blind sets,
below, are of texts that nothing had been fitted to. "Others" were not stored when they were written; 50 of
their competitions are now (`benchmarks/data/recognition.jsonl`)."""


def _tasks(asked: Sequence[Asked]) -> str:
    lines = ["## The task, read from the text alone", "", "| questions | half | n | words | with encoder |"]
    lines.append("|---|---|---|---|---|")
    for group in dict.fromkeys(a.question.group for a in asked):
        for half in ("tune", "held-out", "blind2", "blind3"):
            part = [a for a in asked if a.question.group == group and a.question.half == half]
            if not part:
                continue
            plain = _share(part, lambda a: read_alone(a.question.text).task == a.question.task)
            full = _share(part, lambda a: a.read.facts.task == a.question.task)
            lines.append(f"| {group} | {half} | {len(part)} | {plain} | {full} |")
    return "\n".join(lines)


def _signals(snapshot: RecallSnapshot, asked: Sequence[Asked]) -> str:
    own = [a for a in asked if a.question.slug]
    lines = ["## Each signal, and their fusion", ""]
    lines += [
        "120 paraphrases. `others` = first neighbour of a question about a competition that is not stored.",
        "",
    ]
    lines += [
        "| ranking | itself first | itself left out: first shares the task | others: first shares the task |"
    ]
    lines.append("|---|---|---|---|")
    strangers = [a for a in asked if not a.question.slug and _stored(snapshot, a.question.task)]
    rankings = _rankings(snapshot)
    for name, rank in rankings.items():
        right = _Right(snapshot, rank)
        first, left, other = (
            _share(own, right.itself),
            _share(own, right.neighbour),
            _share(strangers, right.neighbour),
        )
        lines.append(f"| {name} | {first} | {left} | {other} |")
    alone = _alone(snapshot)
    reach = _share(own, lambda a: a.question.slug not in alone)
    lines += [
        "",
        f"{len(alone)} competitions are alone in their task: nothing passes {reach} in the second column.",
    ]
    return "\n".join(lines)


def _rankings(snapshot: RecallSnapshot) -> dict[str, Callable[[Asked], list[int]]]:
    """What is compared: each signal alone, the fusion with several weights of the task, and the service."""

    def by_signal(name: str) -> Callable[[Asked], list[int]]:
        return lambda asked: _order(asked.signals[name])

    def by_weight(weight: float) -> Callable[[Asked], list[int]]:
        return lambda asked: _fused(snapshot, asked, weight)

    rankings = {name: by_signal(name) for name in ("embedding", "words", "structure")}
    rankings["embedding + words"] = lambda asked: _fused(snapshot, asked, 0.0, structure=False)
    rankings |= {f"all, task weight {weight:g}": by_weight(weight) for weight in (0.5, 1.0, 2.0, 4.0)}
    rankings["all, and what stands out first (the service)"] = lambda asked: _told(snapshot, asked)
    return rankings


@dataclass(frozen=True)
class _Right:
    """Is a ranking right about a question?"""

    snapshot: RecallSnapshot
    rank: Callable[[Asked], list[int]]

    def itself(self, asked: Asked) -> bool:
        return _slug(self.snapshot, self.rank(asked)[0]) == asked.question.slug

    def neighbour(self, asked: Asked) -> bool:
        return _neighbour(self.snapshot, asked, self.rank) == asked.question.task


def _service(unit: ReadTransaction, asked: Sequence[Asked]) -> str:
    own = [a for a in asked if a.question.slug]
    lines = [
        "## The service's answers",
        "",
        "| mode | half | itself first | itself among ten | first other shares task | task |",
    ]
    lines.append("|---|---|---|---|---|---|")
    modes: tuple[Mode, ...] = ("open", "family")
    for mode in modes:
        for half in ("tune", "held-out"):
            part = [a for a in own if a.question.half == half]
            found = [(a.question, recall(unit, read=a.read, limit=10, mode=mode)) for a in part]
            first = np.mean([f.hits[0].slug == q.slug for q, f in found])
            among = np.mean([any(h.slug == q.slug for h in f.hits) for q, f in found])
            other = np.mean([next(h for h in f.hits if h.slug != q.slug).task == q.task for q, f in found])
            task = np.mean([f.facts is not None and f.facts.task == q.task for q, f in found])
            lines.append(f"| {mode} | {half} | {first:.1%} | {among:.1%} | {other:.1%} | {task:.1%} |")
    lines += [
        "",
        "`family` leaves out the competition that the text seems to be of, and its editions: it should not",
    ]
    lines += ["be among ten. In `open` mode the task of a recognised competition overrules what was read."]
    return "\n".join(lines)


def _blind(unit: ReadTransaction, encoder: TextEncoder) -> str:
    """Facts of the 100 descriptions of blind4 and blind7, and recognition of four sets."""
    read, later = (
        recall_blind.facts_read(lambda text: read_text(text, encoder).facts, name)
        for name in ("blind4", "blind7")
    )

    def described(text: str) -> str | None:
        return recall(unit, read=read_text(text, encoder), limit=1).described

    rows = [
        f"| {name} | {read.stated[name]} | {read.right[name]} | {read.wrong[name]} | {read.unstated[name]} |"
        for name in recall_blind.FACTS
    ]
    rows += [
        "",
        f"40 descriptions of blind7: task {later.task_share:.1%}, stated facts {later.fact_share:.1%};",
        f"of what is read of the kinds that it labels {later.claimed_right_share:.1%} stands there so.",
    ]
    head = f"""## Facts and recognition of the later blind sets

60 descriptions of blind4: task {read.task_share:.1%}, stated facts {read.fact_share:.1%}; of what is read
{read.claimed_right_share:.1%} stands there so.

| fact | stated | right | wrong | not stated |
|---|---|---|---|---|"""
    rows += [
        "",
        "| set | of stored ones: recognised | taken for another | of others: taken for a stored one |",
    ]
    rows += ["|---|---|---|---|"]
    for name in ("blind4", "blind5", "blind6", "blind7"):
        found = recall_blind.recognised(described, recall_snapshot(unit).position, name)
        others = ", ".join(f"{kind} {share:.1%}" for kind, share in found.false.items())
        rows.append(f"| {name} | {found.true:.1%} | {found.another:.1%} | {found.false_all:.1%} ({others}) |")
    tail = """
The fit has learned from the texts of stored ones in blind4 and blind5: of those left out by eighths of the
competitions 98.8 % and 93.3 % are recognised, and 0.6 % and 0.0 % of the others are taken for one."""
    return "\n".join([head, *rows, tail])


def _order(scores: NDArray[np.float32] | NDArray[np.float64]) -> list[int]:
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def _fused(
    snapshot: RecallSnapshot, asked: Asked, task_weight: float, *, structure: bool = True
) -> list[int]:
    signals = (
        dict(asked.signals) if structure else {k: v for k, v in asked.signals.items() if k != "structure"}
    )
    probability = snapshot.structure.task_probability(asked.read.task_probability) if task_weight else None
    return _order(fuse(signals, probability, {**WEIGHTS, "task": task_weight}))


def _told(snapshot: RecallSnapshot, asked: Asked) -> list[int]:
    order = _fused(snapshot, asked, WEIGHTS["task"])
    first = outstanding(asked.signals["embedding"], asked.signals["words"])
    return order if first is None else [first, *(i for i in order if i != first)]


def _neighbour(snapshot: RecallSnapshot, asked: Asked, rank: Callable[[Asked], list[int]]) -> str | None:
    first = next(i for i in rank(asked) if _slug(snapshot, i) != asked.question.slug)
    task = snapshot.competitions[first]["task"]
    return str(task) if task else None


def _slug(snapshot: RecallSnapshot, i: int) -> str:
    return str(snapshot.competitions[i]["slug"])


def _stored(snapshot: RecallSnapshot, task: str) -> bool:
    return any(row["task"] == task for row in snapshot.competitions)


def _alone(snapshot: RecallSnapshot) -> set[str]:
    tasks = [row["task"] for row in snapshot.competitions]
    return {str(row["slug"]) for row in snapshot.competitions if tasks.count(row["task"]) == 1}


def _share(asked: Sequence[Asked], right: Callable[[Asked], bool]) -> str:
    return f"{np.mean([right(a) for a in asked]):.1%}" if asked else "-"


def main() -> None:
    loaded = load_encoder()
    if loaded.encoder is None:
        raise SystemExit(loaded.reason)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/recall.sqlite3")
        databases.upgrade(database)
        seeding.seed(database, encoder=loaded.encoder)
        with database.read() as unit:
            snapshot = recall_snapshot(unit)
            asked = []
            for question in questions():
                read = read_text(question.text, loaded.encoder)
                signals, _ = text_signals(unit, snapshot, None, read)
                signals.setdefault("words", np.zeros(len(snapshot.competitions), np.float32))
                signals["structure"] = snapshot.structure.scores(kind_of(read.facts.as_dict()))
                asked.append(Asked(question, read, signals))
            report = measure(unit, asked, loaded.encoder)
        database.close()
    (ROOT / "docs/methods/recall.md").write_text(report + TAIL)
    print(report)


TAIL = """
## First figures of the blind sets, and before and after

Each blind set was committed before the code read any of it.

| set | n | when read first | after the changes |
|---|---|---|---|
| blind2, short (2 to 4 oblique sentences) | 45 | 64.4% | 88.9% (errors studied) |
| blind2, long (with timeline, prizes, rules) | 23 | 82.6% | 95.7% (errors studied) |
| blind3 (written after the changes) | 28 | 92.9% | nothing changed since |
| blind4, 60 descriptions: task | 60 | 83.3% | 96.7% (errors studied) |
| blind4: stated facts | 342 | 67.0% | 93.3% (errors studied) |
| blind4: facts claimed that stand there so | | 90.2% | 97.9% |
| blind4, 80 texts of stored ones (227 stored): recognised | 80 | 85.0% | 98.8% (left out of the fit) |
| blind4, 160 texts of others: taken for a stored one | 160 | 7.5% (near 4.7%, short 18%, generic 0%) | 0.6% |
| blind5, 30 texts of stored competitions: recognised | 30 | 76.7% | 93.3% (left out of the fit) |
| blind5, 30 texts of others: taken for a stored one | 30 | 0.0% | 0.0% |
| blind6, 66 texts of stored ones: recognised | 66 | 92.4% (by the rule before 87.9%) | nothing changed |
| blind6, 66 texts of others: taken for a stored one | 66 | 1.5% (by the rule before 4.5%) | nothing changed |
| blind7, 40 descriptions: task | 40 | 92.5% | 92.5% (errors studied) |
| blind7: stated facts | 122 | 82.8% | 95.9% (errors studied) |
| blind7, 21 texts of stored ones: recognised | 21 | 95.2% | nothing changed |
| blind7, 19 texts of others: taken for a stored one | 19 | 5.3% (1 text) | nothing changed |
| tune, all | 108 | 96.3% before | 97.2% |
| held-out, all | 119 | 89.9% before | 95.0% |

Whoever wrote the blind sets knew the cue tables; blind3 is nearer to how pages speak than blind2 is. What
helped most was nearness to sentences of each task, not more cues: with the cues alone "held-out" stayed at
88 %. The weight of that nearness may be 20 to 60; 80 loses 2 to 3 in 100.

blind4 was written by someone who had read the contract and the competitions, not the code; what a text must
hold to be right is told in `benchmarks/recall_blind.py`. "After" is a development figure: its errors were
read. Six of the first errors were image sizes read as the longer side, where the set has the shorter.

blind5 was written by one who knew the rule, after its weights were fixed and before it was read by the code.
It counted a text as recognised from a probability of 0.6 on, and 76.7 % were; the rule before it recognised
76.7 %, too.

blind6 was written by one who had read this page, but neither the rule nor the reader nor the fit, before the
changes told below: from the facts of 66 competitions drawn by chance, as pages (13), as users tell what they
have (34) and in a sentence or two (19); most of the 66 others are near to a stored one. The same one made
the changes, without looking at it again, so it is weaker than a stranger's would be. It was asked once, the
old rule afterwards for comparison; the rule that ships is the one that was asked, and changes to the reader
since then left the answers as they were. It knows all 13 pages, 33
of 34 and 15 of 19; the one taken wrongly is the real table that a synthetic competition was made from. The
aims of 95 % and 1 % are missed, by two texts and by one; of 66 texts the 95 % intervals are 83 to 97 % and
0 to 8 %.

blind7 was written by one who had seen a few lines of the earlier sets, but neither this page nor the rule nor
the reader, was committed, and was asked once before anything was changed. It labels task, metric, n_train,
n_groups, n_classes, image size and split. The aim for tasks (92 %) was met, that for facts (90 %) missed: 9
of 17 splits and 5 of 13 groups were not read, because the noun ("lines", "glaciers", "wearers") was in no
table. Now whatever a text counts fewer of than of rows is a group if the text gives the test a number of its
own of it, or says in a sentence of the test that these are others: no list of nouns is asked. A month that
follows the months told of is later time; "any of 33" tells classes as "one of 33" does; "18th" counts
nothing. Facts of blind4, whose errors were not looked at for this, went from 93.3 to 93.9 %, and its wrong
numbers of groups from 2 to 0. One label was wrong and is corrected: a text labelled as another's was of a
stored competition, and the reader had known it (20 of 21 and 1 of 19; as labelled 19 of 20 and 2 of 20). The
one taken wrongly counts grey seals for sea lions; the one missed has "siRNAs", which is read as a sequence.
With 19 texts 5 % says little (0 to 26 %): together with blind4 to blind6 it is 3 of 275.

## Recognising a text

Logistic regression on eleven signals (`benchmarks/fit_recognition.py`, which shows its figures on texts held
out by eighths of the competitions). On 457 askings of stored ones and 894 of others, half of them the same
texts with their competition left out, 95.4 % are recognised and 1.1 % taken wrongly; the rule before, 92.6 %
and 2.0 %.

- What the winners of a competition did, and its pitfalls, count as its words, those of many winners for
  little: of blind5, whose texts name models and methods, 97 instead of 83 % were known, held out.
- Editions of one name are no rivals: a text of one of them is as far ahead of all else as if it stood alone,
  and which of them it is of, the other signals tell. As many true ones, 11 instead of 17 others of 894.
- Figures of the text that the record lacks speak against it; a number of samples contradicts only if the
  record names it nowhere ("two billion page views"), and only a number that counts samples ("441 sites" does
  not). Names of columns ("clean_title") are no strangers' names.
- No veto is left: that of another metric or size without the name lost 7 true ones of 457 and spared 3
  others of 894. Pigs are still not taken for cattle.
- The strength of the penalty, the least probability of 0.5 and the share of a name that makes an edition
  (a half) were chosen on these held-out figures.
- No gain: the share of the name or of the record's words that the text holds, the share of the text's words
  that the record holds beside their weight, initials of hosts, how often a word occurs, only names that other
  records know, the probability of the task instead of a bound.

## The score of a neighbour

The probability that question and competition share the task and at least two techniques of their winners, by
logistic regression on cosine, bm25, structure and the probability of the task (`rank_fusion.SHARED`), fitted
on 27 722 pairs of the 167 competitions with known solutions, each asked by its description and itself left
out. By
eighths of the competitions: mean calibration error 0.007 over all pairs (base rate 5.0 %); over the first
five
hits 0.075 (mean 0.50 said, 0.48 true). Scores never rise down the list; the order is that of the fusion.

## What it costs beside the encoder

10 000 competitions, 40 000 passages, SQLite, one thread on one core that others used too, a question of one
sentence: (encoding + everything else) / encoding was 1.8 to 1.9, now 1.5 to 1.6 (17 ms encoding, 8.7 ms
the search after it, of which 2 ms are the product with the half-precision vectors, 1.5 ms the full-text
search, 1 ms bm25 of what it found).
## Told, asked or not planned

`recall/task_classifier.py` gives each task, each kind outside and "tells nothing" a probability: from the
cues of both axes, hashed words and pairs of words, and the mean vector of the passages that are encoded.
`python -m benchmarks.fit_task --fit` fits it (seeds/task_classifier.npz, 0.2 MB). A task is told from 0.5 on;
below, the answer is `feasible: false` with `needs`; between 0.5 and 0.8 a plan is made and the task is among
its `questions`. Probabilities of kinds outside that sum to 0.5 or more mean `out-of-scope`.

Left out by quarters of the competitions (all texts of one together; pages made by rule count half):

| probability | texts | mean | right | words alone: texts | mean | right |
|---|---|---|---|---|---|---|
| 0.00 to 0.30 | 155 | 0.24 | 0.32 | 637 | 0.20 | 0.29 |
| 0.30 to 0.50 | 475 | 0.41 | 0.43 | 617 | 0.40 | 0.44 |
| 0.50 to 0.60 | 287 | 0.55 | 0.55 | 284 | 0.55 | 0.46 |
| 0.60 to 0.70 | 334 | 0.65 | 0.64 | 253 | 0.65 | 0.57 |
| 0.70 to 0.80 | 321 | 0.75 | 0.75 | 316 | 0.75 | 0.66 |
| 0.80 to 0.90 | 495 | 0.86 | 0.83 | 473 | 0.85 | 0.80 |
| 0.90 to 0.95 | 393 | 0.93 | 0.91 | 333 | 0.93 | 0.93 |
| 0.95 to 1.00 | 1314 | 0.98 | 0.97 | 861 | 0.98 | 0.97 |

At 0.5, with the encoder (words alone in brackets): of 1 460 whole texts with a task 88 % are told (79 %), of
those 87 % rightly (84 %); of 303 outside or empty ones 92 % are left unplanned (89 %). Most are one line of
`benchmarks/data/task_texts.txt`, harder than a page: 600 of them came on 2026-11-29 from an author who had
seen neither the classifier nor a test.

| set, not fitted to | n | told | of those right | likeliest by cues and example sentences (before) |
|---|---|---|---|---|
| blind7 | 40 | 38 | 97 % | 92 % (errors studied) |
| blind8, first figure (before all changes) | 30 | 27 | 78 % | |
| blind8, after | 30 | 30 | 93 % | |
| blind9, by a stranger, before all changes | 60 | 57 | 86 % | |
| blind9, after mending against it | 60 | 58 | 93 % | |
| blind10, by another stranger: the same reader as before blind9 | 53 | 44 | 95 % | |
| blind10, with what blind9 taught, measured once | 53 | 52 | 94 % | |
| blind11, by a third stranger (100 texts), measured once | 88 | 79 | 90 % | |
| blind8, ten outside every kind: left unplanned | 10 | | 10 % before, 90 % after | |

What else was read of them (of the texts that state it), in the same order as above:

| set | training rows: right, wrong | classes: right, wrong | splits right | outside left unplanned |
|---|---|---|---|---|
| blind9, before | 46, 7 of 60 | 13, 2 of 30 | 18 of 39 | 9 of 10 |
| blind9, after mending against it | 57, 0 | 28, 0 | 37 | 10 |
| blind10, before | 44, 5 of 53 | 13, 0 of 26 | 15 of 35 | 5 of 7 |
| blind10, measured once | 44, 3 | 15, 0 | 21 | 5 |
| blind11, measured once, splits by rules alone | 66, 4 of 80 | 27, 1 of 46 | 22 of 45 | 11 of 12 |
| blind11, splits by the classifier, which was not fitted to it | | | 27, 9 more asked | |

How test differs from training was read by rules on sentences (`separation.toml`) until blind11: of its
30 splits by groups they found six. A classifier of clauses (`recall/split_classifier.py`, `python -m
benchmarks.fit_split`) now reads what the rules leave: hashed words, their shapes, the rules and the
vectors of the four likeliest clauses, fitted to 2 000 sentences that two authors wrote without having
seen a reader, and 60 plain denials of our own. From .85 on it tells, from .4 on it asks. Of 43 texts of
blind11 without a split (20 of them traps, such as "one picture per dog, so no need to worry") it told
three of one and asked for seven; the rules told three. The noun of the group is right in half of the
cases there.

blind8 has 20 English texts, ten in other languages (German, French, Spanish, Portuguese, Chinese, Japanese,
Hindi) and ten outside. It was written before the classifier, by the one who then wrote it and
`task_texts.txt`, some lines of which are close to it: only its first figure is a blind one. Other languages
are read through `domain/description/languages.toml`, some 500 words that tell a task, a metric or a count.

## What was tried

- Reading the task: phrase cues for what goes in and for what comes out as two axes, with the metrics named;
  then the encoder's nearness to sentences that describe each kind, and to others that describe each task; now
  the fitted classifier, which has those sentences among its texts.
- A metric may tell the data, too (CIDEr pictures, concordance a table, Recall@20 a catalogue); pictures, text
  and columns together tell of multimodal data without a phrase for it: with the encoder 8 of 559 gained,
  none lost. Not counting what follows "no" or "without" changed nothing. Of 64 texts of blind6 whose record
  has a task, 78 % were read as that task at first and now: many of a sentence or two leave the data open.
- Timeline, prizes, rules and thanks, appended to every text, brought short ones from 92 % to below 60 %
  before such sections were left out; now they change nothing.
- Passages of a long question: three of at most 600, 500 or 400 characters find the same; 400 cost least.
- Words: the database's own rank of passages found 118 of 120 paraphrases first, bm25 over the whole
  competition all.
- What stands out: a competition whose word score is 1.5 times the next one's, at most 0.06 further in meaning
  than the nearest, is put first. From 1.2 on no more paraphrases were found, and more strangers were misled.
  A margin in meaning besides cost one paraphrase in fourteen.
"""


if __name__ == "__main__":
    main()
