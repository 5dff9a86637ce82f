"""The closed lists of a winning solution: families of models, losses, splits and techniques
(`vocabulary.toml`); which of the families a model of the catalogue belongs to (`families.toml`)."""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Literal, get_args

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.vocabulary import plain_word
from memory_service.errors import unknown_name

Basis = Literal["read", "second-hand", "recalled"]
"""read: the write-up or the winners' code; second-hand: somebody's notes; recalled: general knowledge."""

Split = Literal["stratified", "group", "stratified-group", "time", "random", "nested", "public-lb", "unknown"]
"""How a solution was validated; public-lb: by the public leaderboard alone."""

BASES: tuple[str, ...] = get_args(Basis)
SPLITS: tuple[str, ...] = get_args(Split)

_TABLE = shipped_table(__package__, "vocabulary.toml")
FAMILIES: tuple[str, ...] = tuple(_TABLE["families"].split())
LOSSES: tuple[str, ...] = tuple(_TABLE["losses"].split())

STAGES: Mapping[str, Mapping[str, str]] = _TABLE["techniques"]
"""When a technique is done -> the techniques, each with what is done in one sentence."""

TECHNIQUES = {name: what for techniques in STAGES.values() for name, what in techniques.items()}
STAGE_OF = {technique: stage for stage, names in STAGES.items() for technique in names}


def _parse(field: str, known: Sequence[str], raw: str) -> str:
    """By its name (case does not matter); InvalidInput names the nearest."""
    name = plain_word(raw)
    if name in known:
        return name
    raise unknown_name(field, raw, known)


parse_family = partial(_parse, "family", FAMILIES)
parse_loss = partial(_parse, "loss", LOSSES)
parse_technique = partial(_parse, "technique", tuple(TECHNIQUES))


NO_TECHNIQUE = "none"


def parse_techniques(raw: str) -> str:
    """Names of techniques and losses between commas, in order, each once; or `none`. InvalidInput names the
    nearest."""
    names = {plain_word(name) for name in raw.split(",") if name.strip()}
    known = (*TECHNIQUES, *LOSSES, NO_TECHNIQUE)
    for name in sorted(names - {*known}):
        raise unknown_name("techniques", name, known)
    return ",".join(sorted(names - {NO_TECHNIQUE})) or NO_TECHNIQUE


_MODELS = shipped_table(__package__, "families.toml")


@cache
def families_of(name: str, family: str) -> tuple[str, ...]:
    """The vocabulary's families of a model, its own first, then that of what is built around it or what it is
    a kind of; a name of the catalogue itself where the vocabulary has none."""
    decoder, _, encoder = name.rpartition("/")
    own = next((known for start, known in _MODELS["by_start"].items() if encoder.startswith(start)), None)
    own = own or next((known for part, known in _MODELS["by_part"].items() if part in encoder), None)
    own = own or _MODELS["by_family"].get(family, family)
    wider = _MODELS["decoders"].get(decoder) or _MODELS["wider"].get(own)
    return (own, wider) if wider and wider != own else (own,)
