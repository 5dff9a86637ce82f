"""The catalogue with its profiles, priced per card as asked for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from cachetools import LRUCache

from memory_service.domain.common.vocabulary import modality_of, writes_text
from memory_service.domain.cost.bands import COLOURS, with_bands
from memory_service.domain.cost.decoders.decoder import decoder_of
from memory_service.domain.cost.decoders.packing import texts_per_row
from memory_service.domain.cost.in_context import context_laws
from memory_service.domain.cost.mask_classes import with_mask_classes
from memory_service.domain.cost.profile import Work
from memory_service.domain.cost.step_config import precision_class
from memory_service.domain.cost.throughput_knee import BATCH_LADDER
from memory_service.domain.planning.cost_table import (
    CostTable,
    PricedProfiles,
    build_table,
    priced_profiles,
    with_memory,
    worst_of,
)
from memory_service.domain.planning.hyperparameters import is_dense, learns_from_scratch
from memory_service.domain.planning.model_catalogue import (
    CatalogueModel,
    can_take,
    models_for_task,
    of_speech,
    shape_of,
    untrained,
)
from memory_service.domain.planning.option import Columns, Option, OptionNames, columns_of, make_option
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.prediction.device import TargetDevice
from memory_service.domain.quality.quality_index import from_random_weights, learning_of, size_points
from memory_service.services.database.caches import Caches
from memory_service.services.knowledge.decoder_options import Asked, DecoderOptions
from memory_service.services.knowledge.profile_library import ProfileLibrary
from memory_service.services.knowledge.profiling import profile_in_child_process

MOST_BYTES = 48 * 2**20
"""Of priced tables kept, oldest use dropped first: the largest task takes about 1 MB a card and precision."""

MOST_OPTION_LISTS = 128

MOST_STACKED_BYTES = 16 * 2**20
"""Of profiles as arrays: those of the largest task take 2 MB a precision."""

Key = tuple[Any, ...]
Priced = TypeVar("Priced")
Known = tuple[tuple[Option, ...], Columns, OptionNames]
"""Options of a question, their constants, and what names them."""

LEAST_STRIP = 8.0
"""Longer side by shorter, by which it is known whether a network takes strips."""


class PricedCatalogue:
    """Models, profiles, and the cost tables made from them so far (safe to share between threads).

    unlisted        models that callers pinned and no catalogue row names: never offered to anybody else
    caches          of what follows from exactly these models and profiles
    """

    def __init__(self, models: Mapping[str, CatalogueModel], library: ProfileLibrary) -> None:
        self.models = dict(models)
        self.library = library
        self.unlisted: dict[str, CatalogueModel] = {}
        self.caches = Caches()
        self._lock = threading.Lock()
        self._tables: LRUCache[Key, CostTable] = LRUCache(MOST_BYTES, attrgetter("nbytes"))
        self._options: LRUCache[Key, Known] = LRUCache(MOST_OPTION_LISTS)
        self._stacks: LRUCache[Key, PricedProfiles] = LRUCache(MOST_STACKED_BYTES, attrgetter("nbytes"))
        self._decoders = DecoderOptions()
        self._trees: dict[str, list[CatalogueModel]] = {}
        self._no_trees: CostTable | None = None

    def with_models(self, models: Mapping[str, CatalogueModel]) -> PricedCatalogue:
        """The same profiles with other models. What was priced without those that changed is kept, and leaves
        this catalogue; what was traced for them is not."""
        before = self.models
        names = {name for name in before.keys() | models.keys() if before.get(name) != models.get(name)}
        changed = [rows[name] for rows in (before, models) for name in names if name in rows]
        tasks = {task for model in changed for task in model.tasks}
        traced = {model.architecture for model in changed}
        new = PricedCatalogue(models, self.library.without_traces(traced))
        new._lock = self._lock
        with self._lock:
            new._trees = {task: rows for task, rows in self._trees.items() if task not in tasks}
            while self._options:
                key, known = self._options.popitem()
                if key[0] not in tasks and not {name for name, *_ in known[2]} & names:
                    new._options[key] = known
            _move_others(self._tables, new._tables, names)
            _move_others(self._stacks, new._stacks, names)
        return new

    def table(self, case: PlanningProblem, cards: tuple[TargetDevice, ...], precision: str) -> CostTable:
        """The case's network options priced on the cards (the worst of them, figure by figure)."""
        said, classes = case.question, case.n_classes if case.task == "image-segmentation" else 0
        asked = Asked(
            said.image_size, said.seq_len, case.n_features, said.method, said.lora_rank,
            case.together.n if said.sharding == "fsdp" else 1, all(card.kind == "cuda" for card in cards),
            said.trainer, said.packing, said.text_tokens, said.weights == "none",
            classes if classes > 2 else 0, case.volumes, case.bands, case.aspect_ratio > 1,
            case.subtask if modality_of(case.task) == "audio" else None,
        )  # fmt: skip
        key = (case.task, case.model, asked, said.licence)
        with self._lock:
            known = self._options.get(key)
        if known is None:
            options = tuple(self.options(case.task, asked, case.model))
            if said.licence == "commercial":
                options = tuple(option for option in options if option.model.commercial)
            more = asked.shards, asked.mask_classes, asked.trainer, asked.bands, asked.speech
            names = OptionNames.of(options, writes_text(case.task), *more)
            known = (options, columns_of(options), names)
            with self._lock:
                self._options[key] = known
        batch, vram = said.batch_size, said.vram_gib
        return worst_of([self._priced(known, card, precision, batch, vram) for card in cards])

    def forget_all_but(self, cards: Iterable[TargetDevice]) -> None:
        """Drop tables of calibrations and observations that no card stands on any more."""
        used = {id(part) for card in cards for part in (card.calibrated, card.learned)}
        with self._lock:
            for key, table in list(self._tables.items()):
                if not all({id(gpu.calibrated), id(gpu.learned)} <= used for gpu in table.gpus):
                    del self._tables[key]

    def row(self, name: str) -> CatalogueModel:
        """The catalogue's row, or that of an unlisted model somebody pinned; KeyError otherwise."""
        return self.models.get(name) or self.unlisted[name]

    def ensure_profile(self, name: str, input_size: int | None = None) -> None:
        """Trace a catalogue model that has no profile yet, in this process only (a few seconds, once).

        Raises InvalidInput when it cannot be traced. Models with another cost law need none.
        """
        model = self.row(name)
        if self.library.sizes_of(model) or not model.can_be_profiled or model.is_trees:
            return
        if decoder_of(model.config) is not None:
            return
        size = input_size or model.default_input_size
        for precision in ("amp", "fp32"):
            self.library.add(
                profile_in_child_process(
                    name,
                    input_size=size,
                    precision=precision,
                    library=model.library,
                    config=model.config,
                    family=model.family,
                )
            )

    def trees(self, case: PlanningProblem) -> CostTable:
        """Boosted trees that serve the task, as rows without rungs; none where the input or model says
        otherwise."""
        if case.task not in self._trees:
            serving = models_for_task(case.task, self.models.values())
            texts = modality_of(case.task) == "text"  # whose linear model a script trains
            self._trees[case.task] = [row for row in serving if row.is_trees or (texts and row.is_estimator)]
        serving = self._trees[case.task]
        if case.model is not None and self.row(case.model).is_estimator:
            serving = [self.row(case.model)]  # planned only when asked for: no script trains them
        elif case.model is None:
            serving = [*serving, *self._in_context(case)]
        wide = {"n_features": max(1, case.n_features)}
        rows = [
            make_option(case.task, model, wide.get(model.input_kind, model.default_input_size), {})
            for model in serving
            if case.model in (None, model.name)
            and not (case.question.weights == "none" and model.pretrained)
            and (model.commercial or case.question.licence != "commercial")
        ]
        if rows:
            return build_table(rows, case.cards[0], "fp32", (1,))
        if self._no_trees is None:
            self._no_trees = build_table(rows, case.cards[0], "fp32", (1,))
        return self._no_trees

    def _in_context(self, case: PlanningProblem) -> list[CatalogueModel]:
        """Models without training that may be planned unasked, with public weights that no hand must fetch:
        of tables whose rows are drawn alike, where a card is, and of series, on cores the quick ones."""
        alike = not case.by_time and not case.by_group
        if not (case.forecasts or (alike and modality_of(case.task) == "tabular")):
            return []
        laws, card = context_laws(), all(card.kind == "cuda" for card in case.cards)
        named = (name for name, law in laws.items() if card or (law.of_series and law.cpu < 10.0))
        free, quick = models_for_task(case.task, self.models.values()), frozenset(named)
        return [row for row in free if row.name in quick and not row.config.get("pinned_only")]

    def options(self, task: str, asked: Asked, model: str | None = None) -> list[Option]:
        """Models x input sizes that can be planned for a task.

        A table's columns are what they are: networks on tables are priced at `asked.n_features`. A pinned
        model has the sizes that it has where none is pinned, so that naming the model that was planned plans
        it again. Networks for a processor alone are planned only when pinned, or for masks and boxes where
        no weights and no card are there.
        """
        method = asked.method
        if model:
            rows = of_speech([self.row(model)], asked.speech) or [self.row(model)]
        else:
            serving = models_for_task(task, self.models.values())
            small = asked.weightless and not asked.paged and is_dense(task)
            free = (row for row in serving if not row.config.get("pinned_only"))
            rows = [row for row in free if row.device != "cpu" or small]
            rows = [row for row in serving if row.good_for.startswith("volumes")] if asked.volumes else rows
            rows = of_speech(rows, asked.speech)
            rows = rows if not method or any("methods" in row.config for row in rows) else serving
        if asked.strips and not model:
            rows = [row for row in rows if shape_of(row, row.default_input_size, LEAST_STRIP)]
        decoders = [row for row in rows if (method or "methods" in row.config) and not asked.weightless]
        out = self._decoders.options(decoders, task, asked)
        if asked.text_tokens is not None:
            per_row = [texts_per_row(o.input_size, asked.text_tokens, asked.packing) for o in out]
            out = [replace(o, texts_per_row=texts) for o, texts in zip(out, per_row, strict=True)]
        tuned = {option.model.name for option in out}
        rows = [row for row in rows if self.library.sizes_of(row) and row.name not in tuned and not method]
        rows = rows if asked.shards == 1 else []
        if asked.weightless:
            kept = (r for r in rows if model or not r.pretrained or learns_from_scratch(task, r.family))
            rows = untrained(kept)
        pinned = asked.image_size or asked.seq_len
        if pinned and not model and len(rows) > SHORTLIST:
            rows = shortlist(task, self._taking(rows, pinned), pinned)
        for row in rows:
            wanted, profiled = asked.of(row.input_kind), self.library.sizes_of(row)
            if wanted is not None:
                out.extend([self._option(task, row, wanted)] if can_take(row, wanted, profiled) else [])
            else:
                usual = [size for size in profiled if size in row.input_sizes]
                usual = usual or [_nearest(row.default_input_size, profiled)]
                out.extend(self._option(task, row, size) for size in usual)
        if asked.image_size is None and modality_of(task) == "image" and not is_dense(task):
            usual_ones = {(option.model.name, option.input_size) for option in out}
            for size in SMALL_SIZES:
                cheap = cheapest(task, self._taking(rows, size), size)
                out.extend(
                    self._option(task, row, size) for row in cheap if (row.name, size) not in usual_ones
                )
        if asked.mask_classes or asked.bands != COLOURS:
            out = [_with(option, asked.mask_classes, asked.bands) for option in out]
        return out

    def _taking(self, rows: Iterable[CatalogueModel], size: int) -> list[tuple[CatalogueModel, Work]]:
        """The models that accept the size, with what they compute and move of a pixel or token."""
        takes = (row for row in rows if can_take(row, size, self.library.sizes_of(row)))
        return [(row, self._work(row)) for row in takes]

    def _work(self, row: CatalogueModel) -> Work:
        size = self.library.sizes_of(row)[0]
        profile = self.library.plain(row, size, "amp") or self.library.plain(row, size, "fp32")
        if profile is None:
            return Work(inf, inf)
        units = size * size if row.input_kind == "image_size" else size
        work = list(profile.forward.values())
        return Work(
            sum(each.flops_per_sample for each in work) / units,
            sum(each.bytes_per_sample for each in work) / units,
        )

    def _option(self, task: str, row: CatalogueModel, size: int) -> Option:
        return make_option(task, row, size, *self.library.of_option(row, size))

    def _priced(
        self, known: Known, card: TargetDevice, precision: str, batch: int | None, vram: float | None
    ) -> CostTable:
        """The options' table on one card; tasks that weigh the same networks share its figures."""
        options, columns, names = known
        figures = _figures(card)
        key = (names, figures, precision, batch, vram)
        with self._lock:
            table = self._tables.get(key)
        if table is not None:
            return replace(table, options=tuple(options), columns=columns)
        stacked = self._stacked(known, precision)
        if vram is not None:
            card = with_memory(card, vram)
        rungs = BATCH_LADDER if batch is None else (batch,)
        table = build_table(options, card, precision, rungs, stacked, columns)
        with self._lock, contextlib.suppress(ValueError):  # a table larger than the whole cache
            self._tables[key] = table
        return table

    def _stacked(self, known: Known, precision: str) -> PricedProfiles:
        options, _, names = known
        key = (names, precision_class(precision))
        with self._lock:
            stacked = self._stacks.get(key)
        if stacked is None:
            stacked = priced_profiles(options, precision)
            with self._lock, contextlib.suppress(ValueError):
                self._stacks[key] = stacked
        return stacked


