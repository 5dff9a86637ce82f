"""How much of what won since 2020 can be planned? Part of docs/methods/models.md.

    python -m benchmarks.coverage [SOLUTIONS.jsonl] [--since 2020] [--json] [--write docs/methods/models.md]

A mention is a family that a solution names in `families` (names of `domain.recipe.vocabulary`), or a model
that it names in `models`, as people write it. It can be planned if /recommend makes a feasible plan of that
very model with memory, minutes and an expected quality, on an A100 of 80 GB with a week: a family counts if
any model of it does. `other`, `rules` and `metric-learning` name no model; nor do entries without an
architecture ("59 base models") or those of `NOT_TRAINED`. A timm model that the catalogue lacks is traced on
the way, as the service does when somebody asks for it.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.page import Section
from memory_service.domain.cost.families import family_of
from memory_service.domain.planning.model_catalogue import CatalogueModel, model_index, normal_model_name
from memory_service.domain.recipe.vocabulary import families_of
from memory_service.errors import MemoryServiceError
from memory_service.measure.vision import is_timm_name
from memory_service.resources import path as resource
from memory_service.services.database.transactions import Database
from memory_service.services.editorial import seeding
from memory_service.services.knowledge.snapshot import knowledge_of
from memory_service.services.operations import database as databases
from memory_service.services.planning.recommend import recommend

NO_MODEL = {"other", "rules", "metric-learning"}

NOT_TRAINED = re.compile(
    r"rules|heuristic|optimi[sz]|search|annealing|greedy|filter\b|least squares|template|rtklib|colmap"
    r"|gtsam|physical|bayesian inference|polynomial transit|decomposition|gradient descent|inversion"
    r"|pca\b|nmf\b|dictionary|rosetta|foldx|n-gram|\d-gram|adalam|gftt|keynet|sfm|check_orientation"
    r"|autogluon|lightautoml|flaml|autoxgb",
    re.IGNORECASE,
)
"""Steps of a solution that no network or estimator is trained for, and programs that choose models."""

_VAGUE = frozenset(
    """
    a about aggregator all attention binary convolution convolutional deep dilation hypercolumns loss hot
    pairwise parts scale sets supervision wise an and aortic backbones bar base before blend boosted
    bootstrap boxes cell channel character classification classifier classifiers context correction ctc cuml
    decoder decoders depth detector detectors different distilled dropout each early eight embedder embedding
    embeddings encoder enlargement ensemble entry equals error feature features feed filter first five for
    forward four from head heads helpers image images in incl into keras kinds label large layer leaves level
    line many map maps member members meta meta_model model models month multi network networks neural nn of
    on one or other others outputs own pair parameters per point ported predictions preference priors
    probabilities punctuation pytorch quantile ranker raw reader recogniser regression regressor regressors
    remaining residuals retrieval reward rounds sample second seeds segmentation segmenter seven several
    single six small some stack stacker stackers step steps student teacher teachers ten tensorflow text tf
    third three tick times to token two under variant variants whole wide width with without x
    """.split()  # noqa: SIM905
)
"""Words that name no architecture."""


@dataclass
class Count:
    """Mentions of one family: all, those that can be planned, and which names cannot."""

    all: int = 0
    planned: int = 0
    missing: Counter[str] = field(default_factory=Counter)

    def add(self, name: str, planned: bool) -> None:
        self.all += 1
        self.planned += planned
        if not planned:
            self.missing[name] += 1


class Planner:
    """Which models of the catalogue /recommend can plan, asked once each."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.models: Mapping[str, CatalogueModel] = knowledge_of(database).priced.models
        self.index = model_index(self.models)
        self.asked: dict[str, bool] = {}
        self.of_family: dict[str, list[str]] = defaultdict(list)
        for model in self.models.values():
            for name in families_of(model.name, model.family):
                self.of_family[name].append(model.name)

    def plans(self, name: str) -> bool:
        if name not in self.asked:
            try:
                self.asked[name] = self._plans(knowledge_of(self.database).model(name))
            except MemoryServiceError:
                self.asked[name] = False
        return self.asked[name]

    def _plans(self, model: CatalogueModel) -> bool:
        question: dict[str, Any] = {
            "task": model.tasks[0], "model": model.name, "gpu": "a100-80gb", "minutes": 10_000,
            "n_train": 10_000, "mode": "blind",
        }  # fmt: skip
        answer = recommend(self.database, question)
        expected = answer.get("expected") or {}
        memory = sum((expected.get(f"{of}_memory_gib") or {}).get("value") or 0.0 for of in ("peak", "host"))
        quality = (expected.get("quality_index") or {}).get("value")
        return bool(answer["feasible"] and memory and quality and expected["total_minutes"]["value"])

    def family(self, name: str) -> bool:
        return any(self.plans(model) for model in self.of_family.get(name, ()))

    def named(self, text: str) -> str | None:
        """The model of the catalogue, else of timm, that the longest run of words of the text names."""
        words = re.sub(r"[(),;:]", " ", text).split()
        for length in range(len(words), 0, -1):
            for start in range(len(words) - length + 1):
                name = normal_model_name(" ".join(words[start : start + length]))
                if name in self.index:
                    return self.index[name]
                if is_timm_name(name):
                    return name
        return None


