"""A search in two stages: a bi-encoder finds candidates of each query, a cross-encoder orders them.

Both are priced as any other model, by samples of their own: a text that is embedded, a pair that is scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log2
from typing import TYPE_CHECKING, Any

import numpy as np

from memory_service.domain.planning.model_catalogue import CatalogueModel

if TYPE_CHECKING:
    from memory_service.domain.planning.candidates import Candidate, CandidateSet
    from memory_service.domain.planning.problem import PlanningProblem

KEPT = (100, 50, 25, 10)
"""Candidates a query that the retriever may keep; as usual of rerankers."""

PAIRS = (8, 4, 2)
"""Pairs a query that the reranker may learn from, one of them relevant; 8 as of BGE's rerankers."""

SHARES = (0.1, 0.2, 0.35, 0.5)
"""Of the minutes, that the retriever may take."""

POINTS_OF_HALF = 0.5
"""Index points that half as many candidates lose, for fewer relevant ones are among them, and half as many
pairs. Judged."""

FEWEST_TEXTS = 32
"""A batch, of which a bi-encoder learns too little; such a model is taken where there is no other."""

_OF_DECODERS = ("method", "lora_rank", "sharding", "trainer", "packing", "text_tokens")


@dataclass(frozen=True, slots=True)
class Stages:
    """What a reranker stands on, or a retriever alone (`pairs` 0).

    queries, documents   that are learned from, that are searched; kept: candidates a query
    pairs                a query that the reranker learns from
    retriever            that runs before it; None where candidates are given, or found by then
    """

    queries: int
    documents: int
    kept: int
    pairs: int
    retriever: Candidate | None = None


def is_bi_encoder(model: CatalogueModel) -> bool:
    """Whether it embeds each text by itself."""
    return model.config.get("head") == "encoder" or "embedding" in model.name


def in_stages(problem: PlanningProblem, price: Callable[[PlanningProblem], CandidateSet]) -> CandidateSet:
    """The rerankers of a search, with the minutes of the best retriever beside them; where the minutes hold
    no two stages the retrievers alone, or the rerankers if one of them is pinned.

    price   networks that serve a problem
    """
    search, question, queries = problem.search, problem.question, problem.n_train
    own = price(problem)
    if search is None or not own.table.options:
        return own
    pinned = is_bi_encoder(own.table.options[0].model) if problem.model else None

    def priced(stages: Stages, n_train: int, n_test: int) -> CandidateSet:
        embeds = stages.pairs == 0
        stage = replace(problem, n_train=n_train, n_test=n_test, contrastive=embeds)
        if pinned not in (None, embeds):
            left_open: dict[str, Any] = dict.fromkeys(("model", *_OF_DECODERS))
            stage = replace(stage, model=None, question=replace(question, **left_open))
        found = price(stage)
        serve = np.array([is_bi_encoder(option.model) == embeds for option in found.table.options])
        roomy = serve & (found.grid.batches.batch_size >= FEWEST_TEXTS)
        serve = roomy if embeds and roomy.any() else serve
        minutes = np.where(serve[:, None, None], found.grid.minutes, inf)
        return replace(found, grid=replace(found.grid, minutes=minutes), stages=stages)

    kept = (search.candidates,) if search.candidates else [k for k in KEPT if k <= search.documents]
    rerankers = [
        priced(Stages(queries, search.documents, k, pairs), queries * pairs, problem.n_test * k)
        for k in kept
        for pairs in PAIRS
    ]
    alone = Stages(queries, search.documents, max(kept), 0)
    retrievers = priced(alone, 2 * queries, search.documents + queries + problem.n_test)
    firsts: list[Candidate | None] = [None]
    if not search.candidates and all(run.run != 1 for run in question.done):
        firsts = [retrievers.best(question.objective, share * question.minutes) for share in SHARES]
        firsts = [*filter(None, firsts)]
    best, most = None, -inf
    for first in firsts:
        taken = first.minutes if first else 0.0
        for ranked in rerankers:
            pick = ranked.best(question.objective, question.minutes - taken)
            if pick is None or ranked.stages is None:
                continue
            parts = [each.utility(question.objective) for each in (first, pick) if each]
            fewer = log2(max(kept) / ranked.stages.kept) + log2(max(PAIRS) / ranked.stages.pairs)
            worth = sum(parts) / len(parts) - POINTS_OF_HALF * fewer
            if worth > most:
                minutes = ranked.grid.minutes + taken
                stages = replace(ranked.stages, retriever=first)
                best, most = replace(ranked, grid=replace(ranked.grid, minutes=minutes), stages=stages), worth
    if best is None:
        best = retrievers if firsts != [None] and pinned is not False else rerankers[-1]
    return best