def _with(option: Option, n_classes: int, bands: int) -> Option:
    """The option with so many kinds of masks and bands of a picture."""
    plain, saving = (
        {kind: with_bands(with_mask_classes(profile, n_classes), bands) for kind, profile in known.items()}
        for known in (option.profile, option.checkpointed)
    )
    return replace(option, profile=plain, checkpointed=saving)


def _move_others(old: LRUCache[Key, Priced], new: LRUCache[Key, Priced], names: set[str]) -> None:
    """What was priced without these models; the first member of a key is (name, ...) of each option."""
    while old:
        key, priced = old.popitem()
        if not {name for name, *_ in key[0]} & names:
            new[key] = priced


def _figures(card: TargetDevice) -> Hashable:
    """All of a card that a price depends on; what was measured and observed counts by identity."""
    return (
        card.slug, card.device, card.memory_gib, card.usable_gib, card.bandwidth_gb_s, card.tdp_w,
        tuple(sorted(card.tflops.items())), card.extra.get("cores"), card.calibrated, card.learned,
    )  # fmt: skip


def _nearest(wanted: int, sizes: Sequence[int]) -> int:
    return min(sizes, key=lambda size: (abs(size - wanted), size))


SHORTLIST = 48
"""Models considered at a pinned size: the cheapest of their score there and the best scores."""

