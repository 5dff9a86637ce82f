"""Family of an architecture. Models of one family share kernels, so they share residuals.

The name alone decides (the longest known prefix), so that a model nobody listed still finds its kin.
"""

import re

from memory_service.domain.common.tables import shipped_table

_TABLE = shipped_table(__package__, "families.toml")
_PREFIXES_OF = {name: name for name in _TABLE["own"].split()} | _TABLE["prefixes"]
"""Family -> prefixes of architecture names, separated by spaces."""

_FAMILY: dict[str, str] = {
    prefix: family for family, prefixes in _PREFIXES_OF.items() for prefix in prefixes.split()
}
_LONGEST_FIRST = sorted(_FAMILY, key=len, reverse=True)


def family_of(architecture: str) -> str:
    """The family of an architecture name; the name's own first word where no prefix of it is known.

    `tf_efficientnet_b4.ns_jft_in1k` -> "efficientnet", `convnext_base` -> "convnext".
    """
    name = architecture.split(".", 1)[0].lower()
    for prefix in _LONGEST_FIRST:
        if name.startswith(prefix):
            return _FAMILY[prefix]
    return re.split(r"[_\d]", name, maxsplit=1)[0] or name
