"""Facts that a description states: sizes of the data, classes, groups, split, each with its words.

The quantities of the text (`domain.description.quantities`) are given their parts here. Conservative: two
different figures for the same fact mean that neither is known.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product

from memory_service.domain.description.phrases import patterns, sentences_of, singular
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

TOKENS_PER_WORD = 4 / 3
"""Of English prose in word pieces: 100 pieces are about 75 words (OpenAI's help page "What are tokens")."""

_COLUMN_NOUNS = [noun for noun, kind in KIND_OF.items() if kind == "column"]
_FRACTIONS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "tenth": 10}
_HOURS = {"hour": 1, "day": 24, "week": 168, "month": 730.5, "quarter": 2191.5, "year": 8766}
_P = patterns(
    "stated_facts",
    columns="|".join(_COLUMN_NOUNS),
    fractions="|".join(_FRACTIONS),
    hours="|".join(_HOURS),
    number_word=NUMBER_WORD,
)
_NAMES = """
de:german en:english hi:hindi ta:tamil fr:french es:spanish it:italian pt:portuguese ru:russian uk:ukrainian
pl:polish tr:turkish ar:arabic fa:persian zh:chinese|mandarin ja:japanese ko:korean vi:vietnamese
id:indonesian th:thai bn:bengali ur:urdu te:telugu nl:dutch sv:swedish da:danish fi:finnish no:norwegian
cs:czech cy:welsh ca:catalan ro:romanian el:greek hu:hungarian he:hebrew sw:swahili am:amharic
"""
_LANGUAGES = {
    name: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for name, _, words in (pair.partition(":") for pair in _NAMES.split())
}
_SUBTASKS = {
    "sentiment": r"sentiment|positive or negative|polarity|star rating",
    "acceptability": r"acceptab|grammatical(?:ly)? (?:correct|sound)|ungrammatical",
    "entailment": r"entail|premise|hypothes[ie]s|contradict|follows? from",
    "toxicity": r"toxic|insult|hate|hateful|offensive|abus(?:e|ive)|profan",
    "essay-scoring": r"essays?\b.{0,80}\b(?:scor|grad|mark|rat)"
    r"|(?:scor|grad|mark|rat)\w{0,20}\b.{0,80}\bessays?",
    "entities": r"named entit|\bNER\b|\bBIO\b|personal(?:ly)? identif|\bPII\b|each (?:token|word)",
    "similarity": r"similar|duplicate|paraphras|same (?:meaning|intent)",
    "reading": r"comprehension|answer(?:s|ed)? (?:the|a|to) question|span of|passage that answers",
    "ranking": r"\brank(?:s|ed|ing)?\b|\brelevan|search quer",
    "topic": r"\btopics?\b|\bsections?\b|\bcategor|\bgenres?\b|\bintents?\b",
}
_SUBTASK = {name: re.compile(words, re.IGNORECASE | re.DOTALL) for name, words in _SUBTASKS.items()}