SMALL_SIZES = (32, 64, 96, 128, 160)
"""Of images, below a model's usual sizes: for few minutes, a processor or tiny images. All models at all of
them would triple the options, for 0.2 index points on average."""

OPERATIONS_A_BYTE = (0, 100)
"""What computing costs on a processor, and on a card, which computes as much while it reads a byte: networks
that are cheap on one are not on the other."""

IMAGES = 5_000
"""How many are taken where the score from random weights depends on it."""

Works = Sequence[tuple[CatalogueModel, Work]]
"""Models that accept a size, with what each computes and moves of a pixel or token."""


def cheapest(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The models whose score at the size no cheaper one reaches, on a processor or on a card."""
    out = {}
    for each in OPERATIONS_A_BYTE:
        least = inf
        costs = ((work.flops_per_sample + each * work.bytes_per_sample, row) for row, work in models)
        ranked = sorted(
            ((-_score_at(task, row, size), cost, row.name, row) for cost, row in costs),
            key=itemgetter(0, 1, 2),
        )
        for _, cost, name, row in ranked:
            if cost < least:
                out[name] = row
                least = cost
    return list(out.values())


def shortlist(task: str, models: Works, size: int) -> list[CatalogueModel]:
    """The cheapest and the best of the models."""
    best = sorted((row for row, _ in models), key=lambda row: -_score_at(task, row, size))
    names = {row.name: row for row in (*cheapest(task, models, size), *best[: SHORTLIST // 2])}
    return list(names.values())[:SHORTLIST]


def _score_at(task: str, row: CatalogueModel, size: int) -> float:
    points: float = row.quality_score
    if not row.pretrained and row.input_kind == "image_size":
        points = float(from_random_weights(points, row.params_m, IMAGES))
    ratio = min(size / row.default_input_size, 1.0)
    return points + float(size_points(ratio, learning_of(task, row.pretrained, family=row.family)))
