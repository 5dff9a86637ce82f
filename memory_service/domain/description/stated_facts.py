"""Facts that a description states: columns, lengths, sizes, groups, split, each with its words.

The quantities of the text (`domain.description.quantities`) are given their parts here. Counts of samples and
of classes are told by `recall.count_classifier`.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from memory_service.domain.description.modalities import pictures_in, side_of
from memory_service.domain.description.phrases import patterns
from memory_service.domain.description.prose import LONG_TEXT, OF_SETS, task_sentences
from memory_service.domain.description.quantities import (
    KIND_OF,
    NUMBER_WORD,
    Quantity,
    number_of_words,
    quantities_in,
)
from memory_service.domain.description.stated_split import (
    DESCRIBED_BY,
    Stated,
    groups_in,
    one_figure,
    repeated_in,
    split_in,
)
from memory_service.domain.description.submission import submission_in

TOKENS_PER_WORD = 4 / 3
"""Of English prose in word pieces: 100 pieces are about 75 words (OpenAI's help page "What are tokens")."""

_COLUMN_NOUNS = [noun for noun, kind in KIND_OF.items() if kind == "column"]
_P = patterns("stated_facts", columns="|".join(_COLUMN_NOUNS), number_word=NUMBER_WORD)
_LANGUAGES, _SUBTASKS = patterns("language_names"), patterns("subtasks")


def stated_in(text: str) -> Stated:
    """n_train and n_test of arrays, samples (the most that are counted), n_groups, group_by, n_features,
    seq_len, image_size, split, multi_label, imbalanced, submission: as far as the text says them."""
    page, form = len(text) >= LONG_TEXT, submission_in(text)
    sentences = task_sentences(text)  # timelines and rules speak of last days and of participants
    text = "\n".join(sentences)
    found = quantities_in(text)
    shapes = _P["shape"].finditer(text)
    stated: Stated = {f"n_{of[1].lower()}": (int(of[2].replace(",", "")), of[0]) for of in shapes}
    stated |= _table(text)
    samples = [q for q in found if q.kind == "sample" and not (q.each or q.role == "test") and q.value >= 10]
    stated |= {"samples": stated["n_train"]} if "n_train" in stated else one_figure("samples", samples, max)
    columns = [
        q for q in found if 2 <= q.value <= 1e6 and (q.kind == "column" or DESCRIBED_BY.search(q.before))
    ]
    stated = (_of_types(text, columns) or one_figure("n_features", columns, max)) | stated
    stated |= _seq_len(found, text) | _sound_in(text)
    stated |= _image_size(text) | pictures_in(text)
    stated |= split_in("\n".join(filter(OF_SETS.search, sentences)) if page else text) or repeated_in(text)
    stated |= groups_in(found, text, stated) | form
    for name, pattern in (("multi_label", _P["multi_label"]), ("imbalanced", _P["imbalance"])):
        if match := pattern.search(text):
            stated[name] = True, match[0]
    return stated


def _of_types(text: str, columns: Sequence[Quantity]) -> Stated:
    """The columns of all types together, unless more are said: "45 numeric and 12 categorical columns"."""
    if listed := _P["columns_rest"].search(text):
        total = sum(number_of_words(listed[part]) for part in ("n", "rest"))
    else:
        listed = _P["of_types"].search(text)
        total = sum(number_of_words(each[1]) for each in _P["of_type"].finditer(listed[0])) if listed else 0.0
    more = listed and total > max((q.value for q in columns), default=0.0)
    return {"n_features": (round(total), listed[0])} if listed and more else {}


def _table(text: str) -> Stated:
    """ "2,056 × 41 table"."""
    match = _P["table"].search(text)
    if match is None:
        return {}
    rows, columns = (int(re.sub(r"\D", "", part)) for part in match.groups())
    return {"n_train": (rows, match[0]), "n_features": (columns, match[0])}


def language_in(text: str) -> Stated:
    """ISO 639-1 code of the language named, "multi" for several."""
    named = {code: match[0] for code, pattern in _LANGUAGES.items() if (match := pattern.search(text))}
    if match := _P["many_languages"].search(text):
        return {"language": ("multi", match[0])}
    if len(named) > 1:
        return {"language": ("multi", ", ".join(named.values()))}
    return {"language": next(iter(named.items()))} if named else {}


def subtask_in(text: str) -> Stated:
    """What kind of text task it is, by the first of the words for each."""
    for name, pattern in _SUBTASKS.items():
        if match := pattern.search(text):
            return {"subtask": (name, " ".join(match[0].split())[:80])}
    return {}


def slices_of_volumes(text: str) -> Stated:
    """n_train and groups of volumes that masks are asked of: "6 volumes of about 2000 slices" are 12,000."""
    for whole, part in pairwise(quantities_in(text)):
        between = part.before.rpartition(whole.words)[2]
        if (
            part.noun == "slice"
            and whole.role == part.role
            and whole.noun
            and _P["made_of"].fullmatch(between)
        ):
            words = f"{whole.words}{between}{part.words}"
            counts = {"n_train": round(whole.value * part.value), "n_groups": round(whole.value)}
            return {name: (value, words) for name, value in (*counts.items(), ("group_by", whole.noun))}
    return {}


def _seq_len(found: Sequence[Quantity], text: str) -> Stated:
    """Tokens of the longest texts that are told of."""
    if match := _P["length"].search(text):
        return {"seq_len": (int(match[1].replace(",", "")), match[0])}
    lengths = [
        q
        for q in found
        if 8 <= q.value <= 200_000
        and (
            q.noun in ("step", "timestep", "time-step")
            or (q.kind not in ("group", "class") and _P["windows"].search(q.before))
            or (q.kind == "token" and _P["longest"].search(q.before))
        )
    ]
    if not lengths:
        return {}
    longest = max(lengths, key=lambda q: q.value)
    tokens = longest.value if longest.noun != "word" else longest.value * TOKENS_PER_WORD
    return {"seq_len": (round(tokens), longest.words)}


def _sound_in(text: str) -> Stated:
    """Hours of sound in all, where one figure is told, and seconds of a clip."""
    out: Stated = {}
    for name in ("audio_hours", "clip_seconds"):
        told = [m.groupdict("") | {"words": m[0]} for m in _P[name].finditer(text)]
        found = {number_of_words(m["n"] or m["m"]) * (1000 if m.get("k") else 1): m["words"] for m in told}
        if len(found) == 1 and min(found) > 0:
            out[name] = next(iter(found.items()))
    return out


def _image_size(text: str) -> Stated:
    """Pixels of the shorter side, of strips of a square of as many, if one size is stated."""
    sizes = {
        side_of(int(match[1]), int(match[3])): match[0].strip()
        for match in _P["size"].finditer(text)
        if match[2] is None or match[4] is not None or match[1] == match[3]
    } or {int(match[1]): match[0] for match in _P["side"].finditer(text)}
    usable = {size: words for size, words in sizes.items() if 16 <= size <= 20_000}
    return {"image_size": next(iter(usable.items()))} if len(usable) == 1 else {}