def stated_in(text: str) -> Stated:
    """n_train, n_test, n_classes, n_groups, group_by, n_features, seq_len, image_size, split, multi_label,
    imbalanced, language: as far as the text says them."""
    page = len(text) >= LONG_TEXT
    sentences = task_sentences(text)  # timelines and rules speak of last days and of participants
    text = "\n".join(sentences)
    found = quantities_in(text)
    stated: Stated = {}
    stated |= one_figure("n_train", _of_training(found, page, bool(_RECORDED.search(text))))
    stated |= one_figure("n_test", told := _of_test(found, page))
    others = [q for q in found if q.role != "test" and not q.each and told and q.value > told[0].value]
    if not page and stated.keys() == {"n_test"} and not any(q.direct for q in told) and not others:
        stated["n_train"] = stated.pop("n_test")  # "predict it for 900 cows"
    same = "n_test" in stated and stated.get("n_train") == stated["n_test"]
    if same and not any(q.role == "train" and q.words == stated["n_test"][1] for q in found):
        del stated["n_train"]  # one number cannot be of both
    stated |= {
        f"n_{of[1].lower()}": (int(of[2].replace(",", "")), of[0]) for of in _P["shape"].finditer(text)
    }
    stated |= _n_classes(found, text) or _listed_classes(text)
    stated = _of_each(found) | stated
    if "n_train" in stated and stated.get("n_classes", (0, ""))[0] > stated["n_train"][0]:
        del stated["n_classes"]  # it counts something else: boxes, words
    columns = [
        q for q in found if 2 <= q.value <= 1e6 and (q.kind == "column" or DESCRIBED_BY.search(q.before))
    ]
    stated |= _table(text) or one_figure("n_features", columns, max)
    stated |= _seq_len(found, text)
    stated |= _image_size(text)
    stated |= split_in("\n".join(filter(OF_SETS.search, sentences)) if page else text) or repeated_in(text)
    stated |= groups_in(found, text, stated)
    for name, pattern in (("multi_label", _P["multi_label"]), ("imbalanced", _P["imbalance"])):
        if match := pattern.search(text):
            stated[name] = True, match[0]
    return stated


_RECORDED = re.compile(r"\d (?:hours?|h) of (?:\w+ ){0,2}(?:audio|speech|recording|sound)", re.IGNORECASE)
"""Recordings told by their length: then speakers and stations count no samples."""


def training_sizes(text: str) -> list[int]:
    """Every number of training samples that the text names."""
    found = quantities_in("\n".join(task_sentences(text)))
    return sorted({round(q.value) for q in _of_training(found, len(text) >= LONG_TEXT)})


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
    for name, pattern in _SUBTASK.items():
        if match := pattern.search(text):
            return {"subtask": (name, " ".join(match[0].split())[:80])}
    return {}


def _of_each(found: Sequence[Quantity]) -> Stated:
    """ "900 photos of each of these 12 materials" are 10,800 samples of 12 classes."""
    for one, kinds in pairwise(found):
        between = kinds.before.rpartition(one.words)
        if one.each and between[1] and one.role != "test" and _P["of_each"].fullmatch(between[2]):
            words = f"{one.words}{between[2]}{kinds.words}"
            classes = {} if kinds.kind == "group" else {"n_classes": (round(kinds.value), words)}
            return {"n_train": (round(one.value * kinds.value), words), **classes}
    return {}


_LEAST_SAMPLES, _MOST_SAMPLES = 10, 10**10


def _usable(found: Sequence[Quantity], role: str | None) -> list[Quantity]:
    return [
        q
        for q in found
        if q.role == role
        and not (q.each or q.of_rows)
        and (
            _LEAST_SAMPLES <= q.value <= _MOST_SAMPLES
            or (not q.noun and q.value > 1 and _P["of_table"].search(q.before))
        )
        and q.kind in ("sample", "group", "unknown")
        and not (_P["windows"].search(q.before) or _P["cutoff"].search(q.before) or _OF_FEW.search(q.before))
        and not (
            _P["gallery"].search(q.before) or q.before.endswith(" one of ") or _OF_WHOLE.search(q.before)
        )
    ]


def _of_samples(found: Sequence[Quantity], role: str) -> list[Quantity]:
    """What counts samples of this role: sample nouns before people and places before others, figures whose
    role stands right beside them before others."""
    usable = _usable(found, role)
    usable = [q for q in usable if q.noun or not q.words.endswith(" more")] or usable
    if direct := [q for q in usable if q.direct and q.value >= 100]:
        usable = [q for q in direct if not _P["about"].search(q.before)] or direct
    of_test = role == "test" and not any(q.direct for q in usable)
    for kind in ("sample", "unknown") if of_test else ("sample", "group", "unknown"):
        of_kind = [q for q in usable if q.kind == kind]
        if of_kind:
            direct = [q for q in of_kind if q.direct] or of_kind
            return [q for q in direct if q.noun] or direct
    return []


