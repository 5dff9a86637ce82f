"""Batch and minutes of a script against a card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from memory_service.domain.common.units import plural
from memory_service.domain.planning.policy import RESERVE_SHARE
from memory_service.errors import InvalidInput, Unavailable
from memory_service.review.engine import SizingFacts
from memory_service.review.findings import Finding, finding
from memory_service.review.rules.hardware import NEVER_WITHOUT_REASON
from memory_service.review.training import BOOSTERS
from memory_service.review.training_plan import ADAPTERS, RECOMPUTED, TrainingPlan, smaller_than

if TYPE_CHECKING:
    from memory_service.domain.planning.fits import Fits
    from memory_service.domain.planning.run_seconds import Seconds
    from memory_service.domain.prediction.device import TargetDevice
    from memory_service.services.knowledge.snapshot import Knowledge

HALF = 2
FAR_UNDER = 4
"""A batch under a quarter of what the card computes best is far under it; of 32 images and fewer, for which
R28 asks a reason, one from half on."""

LIKELY_SHARE = 0.8
"""Of the minutes, which what is proposed instead is expected to take."""

WITHOUT_CARDS = "no card is known here: name a server (--server or MEMORY_SERVER) or a database"

_FIXED, _SIZE = re.compile("vit|deit|swin|beit|eva|cait|xcit"), re.compile(r"_\d{3}(\.|$)")
"""In names of networks that take one size of picture alone."""

_PARTS = ("low", "value", "high")
_LEAST = {"image_size": 64, "seq_len": 32}
_LIGHTENS = frozenset(("method", "lora_rank", "gradient_checkpointing"))
_SIZED = ("batch-does-not-fit", "batch-too-small by the card", "cannot-end-in-budget")


@dataclass
class Sizing:
    """Batch and minutes against the card."""

    facts: SizingFacts
    plan: TrainingPlan
    tensor_cores: bool | None
    query: Mapping[str, Any]
    knowledge: Knowledge | None
    not_checked: list[str]

    @property
    def _training(self) -> float:
        """Share of the minutes that the reserve leaves (R14)."""
        return 1.0 - (RESERVE_SHARE if self.knowledge is None else self.knowledge.policy.reserve_share)

    def findings(self) -> list[Finding]:
        """Of the card where it can be sized, else by R28's limits alone."""
        if self.plan.model in BOOSTERS:
            return [*self._fits_of_trees(), *self.facts.small_batches]
        why = self._why_not()
        predicted = None
        found: list[Finding] = []
        if why is None:
            predicted, why = self._predicted(traces=0)
            if (
                predicted is None
                and _LIGHTENS & self.plan.options.keys()
                and "n_classes" not in self.plan.options
            ):
                lighter = RECOMPUTED if "method" not in self.plan.options else ADAPTERS
                return replace(self, plan=replace(self.plan, options={}, lighter=lighter)).findings()
            found = list(self._by_smaller()) if predicted is None else []
            if predicted is None and not found and self.plan.framework != "ultralytics":
                predicted, why = self._predicted()
        if predicted is None:
            self.not_checked += [f"{what}: {why}" for what in _SIZED if not found]
            return [*found, *self.facts.small_batches]
        if not self._is_told(predicted):
            size = _at(predicted).removeprefix(" at ")
            found = [*self._of_the_smallest(predicted)]
            if not found:
                self.not_checked += [f"{w}: the input is not told: {size} or another?" for w in _SIZED[::2]]
            return [*found, *self._too_small(predicted)]
        if self.plan.lighter:
            self.not_checked += [f"{what}: {self._why_lighter()}" for what in _SIZED[:2]]
            return [*self._too_long(predicted), *self.facts.small_batches]
        return [*self._too_large(predicted), *self._too_small(predicted), *self._too_long(predicted)]

    def _why_not(self) -> str | None:
        if not self.query.get("gpu"):
            return "no card was given (gpu)"
        if self.knowledge is None:
            return WITHOUT_CARDS
        if self.plan.model is None:
            several = ", ".join(self.plan.models[:5])
            unknown = "the model is not one that can be told"
            return f"several models are made: {several}" if several else unknown
        if self.plan.lighter and self.plan.lighter != RECOMPUTED:
            return self._why_lighter()
        if self.plan.framework in ("keras", "tensorflow"):
            return "figures are of PyTorch, not of Keras"
        return None

    def _of_the_smallest(self, usual: Mapping[str, Any]) -> Iterator[Finding]:
        """What not even the smallest picture or text does that a script would train on."""
        name = "image_size" if "image_size" in usual else "seq_len"
        least, size = _LEAST[name], usual[name]
        pixels, tokens = (least, None) if name == "image_size" else (None, least)
        plan = replace(self.plan, image_size=pixels, seq_len=tokens)
        predicted = replace(self, plan=plan, not_checked=[])._predicted(traces=0)[0]
        if predicted is not None and not self.plan.lighter:
            yield from replace(self, plan=plan, not_checked=[])._too_large(predicted)
        if "epoch_seconds" not in usual:
            return
        if predicted is None:  # work grows with pixels, and at least so with tokens
            share = min(1.0, (least / size) ** (2 if pixels else 1))
            seconds = {part: usual["epoch_seconds"][part] * share for part in _PARTS}
            predicted = {**usual, "epoch_seconds": seconds}
        for one in replace(self, not_checked=[])._too_long(predicted):
            unit = "pixels a side" if pixels else "tokens"
            yield replace(one, message=f"Even of {least} {unit}, {one.message}")

    def _is_told(self, predicted: Mapping[str, Any]) -> bool:
        """Whether the script, the question or the model's own name says how large an input is."""
        for name in ("image_size", "seq_len"):
            if name in predicted and not (getattr(self.plan, name) or self.query.get(name)):
                model = str(self.plan.model)
                return bool(_FIXED.search(model) and _SIZE.search(model))
        return True

    def _why_lighter(self) -> str:
        what = "memory is not that" if self.plan.lighter == RECOMPUTED else "memory and time are not those"
        return f"{self.plan.lighter}, so {what} of {self.plan.model}"

    def _by_smaller(self) -> Iterator[Finding]:
        """Of a model that is not known at its size: what not even a smaller input, or the next smaller of its
        family, does."""
        size = self.plan.image_size or self.query.get("image_size")
        plans, smaller = (
            [replace(self.plan, image_size=None)] if size else [],
            smaller_than(str(self.plan.model)),
        )
        plans += [replace(plan, model=name) for name in smaller for plan in (self.plan, *plans)]
        for plan in plans:
            query = {k: value for k, value in self.query.items() if k != "image_size" or plan.image_size}
            known = replace(self, plan=plan, query=query, not_checked=[])
            predicted = known._predicted(traces=0)[0]
            below = predicted is not None and predicted.get("image_size", 0) <= (size or 10**6)
            if predicted is not None and below and predicted["max_batch_size"] is not None:
                at = f" at {size}" if size else ""
                more = f" The script trains {self.plan.model}{at}, which needs more."
                found = [] if self.plan.lighter else [*known._too_large(predicted)]
                found += known._too_long(predicted)
                yield from (replace(one, message=one.message + more) for one in found)
                return

    def _predicted(self, precision: str | None = None, traces: int = 1) -> tuple[dict[str, Any] | None, str]:
        if self.knowledge is None:
            return None, WITHOUT_CARDS
        question: dict[str, Any] = {"model": self.plan.model, "gpu": self.query["gpu"], **self.plan.options}
        if self.plan.batch_size is not None:
            question["batch_size"] = min(self.plan.batch_size, 10**6)
        for name in ("image_size", "seq_len"):
            size = getattr(self.plan, name) or self.query.get(name)
            if size:
                question[name] = size
        question["precision"] = precision or self._precision()
        if self.plan.optimizer:
            question["optimizer"] = self.plan.optimizer
        for name in ("n_train", "cpu_count"):
            if self.query.get(name):
                question[name] = self.query[name]
        from memory_service.domain.planning.model_catalogue import without_idle
        from memory_service.services.prediction.predict import predict_known

        try:
            model = self.knowledge.listed_model(question["model"])
            return predict_known(self.knowledge, without_idle(question, model), traces), ""
        except (InvalidInput, Unavailable) as error:
            return None, error.detail[:300]

    def _precision(self) -> str | None:
        gpu, precision = self._card(), self.plan.precision
        return precision if precision is not None and gpu is not None and gpu.supports(precision) else None

    def _too_large(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        batch_place = self.facts.batch_place
        if self.plan.batch_size is None or batch_place is None:
            self.not_checked.append("batch-does-not-fit: the batch cannot be told")
            return
        if predicted["fits"]:
            return
        most, peak = int(predicted["max_batch_size"]["value"]), predicted["peak_memory_gib"]
        would = predicted.get("would_fit", {})
        batch = would.get("batch_size")
        fix = str(would.get("why"))
        if batch:
            fix = f"BATCH_SIZE = {batch}; GRAD_ACCUMULATION = {would['grad_accumulation']}"
        fits = f"about {most} fit" if most else "not even one sample fits"
        told = {
            "batch": self.plan.batch_size,
            "of": predicted,
            "at": _at(predicted),
            "fits": fits,
            "fix": fix,
        }
        yield finding("batch-does-not-fit", batch_place, **told, **_shown(peak))

    def _too_small(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        if self.plan.precision == "fp32" and self.tensor_cores:
            # the knee of fp32 is not that of the precision to change to
            predicted = self._predicted("fp16")[0] or predicted
            found = list(self.facts.small_batches)
            yield from found
            if found:
                return
        place, batch = self.facts.batch_place, self.plan.batch_size
        knee = predicted["knee_batch_size"]
        if place is None or batch is None or not knee:
            return
        best = min(int(knee), int(predicted["safe_batch_size"]) or 1)
        if self.query.get("n_train"):
            from memory_service.domain.planning.hyperparameters import most_by_updates

            best = min(best, most_by_updates(self.query["n_train"], 16))
        far = HALF if self._is_never_right(batch) else FAR_UNDER
        if batch * far > best or (self.plan.grad_accumulation or 1) > 1 or self.facts.has_reason:
            return
        told = {"batch": batch, "of": predicted, "at": _at(predicted), "best": best}
        yield finding("batch-too-small", place, "card", **told)

    def _is_never_right(self, batch: int) -> bool:
        """R28: images are never trained by 32 and fewer without a reason."""
        return batch <= NEVER_WITHOUT_REASON and self.facts.plain_images

    def _too_long(self, predicted: Mapping[str, Any]) -> Iterator[Finding]:
        minutes, n_train = self.query.get("minutes"), self.query.get("n_train")
        unknown = [
            name for name, value in (
                ("minutes", minutes), ("n_train", n_train), ("epochs", self.plan.epochs),
                ("folds", self.plan.folds),
                ("batch size", self.plan.batch_size),
            ) if not value
        ]  # fmt: skip
        if unknown or minutes is None:
            self._untold(unknown)
            return
        from memory_service.domain.planning.run_seconds import Seconds

        folds, epochs = self.plan.folds or 1, self.plan.epochs or 1
        epoch, n = predicted["epoch_seconds"], self._fits(folds)
        times = epochs * n.rows_read / n.whole_rows / 60.0
        time = Seconds(epoch["low"], epoch["value"], epoch["high"]).times(times)
        fits = max(1, int(epochs * folds * minutes * LIKELY_SHARE / time.value))
        fewer = min(folds, max(1, fits // max(1, min(epochs, 5))))
        what = f"{n.models} x {epochs} epochs of {n_train} samples"
        fix = f"FOLDS = {fewer}; EPOCHS = {max(1, fits // fewer)}"
        yield from self._over(time, time.low / self._training, what, predicted["gpu"], fix)

    def _fits(self, folds: int) -> Fits:
        """What the script fits."""
        from memory_service.domain.planning.fits import fits_of

        rows, trees = (self.query["n_train"], self.query.get("n_test") or 0), self.plan.boosting is not None
        return fits_of(*rows, folds, seeds=self.plan.seeds, by_time=self.plan.by_time, trees=trees)

    def _fits_of_trees(self) -> Iterator[Finding]:
        """Boosted trees need no card to be priced, unless they grow on it."""
        try:
            from memory_service.services.review.tree_fits import tree_fits
        except ImportError:  # the light package prices nothing
            return
        boosting, folds, seeds = self.plan.boosting, self.plan.folds, self.plan.seeds
        stated: dict[str, Any] = {name: self.query.get(name) for name in ("minutes", "n_train")}
        stated |= {"folds": folds, "rounds": boosting}
        if boosting is not None and boosting.on_card:
            stated["gpu"] = self._card()
        unknown = [name for name, value in stated.items() if not value]
        if unknown or boosting is None or folds is None:
            self._untold(unknown)
            return
        wanted = self._fits(folds)
        fits = tree_fits(str(self.plan.model), boosting, wanted, self.query, self._card())
        time, n, known = fits.total.times(1 / 60.0), wanted.models, self.query.get("n_features")
        part = "high" if boosting.planned and known else "value" if boosting.stops else "low"
        needed = max(getattr(fits.training, part) / self._training, getattr(fits.total, part)) / 60.0
        allowed = int(n * self.query["minutes"] / needed)
        fewer = allowed - (n - folds) if wanted.by_time else allowed // seeds
        rounds = f"{boosting.rounds}"
        if fits.rounds[1] < boosting.rounds:
            rounds = f"about {fits.rounds[1]:.0f} (early stopping; at most {rounds})"
        found = list(self._over(
            time, needed,
            f"{plural(n, 'fit')} of {rounds} rounds over {self.query['n_train']} rows x "
            f"{fits.features} columns", fits.where,
            f"FOLDS = {fewer}" if 0 < fewer < folds else "a higher learning rate, or fewer rounds",
        ))  # fmt: skip
        if not found and not known:
            self._untold(["n_features"])
        yield from found

    def _card(self) -> TargetDevice | None:
        try:
            return self.knowledge.gpu(self.query["gpu"]) if self.knowledge and "gpu" in self.query else None
        except InvalidInput:
            return None

    def _untold(self, unknown: Iterable[str]) -> None:
        self.not_checked.append(f"cannot-end-in-budget: {', '.join(unknown)} not given or not to be told")

    def _over(self, time: Seconds, needed: float, what: str, where: str, fix: str) -> Iterator[Finding]:
        """Minutes: time as they are expected, needed as a budget."""
        minutes = float(self.query["minutes"])
        if needed > minutes and self.plan.place is not None:
            told = {
                "share": 1.0 - self._training,
                "minutes": minutes,
                "what": what,
                "where": where,
                "fix": fix,
            }
            yield finding("cannot-end-in-budget", self.plan.place, **told, **_shown(asdict(time)))


def _shown(times: Mapping[str, float]) -> dict[str, str]:
    """Low, value and high in short."""
    return {part: _short(times[part]) for part in _PARTS}


def _short(number: float) -> str:
    return f"{number:.0f}" if number >= 100 else f"{number:.3g}"


def _at(predicted: Mapping[str, Any]) -> str:
    kinds = ("image_size", "seq_len", "n_features")
    return next((f" at {predicted[kind]}" for kind in kinds if kind in predicted), "")
