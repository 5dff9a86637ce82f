"""Spellings of a model's name: classes of libraries, repositories of hubs, fine-tunes of a listed network."""

import re
from collections.abc import Mapping
from difflib import get_close_matches

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.unpriced_models import MOST_OF_A_NAME

_TABLE = shipped_table(__package__, "model_names.toml")


def normal_model_name(name: str) -> str:
    """Lower case, `_` for `-` and spaces, without a known hub owner: what spellings of one model share."""
    text = name.strip().lower()
    for owner in _TABLE["owners"].split():
        text = text.removeprefix(owner)
    return text.replace("-", "_").replace(" ", "_")


def squashed(name: str) -> str:
    """Letters and figures alone: "resnet-50" and "resnet_50" -> "resnet50"."""
    return re.sub(r"[^a-z0-9]", "", name)


def spellings(name: str) -> list[str]:
    """The name squashed: whole, without its owner, and both without what classes of estimators end on."""
    plain = normal_model_name(re.sub(_TABLE["around"], "", name[:MOST_OF_A_NAME].strip()))
    tails = {plain: None, (plain if _has_head(name) else plain.rpartition("/")[2]): None}
    both = (each for tail in tails for each in (tail, re.sub(_TABLE["estimator"], "", tail)))
    return [_TABLE["short"].get(each, each) for each in map(squashed, both) if each]


def built_name(name: str) -> str:
    """What timm calls a network that Keras or an owner's repository calls otherwise; else the name itself."""
    plain = normal_model_name(name)
    hub = plain if "/" in name and "/" not in plain and not name.startswith(("timm/", "hf-hub:")) else name
    return next((_TABLE["built"][each] for each in spellings(name) if each in _TABLE["built"]), hub)


def twin(name: str, index: Mapping[str, str], is_text: Mapping[str, bool]) -> str | None:
    """The row of whose network the name says it is a fine-tune or another set of weights; None if unsure.

    "twitter-roberta-base-sentiment" -> roberta-base. All parts of a listed name, one of them a size, must
    stand in the name in their order, and what is left must not tell another network.

    index   normalised name -> row; is_text: of the rows that can have twins
    """
    found: list[tuple[int, int, str]] = []
    if _has_head(name):
        return None
    size, parts = re.compile(_TABLE["size"]), _tail(name).split("_")
    for key, row in index.items():
        due = key.split("_")[::-1]
        if row not in is_text or not 2 <= len(due) <= len(parts) or not any(map(size.fullmatch, due)):
            continue
        rank = (len(due), -len(key), row)
        left = "_".join("^" if due and part == due[-1] and due.pop() else part for part in parts)
        differs = re.search(_TABLE["text_differs"], left) is not None
        if not due and (not differs if is_text[row] else re.fullmatch(_TABLE["image_same"], left)):
            found.append(rank)
    return max(found)[2] if found else None


def alike(name: str, index: Mapping[str, str], kinds: Mapping[str, str]) -> tuple[str, ...]:
    """Rows whose names are spelled like it, all of the kind of input (`kinds`, by row) of the nearest one."""
    tails = {key.rpartition("/")[2]: row for key, row in index.items() if "/" not in row}
    close = get_close_matches(_tail(name)[:80], tails, n=12, cutoff=0.5)
    rows = [*dict.fromkeys(tails[each] for each in close)]
    return tuple(row for row in rows if kinds[row] == kinds[rows[0]])[:5]


def _tail(name: str) -> str:
    shown = re.sub(_TABLE["around"], "", name[:MOST_OF_A_NAME].strip())
    return normal_model_name(shown).rpartition("/")[2]


def _has_head(name: str) -> bool:
    """Whether what stands before the slash is a head on an encoder (`fpn/resnet34`), not an owner."""
    return name.strip().lower().partition("/")[0] in _TABLE["heads"].split()
