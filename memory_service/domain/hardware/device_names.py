"""What names of devices say: lines of drivers and logs, counts, instances of clouds, and words that name a
part of a card or none. The tables and patterns are in `devices.toml`."""

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

from memory_service.domain.common.tables import shipped_table
from memory_service.domain.common.unpriced_models import MOST_OF_A_NAME
from memory_service.errors import wrong_value

MOST_CARDS = 64
"""Of one plan or prediction."""

_TABLE = shipped_table(__package__, "devices.toml")
_PRINTED = [re.compile(each, re.IGNORECASE) for each in _TABLE["lines"]["printed"]]
_COUNT, _CARD, _MIB, _GB, _TOTAL = (
    re.compile(_TABLE["lines"][key], re.IGNORECASE) for key in ("count", "card", "mib", "gb", "total")
)
_INSTANCES = [(re.compile(row["pattern"]), row["gpu"], row.get("counts")) for row in _TABLE["instance"]]
_MOST_ORDERED = 5
_SEPARATORS = re.compile(r"\[_ \]|\\\.|-(?![^[]*\])")
_LOOSE_INSTANCES = [
    (re.compile(_SEPARATORS.sub("[-._ ]", of.pattern)), gpu, counts) for of, gpu, counts in _INSTANCES
]
_OTHERS = [(re.compile(row["pattern"]), row["what"], row.get("nearest", "")) for row in _TABLE["other"]]
_MAKERS = ("nvidia", "geforce", "tesla", "graphics", "amd", "instinct", "corporation")
_GENERATIONS = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")


@lru_cache(maxsize=4096)
def normal_gpu_name(name: str) -> str:
    """The name without maker, punctuation, case or a count: what two spellings of one card share.

    "NVIDIA GeForce RTX 3090" -> "rtx3090", "v100-sxm(8x)" -> "v100sxm", "Tesla T4" -> "t4".
    """
    text = re.sub(
        r"\(\s{0,3}(?:x\s{0,3}\d{1,4}|\d{1,4}\s{0,3}x)\s{0,3}\)", " ", name[:MOST_OF_A_NAME].strip().lower()
    )
    text = re.sub(r"\((?:r|tm)\)|[®™]", " ", text)
    whole = re.split(r"[^a-z0-9]+", text)
    words = [word for word in whole if word not in _MAKERS]
    if words and words[-1] == "gpu" and "laptop" not in words:
        words.pop()
    of_nvidia = "tesla" if re.fullmatch(r"m[46]", "".join(words)) and "tesla" in whole else ""
    return of_nvidia + "".join(words)  # Apple has an M4, too


def plain_name(name: str) -> str:
    """A device's name without case and separators: whoever writes it from memory means the same."""
    return re.sub(r"[^a-z0-9]+", "", name.lower())


@lru_cache(maxsize=4096)
def counted(name: str) -> tuple[int, str]:
    """How many cards a name means, and of which: "2xt4", "T4 (x2)" -> (2, "t4"), "g4dn.metal" -> (8, "t4").

    A line of a driver or a log is read as the name in it. InvalidInput for none, or more than a box holds.
    """
    text = printed_name(name)
    if "," in text and len(names := several(text)) == 1:
        text = names[0]
    text = _held(text.strip().lower()) or text
    for each in (text, without_platform(text)):
        found = _COUNT.search(each)
        if found and (found.lastindex != 4 or _CARD.fullmatch(each[: found.start()].strip())):
            n = int(next(filter(None, found.groups())))
            if not 1 <= n <= MOST_CARDS:
                raise wrong_value("gpu", f"must be between 1 and {MOST_CARDS} cards", name)
            return n, (each[: found.start()] + each[found.end() :]).strip()
    return 1, text


def several(text: str) -> list[str]:
    """The names of a text with commas, in lower case; one that stands there twice as "2xname"."""
    names = _MIB.sub(r" \1 mib", printed_name(text)).lower().split(",")
    names = [name.strip() for name in names if name.strip()]
    times = {name: names.count(name) for name in names}
    return [name if n == 1 or counted(name)[0] > 1 else f"{n}x{name}" for name, n in times.items()]


def printed_name(text: str) -> str:
    """The name in a line of a driver, a framework or a log, with the memory that stands beside it."""
    text = text[:MOST_OF_A_NAME]
    for pattern in _PRINTED:
        if found := pattern.search(text):
            total = _TOTAL.search(text)
            return found[1].strip() + (f" {total[1]} MiB" if total else "")
    return text


