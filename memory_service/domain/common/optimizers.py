"""Memory and traffic of optimizers: fp32 state and bytes moved per parameter and step."""

from dataclasses import dataclass

from memory_service.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Optimizer:
    """state_bytes: fp32 state per parameter; step_bytes: weight, gradient and state read and written per
    parameter by one update; aliases: other names of it; scratch_bytes: a parameter's temporary in the
    update, which kernels that fuse it do without; paged_bytes: state per parameter in unified memory, which
    leaves the card for the host where the card is short of it (bitsandbytes)."""

    state_bytes: float
    step_bytes: float
    aliases: tuple[str, ...] = ()
    scratch_bytes: float = 4.0
    paged_bytes: float = 0.0


_NO_STATE, _ONE_MOMENT, _TWO_MOMENTS = Optimizer(0.0, 12.0), Optimizer(4.0, 20.0), Optimizer(8.0, 28.0)

OPTIMIZERS: dict[str, Optimizer] = {
    "none": Optimizer(0.0, 0.0),
    "sgd": Optimizer(4.0, 20.0, aliases=("momentum",)),
    "sgd-plain": _NO_STATE,
    "sgd-momentum": _ONE_MOMENT,
    "lion": _ONE_MOMENT,
    "adagrad": _ONE_MOMENT,
    "rmsprop": _ONE_MOMENT,
    "adam": _TWO_MOMENTS,
    "adamw": _TWO_MOMENTS,
    "adamw-fused": Optimizer(8.0, 28.0, scratch_bytes=0.0),
    "nadam": _TWO_MOMENTS,
    "nadamw": _TWO_MOMENTS,
    "radam": _TWO_MOMENTS,
    "lamb": Optimizer(8.0, 40.0),
    "adamw-8bit": Optimizer(2.0, 16.0, scratch_bytes=0.0),
    "paged-adamw-8bit": Optimizer(0.0, 16.0, scratch_bytes=0.0, paged_bytes=2.0),
    "paged-adamw-32bit": Optimizer(0.0, 28.0, ("paged-adamw",), scratch_bytes=0.0, paged_bytes=8.0),
    "adamw-4bit": Optimizer(1.0, 14.0, scratch_bytes=0.0),
    "adafactor": Optimizer(0.1, 20.0),
}
"""`sgd` has momentum, as everybody trains with. RMSprop as in PyTorch: `square_avg` alone; its momentum
buffer and `grad_avg` exist only where they are asked for."""

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
