"""Decoders as a plan may choose them: each model at each length by LoRA and QLoRA, priced by formula."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from cachetools import LRUCache

from memory_service.domain.common.optimizers import PAGED_ADAMW
from memory_service.domain.common.vocabulary import writes_text
from memory_service.domain.cost.decoders.decoder import TRAINERS, USUAL_RANK, Trainer, Tuning, decoder_of
from memory_service.domain.cost.decoders.tower import tuned_profile
from memory_service.domain.cost.profile import Profile
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.domain.planning.option import Option, make_option

MOST_PROFILES = 8_192


@dataclass(frozen=True, slots=True)
class Asked:
    """What is not up for choice; None where the planner may choose. shards: cards over which weights lie
    spread; paged: optimizers whose state may leave the card run; weightless: without pretrained weights;
    speech: a kind of speech task, by its subtask."""

    image_size: int | None = None
    seq_len: int | None = None
    n_features: int | None = None
    method: str | None = None
    lora_rank: int | None = None
    shards: int = 1
    paged: bool = False
    trainer: Trainer | None = None
    packing: bool | None = None
    text_tokens: int | None = None
    weightless: bool = False
    mask_classes: int = 0
    volumes: bool = False
    bands: int = 3
    strips: bool = False
    speech: str | None = None

    def of(self, input_kind: str) -> int | None:
        return {"image_size": self.image_size, "seq_len": self.seq_len}.get(input_kind, self.n_features)


class DecoderOptions:
    """Options of decoders; one profile object for each question, since step models are kept by identity."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._profiles: LRUCache[tuple[Any, ...], Profile] = LRUCache(MOST_PROFILES)

    def options(self, rows: Iterable[CatalogueModel], task: str, asked: Asked) -> list[Option]:
        out = []
        for row in rows:
            if decoder_of(row.config) is None:
                continue
            wanted = asked.of(row.input_kind)
            usual = row.input_sizes or (row.default_input_size,)
            lengths = usual if wanted is None else (wanted,)
            longest = int(row.config.get("max_input_size") or max(usual))
            how: Any
            for how in (asked.method,) if asked.method else row.config.get("methods", ("full",)):
                rank = asked.lora_rank or USUAL_RANK
                tuning = Tuning(how, rank, shards=asked.shards, **TRAINERS[asked.trainer])
                out += [self._option(task, row, length, tuning) for length in lengths if length <= longest]
        if asked.paged and asked.shards == 1:
            full = [option for option in out if option.method == "full"]
            out += [replace(o, defaults=replace(o.defaults, optimizer=PAGED_ADAMW)) for o in full]
        return out

    def _option(self, task: str, row: CatalogueModel, length: int, tuning: Tuning) -> Option:
        tuning = replace(tuning, head="lm" if writes_text(task) else "sequence")
        plain, saving = (
            {kind: self._profile(row, length, kind, each) for kind in ("amp", "fp32")}
            for each in (tuning, replace(tuning, checkpointing=True))
        )
        return make_option(task, row, length, plain, saving)

    def _profile(self, row: CatalogueModel, length: int, kind: Any, tuning: Tuning) -> Profile:
        key = (row.name, length, kind, tuning)
        with self._lock:
            known = self._profiles.get(key)
            if known is None:
                known = tuned_profile(row.name, row.config, length, tuning, precision=kind, family=row.family)
                self._profiles[key] = known
        return known