def _of_test(found: Sequence[Quantity], page: bool) -> list[Quantity]:
    told = _of_samples(found, "test")
    later = r"\b(?:further|more|another|additional|new)\b"
    return [q for q in told if q.direct and not re.search(later, q.words, re.IGNORECASE)] if page else told


def _of_training(found: Sequence[Quantity], page: bool, hours: bool = False) -> list[Quantity]:
    """What is said to be of training, else the greatest number of samples that the data are said to have: a
    page speaks of many numbers, a short text of its data alone."""
    rows = [q for q in _usable(found, None) if q.kind == "sample" and _EACH_OF.search(q.before)]
    if of_table := [q for q in _usable(found, "train") if _P["of_table"].search(q.before)] or rows:
        return of_table[:1]
    bare = [q for q in _usable(found, None) if not _P["not_all"].search(q.before)]
    of_data = [q for q in bare if q.noun and q.value >= 100 and _P["of_data"].search(q.before)]
    given = of_data if page else bare
    samples = [q for q in given if q.kind == "sample"]
    alone = len({q.value for q in bare if q.kind == "sample" and q.value >= 500}) == 1
    whole = ("sample", "unknown") if hours else ("sample", "group", "unknown")
    kinds = ("sample",) if page and alone else () if page else whole
    opening = [
        q for q in bare if q.kind in kinds and q.noun and q.value >= 500 and _P["opens"].search(q.before)
    ]
    told = _of_samples(found, "train")
    most_samples = max((q.value for q in samples), default=0.0)
    direct = bool(told and told[0].direct)
    least = 100 if direct else max(10**10 if page else 500, most_samples)
    if told and (told[0].kind == "sample" or told[0].value >= least):
        return told
    units = [] if page else [*_of_columns(found), *([] if hours else _only_units(bare))]
    for each in (samples, of_data, opening, units):
        if each:
            most = max(q.value for q in each)
            return [q for q in each if q.value == most]
    return []


def _of_columns(found: Sequence[Quantity]) -> list[Quantity]:
    """What has the columns: "20,000 genes of 61 patients"."""
    return [
        replace(q, of_rows=False)
        for before, q in pairwise(found)
        if before.kind == "column" and q.kind in ("group", "sample") and (q.of_rows or "of" in q.before[-12:])
    ]


def _only_units(bare: Sequence[Quantity]) -> list[Quantity]:
    """What a short text counts where it counts one thing only: "the viscosity of 8,000 batches"."""
    counted = [
        q for q in bare if q.kind in ("sample", "group") and q.noun != "people" and q.value >= _LEAST_SAMPLES
    ]
    return counted if len({q.value for q in counted}) == 1 and counted[0].value >= 100 else []


_EACH_OF = re.compile(r"^\W*each of (?:the|our|these|those) $", re.IGNORECASE)

_OF_FEW = re.compile(r"\w(?:example|sample|small|mini|tiny|toy)(?:\.[a-z]{2,5}\b|/)", re.IGNORECASE)
"""Before a number of a file with a few of them: "train_sample.csv"."""


_OF_WHOLE = re.compile(r"\d\w{0,12} of (?:the|these|those|our|my) $")
"""Before a number of which only a part is used: "6,100 of the 8,800 adverts"."""


_DONE = (
    "interaction purchase transaction session rating click view event play listen visit booking order "
    "row record sample example instance observation line impression basket playlist loan log history "
    "stream check-in like vote review watch read download search query pair action stay trip ride"
)
_INTERACTIONS = frozenset(_DONE.split())


def sizes_of_recommendation(text: str) -> Stated:
    """n_train and n_test of a recommender: rows are what users did. The catalogue is none, nor are users but
    those to answer for."""
    found = quantities_in(text)
    done = [q for q in found if q.noun in _INTERACTIONS and not q.each and q.value >= _LEAST_SAMPLES]
    train = one_figure("n_train", [q for q in done if q.role != "test"], max)
    users = [q for q in found if q.kind == "group" or q in done]
    return train | one_figure("n_test", _of_samples(users, "test"))


