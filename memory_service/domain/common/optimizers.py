"""Memory and traffic of optimizers: fp32 state and bytes moved per parameter and step."""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_service.domain.common.tables import shipped_table
from memory_service.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Optimizer:
    """state_bytes: fp32 state per parameter; step_bytes: weight, gradient and state read and written per
    parameter by one update; aliases: other names of it; scratch_bytes: a parameter's temporary in the
    update, which kernels that fuse it do without; paged_bytes: state per parameter in unified memory, which
    leaves the card for the host where the card is short of it (bitsandbytes)."""

    state_bytes: float
    step_bytes: float
    aliases: Sequence[str] = ()
    scratch_bytes: float = 4.0
    paged_bytes: float = 0.0


OPTIMIZERS = {name: Optimizer(**row) for name, row in shipped_table(__package__, "optimizers.toml").items()}

PAGED_ADAMW = "paged-adamw-8bit"
"""Of the paged ones that which plans take: it moves the fewest bytes over the bus."""

_NAMES = {name: name for name in OPTIMIZERS} | {
    alias: name for name, optimizer in OPTIMIZERS.items() for alias in optimizer.aliases
}


def optimizer_name(given: str) -> str:
    """The table's name of an optimizer; InvalidInput with the nearest names for one it has not."""
    name = _NAMES.get(_plain(given))
    if name is None:
        raise unknown_name("optimizer", given, tuple(OPTIMIZERS))
    return name


def optimizer_or_adam(given: str) -> Optimizer:
    """The optimizer's figures; one unknown counts as Adam."""
    return OPTIMIZERS[_NAMES.get(_plain(given), "adam")]


def _plain(given: str) -> str:
    return given.strip().lower().replace("_", "-")