def spellings(name: str, index: Mapping[str, str]) -> tuple[str, ...]:
    """A device's name, with spaces for its separators and without any, its words in the order of a card's
    name, and the cards of a cloud's instance that it is but for the separators: it must mean none of these.

    index   normalised name of a card -> its slug
    """
    words = re.split(r"[-._]+", name.lower())
    orders = map(" ".join, permutations(words) if len(words) <= _MOST_ORDERED else ())
    card = next((each for each in orders if normal_gpu_name(each) in index), name)
    return name, " ".join(words), plain_name(name), card, _held(name.lower(), _LOOSE_INSTANCES) or name


def reads_as_card(name: str) -> bool:
    """Whether a name is, but for separators, that of a card whose data sheet may come: "k80", "rtx-5050"."""
    return plain_name(name) in _TABLE["unpriced"] or _CARD_LIKE.fullmatch(name.lower()) is not None


_CARD_LIKE = re.compile(
    r"(?:nvidia|geforce|amd|intel)?[-._]?(?:(?:rtx|gtx|gt|rx|mi|hd|quadro|tesla|radeon|arc|titan)[-._]?"
    r"[a-z]{0,3}[-._]?\d{2,4}|[abhklmptv]-?\d{1,2}0)[-._]?(?:xtx|xt|ti|super|ada|s|d|x)?(?:[-._]?\d{1,3}gb)?"
)


def _held(name: str, instances: Sequence[tuple[re.Pattern[str], str, Any]] = _INSTANCES) -> str:
    """The cards of a cloud's instance as "4x t4"; nothing for another name."""
    for pattern, gpu, counts in instances:
        if found := pattern.fullmatch(name):
            parts = found.groupdict()
            n = counts.get(parts["size"], 0) if counts else parts.get("n")
            return "" if n == 0 else (f"{n}x {gpu}" if n else gpu).format(**parts)
    return ""


def memory_beside(name: str) -> tuple[str, float | None]:
    """The name without the memory that stands behind it, and that in GiB: MiB as drivers print, or GB."""
    name = name[:MOST_OF_A_NAME]
    for pattern, parts in ((_MIB, 1024), (_GB, 1)):
        if found := pattern.search(name):
            return name[: found.start()], int(found[1]) / parts
    return name, None


def without_platform(name: str) -> str:
    """ "colab pro A100" -> "a100": the name without where such a card is lent."""
    return " ".join(re.sub(_TABLE["lines"]["platform"], " ", name[:MOST_OF_A_NAME].lower()).split())


def no_card(name: str, index: Mapping[str, str]) -> tuple[str, tuple[str, ...]] | None:
    """(why, what is near) of a name that means a part of a card, another maker's or none; else None.

    index   normalised name of a card -> its slug
    """
    text = re.sub(r"\((?:r|tm)\)", "", name[:MOST_OF_A_NAME].strip().lower())
    for pattern, what, nearest in _OTHERS:
        if found := pattern.search(text):
            parts = {"whole": "", "gib": "", **found.groupdict()}
            whole = " ".join(str(parts["whole"]).split())
            gib = parts["gib"] or memory_beside(text)[1] or _TABLE["laptop"].get(normal_gpu_name(whole), "?")
            room = f"{float(gib) * 0.975:.3g}" if gib != "?" else "<its GiB>"
            slug = index.get(normal_gpu_name(whole)) or index.get(normal_gpu_name(memory_beside(whole)[0]))
            return what.format(gib=gib, room=room, whole=slug or "<the whole card>"), tuple(nearest.split())
    return None


def neighbours(name: str, cards: Mapping[str, tuple[str, float]]) -> tuple[str, ...]:
    """Those nearest in memory and generation to a card of NVIDIA that is not priced, best first.

    cards   slug -> (architecture, GiB)
    """
    shown, gib = memory_beside(name)
    plain = (normal_gpu_name(each).removeprefix("quadro").removesuffix("m") for each in (name, shown))
    age, known = next((row for each in plain if (row := _TABLE["unpriced"].get(each))), ("", 0.0))
    gib = gib or known
    near = []
    for slug, (architecture, size) in cards.items():
        if gib and architecture in _GENERATIONS and (apart := abs(math.log2(size / gib))) < 0.5:
            years = abs(_GENERATIONS.index(architecture) - _GENERATIONS.index(age)) if age else 0
            near.append((round(apart / 0.3) + 0.5 * years, apart, slug))
    return tuple(slug for *_, slug in sorted(near)[:5])