def mentions(entry: str) -> Iterator[str]:
    """The models that an entry of `models` names: "U-Net MaxViT" one, "Swin + BERT decoder" two."""
    for part in re.split(r"\s\+\s|,\s|\sand\s|\sor\s", entry):
        text = re.sub(r"\(.*?\)|\bx\d+\b|^\s*\d+x?\s", " ", part).strip()
        words = [
            word
            for word in re.split(r"[\s\-]+", text.lower())
            if word and not re.fullmatch(r"[\d.]+m?", word)
        ]
        if not NOT_TRAINED.search(part) and any(word not in _VAGUE for word in words):
            yield text


def count(planner: Planner, solutions: list[dict[str, Any]]) -> tuple[dict[str, Count], dict[str, Count]]:
    """(families, named models by family) of the solutions; a model nobody knows counts for its solution's
    first family."""
    families: dict[str, Count] = defaultdict(Count)
    named: dict[str, Count] = defaultdict(Count)
    for solution in solutions:
        own = [name for name in solution["families"] if name not in NO_MODEL]
        for name in own:
            families[name].add(name, planner.family(name))
        for text in (text for entry in solution["models"] for text in mentions(entry)):
            found = planner.named(text) or planner.named(text.partition("/")[0])  # "B3/B5/B7": the first
            row = planner.models.get(found or "")
            if row:
                named[families_of(row.name, row.family)[0]].add(row.name, planner.plans(row.name))
            elif found:
                named[families_of(found, family_of(found))[0]].add(found, planner.plans(found))
            else:
                named[own[0] if len(own) == 1 else "not known"].add(text, False)
    return families, named


def total(counts: Mapping[str, Count]) -> Count:
    return Count(sum(c.all for c in counts.values()), sum(c.planned for c in counts.values()))


def page(families: Mapping[str, Count], named: Mapping[str, Count], since: int) -> str:
    of_family, of_name = total(families), total(named)
    both = Count(of_family.all + of_name.all, of_family.planned + of_name.planned)
    intro = (
        "Written by `python -m benchmarks.coverage --write docs/methods/models.md`"
        f" over the solutions since {since}:"
        f" **{_share(both)}** of all mentions can be planned with memory, time and quality:"
        f" {_share(of_family)} of those of a family, {_share(of_name)} of the models named as their authors"
        " wrote them. Families with the most mentions first."
    )
    lines = [
        *textwrap.wrap(intro, 118),
        "",
        "| family | mentioned | can be planned | models named | can be planned | not yet |",
        "|---|---:|---:|---:|---:|---|",
    ]
    names = sorted(
        {*families, *named}, key=lambda n: (-families.get(n, Count()).all - named.get(n, Count()).all, n)
    )
    for name in names:
        one, other = families.get(name, Count()), named.get(name, Count())
        missing = ", ".join(text for text, _ in other.missing.most_common(4))
        lines.append(f"| {name} | {one.all} | {one.planned} | {other.all} | {other.planned} | {missing} |")
    return "\n".join(lines)


def _share(count: Count) -> str:
    return f"{count.planned / max(count.all, 1):.1%} ({count.planned} of {count.all})"


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("solutions", nargs="?", type=Path, default=resource("seeds", "solutions.jsonl"))
    arguments.add_argument("--since", type=int, default=2020)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--write", type=Path)
    options = arguments.parse_args()
    years = {row["slug"]: row.get("year") or 0 for row in _rows(resource("seeds", "competitions.jsonl"))}
    solutions = [s for s in _rows(options.solutions) if years.get(s["competition"], 0) >= options.since]
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/memory.sqlite3")
        databases.upgrade(database)
        seeding.seed(database)
        families, named = count(Planner(database), solutions)
        database.close()
    text = page(families, named, options.since)
    if options.json:
        parts = {"families": families, "named": named}
        print(
            json.dumps({p: {n: vars(c) for n, c in counts.items()} for p, counts in parts.items()}, indent=1)
        )
    else:
        print(text)
    if options.write:
        section = Section("coverage", options.write)
        section.keep(section.marked(text))


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


if __name__ == "__main__":
    main()