def sizes_of_search(text: str) -> Stated:
    """n_train of what learns from questions: what is searched counts no samples."""
    asked = [
        q
        for q in quantities_in(text)
        if q.noun in ("query", "question", "claim", "pair") and q.role != "test"
    ]
    return one_figure("n_train", [q for q in asked if not q.each and q.value >= _LEAST_SAMPLES], max)


def slices_of_volumes(text: str) -> Stated:
    """n_train and groups of volumes that masks are asked of: "6 volumes of about 2000 slices" are 12,000."""
    for whole, part in pairwise(quantities_in(text)):
        between = part.before.rpartition(whole.words)[2]
        if part.noun == "slice" and whole.role == part.role and whole.noun and _MADE_OF.fullmatch(between):
            words = f"{whole.words}{between}{part.words}"
            counts = {"n_train": round(whole.value * part.value), "n_groups": round(whole.value)}
            return {name: (value, words) for name, value in (*counts.items(), ("group_by", whole.noun))}
    return {}


_MADE_OF = re.compile(r" (?:of|with) (?:about |some |around |roughly |up to )?", re.IGNORECASE)

_OFTEN = re.compile(r"\b(hour|dai|week|month|quarter|year)ly\b", re.IGNORECASE)


def rows_of_series(text: str) -> Stated:
    """n_train of series whose number and span are told: "daily sales of 300 shops over three years"."""
    text = "\n".join(task_sentences(text))
    spans = [(match, _HOURS[match["unit"].lower()]) for match in _P["span"].finditer(text)]
    counted = [
        q for q in quantities_in(text) if q.noun and not q.each and q.value >= 2 and q.kind != "column"
    ]
    if not spans or not counted:
        return {}
    often = _OFTEN.search(text)
    span, hours = max(spans, key=lambda each: number_of_words(each[0]["number"]) * each[1])
    step = _HOURS[often[1].lower().replace("dai", "day")] if often else hours
    of = max(counted, key=lambda q: q.value)
    moments = number_of_words(span["number"]) * hours / step
    rows = round(of.value * moments)
    return (
        {"n_train": (rows, f"{of.words} x {span['number']} {span['unit']}s")}
        if moments >= 2 and rows <= _MOST_SAMPLES
        else {}
    )


def _n_classes(found: Sequence[Quantity], text: str) -> Stated:
    usable = [
        q
        for q in found
        if 2 <= q.value <= 1e6 and not (q.each or _UP_TO.search(q.before) or _LEVELS.search(q.before))
    ]
    said = [
        q
        for q in usable
        if q.noun in ("class", "label", "category", "tag")
        or (
            _P["class_context"].search(q.before)
            and q.kind != "sample"
            and not (q.direct or (q.kind == "group" and q.before.endswith("out of ")))
        )
    ]
    kinds = [q for q in usable if q.kind == "class" and not q.direct]
    for of_kind in (said, kinds, [q for q in usable if q.kind == "unknown" and _is_told(q, text)]):
        if of_kind:
            counts = Counter(q.value for q in of_kind).most_common(2)
            repeated = len(counts) > 1 and counts[0][1] > counts[1][1]
            return one_figure("n_classes", [q for q in of_kind if not repeated or q.value == counts[0][0]])
    if match := _P["one_class"].search(text):
        return {"n_classes": (1, match[0])}
    if match := _P["ordinal"].search(text):
        return {"n_classes": (round(number_of_words(match[2]) - number_of_words(match[1])) + 1, match[0])}
    if "kappa" in text.lower() and (match := _GRADES.search(text)):
        return {"n_classes": (int(match[2]) - int(match[1]) + 1, match[0])}
    match = None if _P["many_classes"].search(text) else _P["binary"].search(text)
    return {"n_classes": (2, match[0])} if match else {}


