"""Why a decoder is trained as it is: weights spread over cards, packed rows, a paged optimizer."""

from collections.abc import Iterator, Mapping
from typing import Any

from memory_service.domain.common.optimizers import optimizer_or_adam
from memory_service.domain.cost.multi_gpu import exchange_seconds_of, exchanged_params
from memory_service.domain.planning.candidates import Candidate


def tuning_reasons(candidate: Candidate, settings: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each of them that the plan has."""
    option = candidate.option
    if option.sharded:
        cards, profile = candidate.problem.together, candidate.profile
        seconds = exchange_seconds_of(exchanged_params(profile), cards) if profile else 0.0
        why = "" if candidate.problem.question.sharding else ", for no card holds a copy with what trains it"
        yield (
            f"Weights, gradients and optimizer state are spread over {cards.n} cards (FSDP){why}: gathering "
            f"and scattering them takes {seconds:.2g} s a step at {cards.gb_s:.0f} GB/s, less what computing "
            "hides."
        )
    if option.texts_per_row > 1.0:
        yield (
            f"Rows are packed: about {option.texts_per_row:.1f} texts fill each of {option.input_size} "
            "tokens, and batch_size counts rows. Position ids begin anew with each text, and attention "
            "stays within it (DataCollatorWithFlattening of transformers)."
        )
    if paged := optimizer_or_adam(settings["optimizer"]).paged_bytes:
        host_gib = option.model.params_m * 1e6 * paged / 2**30
        yield (
            f"{settings['optimizer']} of bitsandbytes: its state, at least {host_gib:.1f} GiB, leaves "
            "the card for the host's memory where it is short of it; each step is counted to do so."
        )
