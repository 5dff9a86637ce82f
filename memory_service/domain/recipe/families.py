"""Which families of `vocabulary.FAMILIES` a model of the catalogue belongs to (`families.toml`)."""

from functools import cache

from memory_service.domain.common.tables import shipped_table

_TABLE = shipped_table(__package__, "families.toml")


@cache
def families_of(name: str, family: str) -> tuple[str, ...]:
    """The vocabulary's families of a model, its own first, then that of what is built around it or what it is
    a kind of; a name of the catalogue itself where the vocabulary has none."""
    decoder, _, encoder = name.rpartition("/")
    own = next((known for start, known in _TABLE["by_start"].items() if encoder.startswith(start)), None)
    own = own or next((known for part, known in _TABLE["by_part"].items() if part in encoder), None)
    own = own or _TABLE["by_family"].get(family, family)
    wider = _TABLE["decoders"].get(decoder) or _TABLE["wider"].get(own)
    return (own, wider) if wider and wider != own else (own,)