_NAMED = r"\b(?:predict|name|recogni[sz]e|identify)"
_TOLD = r"\b(?:name|tell|recogni[sz]\w+|identif\w+|classif\w+|assign|sort|give)\b"


def _is_told(quantity: Quantity, text: str) -> bool:
    """Whether it counts what is to be told: "name the pattern. There are 26 patterns", "photos of 80 whales;
    predict the whale"."""
    noun = quantity.noun and re.escape(quantity.noun)
    if noun and quantity.of_rows:
        return bool(re.search(rf"{_NAMED} (?:an?|the|which|each) {noun}\b", text, re.IGNORECASE))
    if not (noun and quantity.value <= 1_000 and _THERE_ARE.search(quantity.before)):
        return False
    return bool(re.search(rf"{_TOLD}[^.;]{{0,60}}\b{noun}s?\b", text, re.IGNORECASE))


_THERE_ARE = re.compile(r"\b(?:there are|over the|all|these|of the) $", re.IGNORECASE)


def _listed_classes(text: str) -> Stated:
    """The classes that are counted out where it is told what to say: "left, right or none"."""
    for clause in (part for each in sentences_of(text) for part in each.split(";")):
        if not _P["to_tell"].search(clause):
            continue
        if match := _P["numbered"].search(clause):
            places = [int(each) for each in re.findall(r"(?:^|[,;]\s?(?:and |or )?)(\d{1,2})\b", match[0])]
            if places[1:] and places == list(range(places[0], places[0] + len(places))):
                return {"n_classes": (len(places), match[0])}
        for match in _P["counted_out"].finditer(clause):
            kind = KIND_OF.get(singular(match[2].lower()), "class")
            if kind == "class" and len(_ITEM_ENDS.split(match[3])) == number_of_words(match[1]):
                return {"n_classes": (round(number_of_words(match[1])), match[0])}
        if match := _P["slashed"].search(clause) or _VERSUS.search(clause):
            return {"n_classes": (len(re.findall(" / | vs", match["list"])) + 1, match["list"])}
        for match in (*_P["boxed"].finditer(clause), *_P["listed"].finditer(clause)):
            if len(items := _ITEM_ENDS.split(match["list"])) > 2:
                return {"n_classes": (len(items), match["list"])}
    return {}


_VERSUS = re.compile(r"(?P<list>\b[\w-]{2,30}(?: vs\.? [\w-]{2,30}){2,9}\b)")
_ITEM_ENDS = re.compile(r",? (?:or|and) |, (?:or |and )?")
_UP_TO = re.compile(r"\b(?:up to|at most|as many as|no more than) (?:\w+ )?$", re.IGNORECASE)
_LEVELS = re.compile(r"\b(?:categor\w+|features?|columns?|variables?|factors?)\b[^.;]{0,60}$", re.IGNORECASE)
"""Before what a column can be, which is no class to tell."""
_GRADES = re.compile(r"(?<![\d.,-])([01])\s?(?:to|-|–|through|\.\.)\s?([2-9]|1[0-2])(?![\d.%]| [a-z]+s\b)")
"""Grades that kappa judges: "(0-4)"."""


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
            or _P["windows"].search(q.before)
            or (q.kind == "token" and _P["longest"].search(q.before))
        )
    ]
    if not lengths:
        return {}
    longest = max(lengths, key=lambda q: q.value)
    tokens = longest.value if longest.noun != "word" else longest.value * TOKENS_PER_WORD
    return {"seq_len": (round(tokens), longest.words)}


def _image_size(text: str) -> Stated:
    """Pixels of the shorter side, if one size is stated."""
    sizes = {
        min(int(match[1]), int(match[3])): match[0].strip()
        for match in _P["size"].finditer(text)
        if match[2] is None or match[4] is not None or match[1] == match[3]
    } or {int(match[1]): match[0] for match in _P["side"].finditer(text)}
    usable = {size: words for size, words in sizes.items() if 16 <= size <= 20_000}
    return {"image_size": next(iter(usable.items()))} if len(usable) == 1 else {}
