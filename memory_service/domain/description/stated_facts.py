"""Facts that a description states: columns, lengths, sizes, groups, split, each with its words; what is
searched of a ranking; the form of a submission.

The quantities of the text (`domain.description.quantities`) are given their parts here. Counts of samples and
of classes are told by `recall.count_classifier`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory_service.domain.description.modalities import pictures_in, side_of
from memory_service.domain.description.phrases import (
    LONG_TEXT,
    OF_SETS,
    patterns,
    sentences_of,
    task_sentences,
)
from memory_service.domain.description.quantities import (
    KIND_OF,
    NUMBER_WORD,
    Quantity,
    number_of_words,
    numbers_in,
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
    stated = one_figure("n_features", columns, max) | stated
    stated |= _seq_len(found, text) | _sound_in(text)
    stated |= _image_size(text) | pictures_in(text)
    stated |= split_in("\n".join(filter(OF_SETS.search, sentences)) if page else text) or repeated_in(text)
    stated |= groups_in(found, text, stated) | form
    for name, pattern in (("multi_label", _P["multi_label"]), ("imbalanced", _P["imbalance"])):
        if match := pattern.search(text):
            stated[name] = True, match[0]
    return stated


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


USUAL_DOCUMENTS, FEWEST_DOCUMENTS = 100_000, 200
"""Documents of a collection whose size nobody says; fewer than the second are classes or given candidates."""

_QUERIES = frozenset(
    ("query", "question", "claim", "search", "search-term", "search-query", "request", "topic")
)


@dataclass(frozen=True, slots=True)
class Search:
    """What answers a query.

    queries     of training, None where nobody says how many
    documents   that are searched: passages, products, articles; 0 where candidates are given
    candidates  a query that are given to be ordered, None where they are to be found
    words       that say how many documents, "" where nobody does
    """

    queries: int | None
    documents: int
    candidates: int | None = None
    words: str = ""


def search_in(text: str) -> Search | None:
    """The search that a text of a ranking task tells of; None where nothing is searched by queries."""
    if not _P["query"].search(text):
        return None
    found = [q for q in quantities_in(text) if q.role != "test"]
    asked = [q for q in found if q.noun in _QUERIES]
    queries = round(max((q.value for q in asked), default=0.0)) or None
    given = _P["given"].search(text)
    if given is not None and (number := round(numbers_in(given[0])[-1])) > 0:
        return Search(queries, 0, number, given[0])
    things = [q for q in found if q.noun and q.noun not in _QUERIES and q.kind in ("sample", "unknown")]
    most = max((q for q in things if not q.each), key=lambda q: q.value, default=None)
    if most is not None and most.value >= FEWEST_DOCUMENTS:
        return Search(queries, round(most.value), None, most.words)
    return Search(queries, USUAL_DOCUMENTS) if _P["collection"].search(text) else None


_MARKS = {"comma": ",", "tab": "\t", "semicolon": ";", "pipe": "|", "bar": "|", "space": " ", "blank": " "}
_PASSAGE = 14
"""Sentences and lines, behind one that speaks of a submission, in which its form is told."""

_QUOTES = "`\"'“”* "
BETWEEN, NO_HEADER = " / ", "no header"
"""What stands between lines of the fact, and the line of names where there is to be none."""


def submission_in(text: str) -> Stated:
    """submission: the line of names and, where shown, one of answers: "file,angle / x.png,3.2"; without a
    line of names "no header / id,class"."""
    lines = sentences_of(_P["code_tag"].sub("`", _P["block"].sub("\n", text)))
    for place, line in enumerate(lines):
        if not _P["submits"].search(line) or _P["of_data"].search(line):
            continue
        passage = [line]
        for each in lines[place + 1 : place + _PASSAGE]:
            if _P["heading"].match(each) or _P["of_data"].search(each):
                break
            passage.append(each)
        if form := _form_of(passage):
            return {"submission": (BETWEEN.join(form), " ".join(passage)[:200])}
    return {}


def _form_of(passage: Sequence[str]) -> list[str]:
    """The lines of the fact; none where nothing is told."""
    prose = "\n".join(passage)
    told = _P["mark"].search(prose)
    mark = _MARKS[next(filter(None, told.groups()), "tab").lower()] if told else ""
    (rows, mark), bare = _shown(passage, mark), bool(_P["no_header"].search(prose))
    if any(re.fullmatch(r"\.{2,3}|…", cell) for row in rows for cell in row):
        return []  # how many there are is not shown
    bare |= len(rows) > 1 and _shape(rows[0]) == _shape(rows[1]) != rows[0][0]
    names, answers = (rows[0], rows[1:2]) if rows and not bare else (_named(passage), rows[:1])
    if not bare and any(_P["no_name"].fullmatch(cell) for cell in names):
        return []
    if bare:
        names = answers[0] if answers else names
        answers = []
    written = [mark.join(row) for row in (names, *answers) if row]
    return [*([NO_HEADER] if bare else []), *written] if names else []


def _shape(row: Sequence[str]) -> str:
    """img_001.png and img_002.png have the same: neither is a name of a column."""
    return re.sub(r"\d+", "0", row[0])


def _shown(passage: Sequence[str], mark: str) -> tuple[list[list[str]], str]:
    """(two rows of as many cells, one below the other, the mark between cells); none of a line alone."""
    rows: list[list[str]] = []
    for line in passage[1:]:
        if _P["fence"].match(line) or _P["ruled"].fullmatch(line):
            continue
        ruled = _P["table_row"].fullmatch(line.strip())
        sign = "|" if ruled else mark.strip() or next((each for each in ";,|" if each in line), mark or "\0")
        sign = sign if ruled or sign in line or not mark.isspace() else " "  # what is shown goes before words
        cells = (ruled[1] if ruled else line).split(sign)
        cells = [cell.strip(" `*") for cell in cells]
        fits = len(cells) > 1 and all(_P["cell"].fullmatch(cell) for cell in cells)
        rows = rows if fits and rows and len(cells) == len(rows[0]) else []
        rows += [cells] if fits else []
        if len(rows) == 2:
            return rows, (mark or ",") if ruled else sign
    return [], mark or ","


def _named(passage: Sequence[str]) -> list[str]:
    """Names of columns that a sentence on submissions, or the one behind it, lists, or of what it says that a
    line has."""
    before = ""
    for sentence in passage:
        near = before if _P["form"].search(before) else ""
        before = sentence if _P["submits"].search(sentence) else ""
        if not (before or near):
            continue
        for match in _P["listed"].finditer(re.sub(r"\(\d\) ", "", sentence)):
            tokens = _P["token"].findall(re.sub(r"\([^()]{0,80}\)", " ", match["names"]))
            quoted = [each for each in tokens if not (each[0].isalpha() or each[0] == "_")]
            if not quoted and match[0].lower().startswith("format") and not re.search(r"\w,\w", match[0]):
                continue
            names = [each for token in quoted or tokens for each in re.split("[,;|\t]", token.strip(_QUOTES))]
            names = [each.strip(" .") for each in names if not _P["file"].search(each)]
            if len(names) > 1 and not _P["beside"].search(sentence[: match.start()]):
                return names
            if quoted and names and _P["one"].search(sentence[: match.end("names")]):
                return names
        if of_line := _P["line_has"].search(sentence):
            return [re.findall(r"\w+", of_line[part])[-1] for part in ("first", "last")]
        if _P["one_a_line"].search(sentence):
            return ["answer"]
    return []
