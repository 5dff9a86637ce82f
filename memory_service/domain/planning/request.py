"""The request of a plan as the planner takes it: what was given, each value already checked."""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from memory_service.domain.common.vocabulary import MODES, Licence, Mode, Objective, Size, Split, Weights
from memory_service.domain.cost.decoders.decoder import Trainer

MOST_MINUTES = 10_000.0
"""Longest budget that is planned for."""

PINS = ("model", "method", "folds", "epochs", "batch_size", "precision", "image_size", "seq_len")
"""Fields that fix a part of the plan: checked, never silently changed."""

NO_PART = ("minutes_given", "mode_given", "mode_limit")
"""Of what a question asks: how it was asked, and what the asker may see."""


@dataclass(frozen=True, slots=True)
class Done:
    """A run of a portfolio that is over: its number, its validation score, the minutes it took."""

    run: int
    minutes: float
    metric: float | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One request of a plan (aliases resolved); None means "not given".

    gpus       names as given, one or several: the plan must fit all of them
    plan_for   the cards of production when they are not the ones visible; they replace `gpus` in the sizing
    minutes    wall-clock budget for everything: imports, training, inference, writing the submission
    vram_gib   memory to plan for instead of the card's own
    as_of      a year: only what was known by its end counts
    metric     what predictions are judged by, in the asker's words
    n_groups, group_by     how many groups the rows come from, and what they are ("patient")
    split                  how test differs from training
    language, subtask      of a text task: ISO 639-1 or "multi"; one of `SUBTASKS`
    horizon, n_series, covariates   of forecasts: steps ahead, how many series, whether columns of the future
               are known
    audio_hours            of sounds: hours in all, in place of n_train
    bands, aspect_ratio    of pictures: spectral bands; longer side by shorter, of strips
    techniques which its script does, by comma, where somebody chose; None: as the recipe says
    licence    commercial: only models whose licence allows it
    weights    where pretrained weights are; None: on the hub, to be fetched
    method, lora_rank      of a decoder: full | lora | qlora
    n_gpus, interconnect   equal cards in one box that train one model together, and what joins them
    sharding   fsdp: a decoder's weights lie spread over them
    trainer    of a decoder, that saves memory (`decoders.decoder.TRAINERS`)
    packing, text_tokens   several texts a row of tokens; tokens of a text in the mean
    run        number of a run of the portfolio, whose settings and minutes are answered in place of the main
               run's
    after      plan_id of an earlier answer to the same question: what is left of its minutes is planned
    done       what of its runs is over
    mode_limit       the most that the server or the key allows of memory; no part of the question either
    minutes_given, mode_given   whether somebody said them; no part of the question itself
    """

    gpus: tuple[str, ...]
    task: str | None = None
    size: Size | None = None
    n_train: int | None = None
    plan_for: tuple[str, ...] = ()
    minutes: float = 30.0
    n_classes: int | None = None
    image_size: int | None = None
    seq_len: int | None = None
    n_features: int | None = None
    n_test: int | None = None
    cpu_count: int | None = None
    vram_gib: float | None = None
    precision: str | None = None
    model: str | None = None
    folds: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    objective: Objective = "balanced"
    mode: Mode = "open"
    metric: str | None = None
    competition: str | None = None
    description: str | None = None
    n_groups: int | None = None
    group_by: str | None = None
    split: Split | None = None
    as_of: int | None = None
    language: str | None = None
    subtask: str | None = None
    horizon: int | None = None
    n_series: int | None = None
    covariates: bool | None = None
    audio_hours: float | None = None
    bands: int | None = None
    aspect_ratio: float | None = None
    licence: Licence | None = None
    techniques: str | None = None
    weights: Weights | None = None
    method: str | None = None
    lora_rank: int | None = None
    n_gpus: int | None = None
    interconnect: str | None = None
    sharding: str | None = None
    trainer: Trainer | None = None
    packing: bool | None = None
    text_tokens: int | None = None
    run: int | None = None
    after: str | None = None
    done: tuple[Done, ...] = ()
    minutes_given: bool = True
    mode_given: bool = False
    mode_limit: Mode = "open"

    @property
    def pinned(self) -> dict[str, Any]:
        """The plan fields the caller fixed, by name."""
        return {name: getattr(self, name) for name in PINS if getattr(self, name) is not None}

    def within(self, limit: Mode) -> "Question":
        """The question with no more memory of competitions than a limit allows."""
        stricter = max(self.mode, limit, key=MODES.index)
        return self if stricter == self.mode else replace(self, mode=stricter, mode_limit=limit)

    def canonical(self) -> dict[str, Any]:
        """Everything that was said, defaults filled in, in a fixed order: two spellings of one question
        agree."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and value != () and item.name not in NO_PART:
                out[item.name] = [_plain(each) for each in value] if isinstance(value, tuple) else value
        return out


def _plain(value: str | Done) -> Any:
    return asdict(value) if isinstance(value, Done) else value
