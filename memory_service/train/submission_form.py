"""What the sample submission asks: its ids and targets are found in the tables, and answers written as it has
them.

`as_asked` gives tables of one row an answer: the first column is the id, the sample's other columns are
targets of train.csv. Where the sample has another form, such as a row for each id and target, or a column for
each day, `plan.cells` says of each of its cells which row and target it is.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.table_files import PIXELS, with_pixels

SEEN = 200  # rows of a sample that are looked at before all are
MOST_TRIED = 20_000  # rows of the test set, one of which may have made an id
MOST_LONG = 2_000_000  # rows of wide series made long: the latest
MOST_KEY_COLUMNS, MOST_FAILED = 30, 20  # columns that may name rows; ways to join them
LEAST_PERIODS = 12  # columns, of wide series
A_DAY = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}")
NUMBERED = re.compile(r"(.{0,40}?)(\d{1,6})(\D{0,20}|\W.{1,20}\2\W?)")  # or twice: 2000 [YR2000]
RANKED = re.compile(r"rank|place|position|order", re.IGNORECASE)
EVENT = re.compile(r"event|status|censor|death|dead|died|efs|relapse|churn|fail", re.IGNORECASE)
DURATION = re.compile(r"time|days|weeks|months|years|duration|tenure|surviv", re.IGNORECASE)
SEPARATORS = re.compile(r"(?=([^0-9A-Za-z][A-Za-z][^0-9A-Za-z]|[^0-9A-Za-z]{1,4}))")
ENDED = re.compile(r"\.[A-Za-z]\w{1,4}$")  # of a file
FORM_CELLS = re.compile(r"[-0-9. ]+")
MOST_OF_CELLS = 65_536  # numbers of a cell that are columns


def as_asked(train, test, sample, further: Callable[[], dict[str, Any]]) -> tuple[Any, Any, Any]:
    """(train.csv, test.csv, the sample) with one row an answer, ids first and targets of the sample's names.

    further   the other tables of the folder by name
    """
    plan.cells = plan.ranks = None
    sample = without_list(test, sample)
    if sample is not None and sample.shape[1] > 1 and len(sample):
        plan.ranks = ranks_asked(train, test, sample)
        train = with_named_targets(train, test, sample)
        if test is not None:
            train, test, sample = with_joint_ids(train, test, sample)
        ids = sample.iloc[:, 0].astype(str)
        if test is None and len(ids) == len(train) and not known_ids(ids, train.iloc[:, 0]):
            template = template_of(ids, train)
            train = with_ids_first(train, ids.name, made_by(template, train)) if template else train
        if test is None or not (plan.cells or known_ids(ids, test.iloc[:, 0])):
            train, test, sample = with_cells(train, test, sample, further)
        sample = without_unknown(train, test, sample)
    if test is not None:
        train, test = with_numbers_of_cells(with_ids(train, test), test)
        pixels = [name for name in train.columns if name in test.columns and PIXELS.fullmatch(str(name))]
        train, test = with_pixels(train, test, pixels, "image")
    return train, test, sample


def without_list(test, sample) -> Any:
    """The sample; None where it has nothing but ids, with their places or without: those of rows to predict
    whose answers are the highest are asked for, in order."""
    plan.listed = None
    if test is None or sample is None or sample.shape[1] > 2 or not len(sample):
        return sample
    places = [str(row + 1) for row in range(len(sample))]
    ids = sample.iloc[:, -1].astype(str)
    known = ids.isin({*test.iloc[:, 0].astype(str)}).mean() > 0.99 and ids.is_unique
    if (
        not known
        or ids.name != test.columns[0]
        or (sample.shape[1] == 2 and sample.iloc[:, 0].astype(str).tolist() != places)
    ):
        return sample
    print(f"NOTE: the {len(sample)} likeliest of {len(test)} {sample.columns[-1]} are asked for", flush=True)
    plan.listed, plan.FORM = sample, "chances" if plan.ANSWER == "labels" else plan.FORM
    return None


def as_list(table: pd.DataFrame) -> pd.DataFrame:
    """The ids of the highest answers, the highest first, as many as the sample has."""
    best = table.sort_values(table.columns[-1], ascending=False, kind="stable").iloc[:, 0]
    return plan.listed.assign(**{plan.listed.columns[-1]: best.to_numpy()[: len(plan.listed)]})


def told_form() -> tuple[list[str], list[str], str]:
    """(names of columns, cells of an answer, what stands between) as the page shows them."""
    lines = () if plan.ANSWER in ("masks", "boxes", "matches") else plan.PAGE_FORM
    mark = next((each for each in "\t;|," if each in "".join(lines)), " ")
    names, cells = ([*filter(None, line.split(mark))] for line in (*lines, "", "")[:2])
    return names, cells, mark


def as_told(test, sample) -> tuple[Any, Any]:
    """(test.csv, the sample of the folder, else rows for all of test.csv in the form that the page shows)."""
    names, cells = told_form()[:2]
    if sample is not None and names and {*map(plainly, names)} != {*map(plainly, sample.columns)}:
        there = ", ".join(map(str, sample.columns[:9]))
        print(f"WARNING: the page asks for {', '.join(names[:9])}: the sample counts, {there}", flush=True)
    if sample is not None or test is None or not (names or cells):
        return test, sample
    first, width = test.columns[0], len(names or cells)
    number = bool(cells) and "." not in cells[0] and any(map(str.isdigit, cells[0]))
    if width > 1 and number:  # of a file, without its ending
        test = test.assign(**{first: test[first].str.replace(ENDED, "", regex=True)})
    names = names or [first, *(f"answer_{n}" for n in range(1, width))][-width:]
    asked = {names[0] if width > 1 else first: test[first]}
    for name, cell in [*zip(names, cells or "." * width, strict=True)][width > 1 :]:
        shown = None if re.fullmatch(r"\W*", cell) else as_numbers_or_texts(pd.Series([cell] * len(test)))
        asked[name] = test[name] if name in test.columns else shown
    print(f"NOTE: there is no sample submission: columns {', '.join(names[:9])} as the page asks", flush=True)
    return test, pd.DataFrame(asked)


def known_ids(ids: pd.Series, names: pd.Series) -> bool:
    """Whether nearly all are among as many names, else most: a sample may show a few rows, or other ones."""
    return bool(ids.isin({*names.astype(str)}).mean() > (0.99 if len(ids) == len(names) else 0.5))


def with_ids(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """train.csv with ids made for it, where only test.csv has a column of them."""
    first, name = train.columns[0], test.columns[0]
    if name in train.columns or not (first in test.columns or train[first].duplicated().any()):
        return train
    print(f"NOTE: train.csv has no ids; its first column {first} is learned from", flush=True)
    return with_ids_first(train, str(name), [str(row) for row in range(len(train))])


def with_ids_first(table: pd.DataFrame, name: str, ids: Any) -> pd.DataFrame:
    """The table with ids as its first column; that which was the first was read as text."""
    table = table.rename(columns={name: f"{name} "})
    table[table.columns[0]] = as_numbers_or_texts(table.iloc[:, 0])
    return pd.concat([pd.Series([str(each) for each in ids], index=table.index, name=name), table], axis=1)


def as_numbers_or_texts(column: pd.Series) -> pd.Series:
    """Ids are read as texts: their numbers where they are values after all."""
    with suppress(ValueError, TypeError):
        return pd.to_numeric(column)
    return column


def with_numbers_of_cells(train: pd.DataFrame, test: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Texts of as many numbers in each row, such as "0 12 255 ...", as a column for each number."""
    for name in [each for each in train.columns[1:] if each in test.columns]:
        shown = train[name].head(5).astype(str).str
        count = shown.count(" ").min()
        if pd.api.types.is_numeric_dtype(train[name]) or not (
            count > 6 and shown.fullmatch(FORM_CELLS).all()
        ):
            continue
        step = -(-(count + 1) // MOST_OF_CELLS)
        with suppress(ValueError, AttributeError):  # of other cells
            found = [np.array([cell.split()[::step] for cell in each[name]], float) for each in (train, test)]
            columns = [f"{name} {number}" for number in range(found[0].shape[1])]
            train, test = (
                pd.concat([table.drop(columns=name), pd.DataFrame(cells, table.index, columns)], axis=1)
                for table, cells in zip((train, test), found, strict=True)
            )
            print(f"NOTE: {name} is read as {len(columns)} columns of numbers", flush=True)
            train, test = with_pixels(train, test, columns if step == 1 else [], name)
    return train, test


# Targets


def with_named_targets(train: pd.DataFrame, test, sample: pd.DataFrame) -> pd.DataFrame:
    """train.csv with its target called as in the sample: the same, the likest, or an event with its time."""
    asked = [str(name) for name in sample.columns[1:]]
    given = {*([] if test is None else test.columns)}
    asked = [name for name in asked if name not in given or name not in train.columns] or asked
    first = 0 if test is not None and test.columns[0] not in train.columns else 1  # or the id
    left = [name for name in train.columns[first:] if name not in given and train[name].notna().any()]
    if plan.TARGET in train.columns and len(asked) == 1:
        return train.rename(columns={plan.TARGET: asked[0]})
    if set(asked) & set(train.columns):
        return train
    spelled = {plainly(name): name for name in left}
    same = {spelled[plainly(name)]: name for name in asked if plainly(name) in spelled}
    if same or len(asked) > 1 or len(left) < 2:
        return train.rename(columns=same)
    if (risk := risk_of(train, left)) is not None:
        return train.assign(**{asked[0]: risk}).drop(columns=left)
    alike = {name: likeness(str(name), asked[0]) for name in left}
    best = max(alike, key=lambda name: alike[name])
    if alike[best] == 0:  # or the only one whose values are as those that are shown
        shown = pd.to_numeric(sample[asked[0]], errors="coerce").mean()
        ranges = {name: pd.to_numeric(train[name], errors="coerce") for name in left}
        near = [name for name, each in ranges.items() if shown and each.min() <= shown <= each.max()]
        best, alike = (near[0], {near[0]: 1.0}) if len(near) == 1 else (best, alike)
    if list(alike.values()).count(alike[best]) > 1 or alike[best] == 0:
        return train
    print(f"NOTE: {asked[0]} of the sample is {best} of train.csv", flush=True)
    return train.rename(columns={best: asked[0]})


def plainly(name: Any) -> str:
    """Letters and digits in lower case; of numbers no zeros before and behind the point."""
    text = re.sub(r"[^0-9a-z.]", "", str(name).strip().lower())
    return re.sub(r"^(\d{1,30})\.0$", r"\1", text).lstrip("0") or "0"


def likeness(one: str, other: str) -> float:
    """Of two names: words that both have, and then letters; 0 without a word."""
    words = [set(re.findall(r"[A-Z]?[a-z]{2,40}", name)) for name in (one, other)]
    both = {word.lower() for word in words[0]} & {word.lower() for word in words[1]}
    return len(both) + SequenceMatcher(None, one.lower(), other.lower()).ratio() if both else 0.0


def risk_of(train: pd.DataFrame, left: list) -> pd.Series | None:
    """Of an event and its time the share expected to last as long or longer; None without such a pair."""
    binary = [name for name in left if train[name].dropna().isin([0, 1]).all() and EVENT.search(str(name))]
    times = [name for name in left if name not in binary and DURATION.search(str(name))]
    times = [name for name in times if pd.api.types.is_numeric_dtype(train[name])]
    if len(binary) != 1 or len(times) != 1:
        return None
    event, time = train[binary[0]].to_numpy(float), train[times[0]].to_numpy(float)
    order = np.lexsort((-event, time))
    at_risk = len(train) - np.arange(len(train))
    lasting = np.cumprod(1 - event[order] / at_risk)  # Kaplan and Meier
    found = np.empty(len(train))
    found[order] = np.where(event[order] == 1, lasting, lasting / 2)
    print(f"NOTE: {binary[0]} with {times[0]} is learned as a risk: the earlier the event", flush=True)
    return pd.Series(found, index=train.index).where(train[times[0]].notna() & train[binary[0]].notna())


def without_unknown(train: pd.DataFrame, test, sample: pd.DataFrame) -> pd.DataFrame:
    """The sample without columns that train.csv has not, or test.csv has, too: submitted as it has them."""
    asked = list(sample.columns[1:])
    known = [name for name in asked if name in train.columns]
    known = [name for name in known if test is None or name not in test.columns] or known
    unknown = [name for name in asked if name not in known]
    new = [name for name in unknown if name not in train.columns]
    if len(known) != 1 or not unknown or any(re.search(r"\d", str(name)) for name in new):
        return sample
    if plan.cells is None:
        fill(sample, {known[0]: (sample.iloc[:, 0].astype(str), known[0])})
    if new:
        print(f"WARNING: no column of train.csv for {', '.join(new)}: submitted as in the sample", flush=True)
    return sample[[sample.columns[0], *known]]


def ranks_asked(train: pd.DataFrame, test, sample: pd.DataFrame) -> pd.Series | None:
    """Of each id the group that it has a rank in, where the sample counts 1 to n in each group of a column of
    test.csv and no rank is known of training rows; else None."""
    left = [str(name) for name in train.columns if test is not None and name not in test.columns]
    if not left or sample.shape[1] != 2 or any(RANKED.search(name) for name in left):
        return None
    rows, ids = test.set_index(test.iloc[:, 0].astype(str)), sample.iloc[:, 0].astype(str)
    shown = pd.to_numeric(sample.iloc[:, 1], errors="coerce")
    if not rows.index.is_unique or not ids.isin(rows.index).all() or shown.max() < 2:
        return None
    for column in rows.columns[1 : MOST_KEY_COLUMNS + 1]:
        groups = rows[column].loc[ids]
        if groups.nunique() > 1 and (shown.groupby(groups.to_numpy()).rank() == shown).all():
            print(f"NOTE: ranks in each {column} are asked for: 1 is the highest", flush=True)
            return groups
    return None


def with_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Answers as ranks in the group of each row, the highest first."""
    groups = plan.ranks.reindex(table.iloc[:, 0].astype(str)).to_numpy()
    found = table.iloc[:, 1].groupby(groups).rank(ascending=False, method="first")
    return table.assign(**{str(table.columns[1]): found.astype(int)})


# Ids


def with_joint_ids(train, test, sample) -> tuple[Any, Any, Any]:
    """The tables with ids as the sample spells them or joins them of columns, or has them in several."""
    name, ids = str(sample.columns[0]), sample.iloc[:, 0].astype(str)
    more = [each for each in sample.columns[1:] if each in test.columns and each in train.columns]
    more = [each for each in more if sample[each].isin(test[each]).mean() > 0.5]
    if more and name in test.columns and ids.duplicated().any() and len(more) < sample.shape[1] - 1:
        joint = [table[[name, *more]].astype(str).agg("|".join, axis=1) for table in (train, test, sample)]
        targets = [each for each in sample.columns[1:] if each not in more]
        fill(sample, {each: (joint[2], each) for each in targets})
        tables = zip((train, test, sample[targets]), joint, strict=True)
        made = [with_ids_first(table, "row", ids) for table, ids in tables]
        return made[0], made[1], made[2].astype(dict.fromkeys(targets, float), errors="ignore")
    if known_ids(ids, test.iloc[:, 0]):
        return train, test, sample
    spelled = dict(zip(ids.map(plainly), ids, strict=True))
    for column in test.columns[:MOST_KEY_COLUMNS]:
        made = test[column].map(plainly).map(spelled)
        if made.notna().mean() > 0.99 and made.nunique() == len(test):
            return train, with_column_first(test.assign(**{column: made}), column), sample
    if template := template_of(ids, test):
        print(f"NOTE: {name} is {''.join(part for part, _ in template)} of test.csv", flush=True)
        there = {part for part, named in template if named} <= {*train.columns}
        own: Any = made_by(template, train) if there else range(len(train))
        return with_ids_first(train, name, own), with_ids_first(test, name, made_by(template, test)), sample
    return train, test, sample


def with_column_first(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table[[column, *(each for each in table.columns if each != column)]].astype({column: str})


def id_text(column: pd.Series) -> pd.Series:
    return column.astype(str).fillna("nan").str.replace(r"\.0$", "", regex=True)


def made_by(template: list[tuple[str, bool]], table: pd.DataFrame) -> pd.Series:
    """The id of each row: columns and what stands between them."""
    made = pd.Series("", index=table.index)
    for part, named in template:
        made = made + (id_text(table[part]) if named else part)
    return made


def template_of(ids: pd.Series, test: pd.DataFrame) -> list[tuple[str, bool]]:
    """(column, True) or (text, False) by which the sample's ids are made of nearly all test rows."""
    names = [name for name in test.columns[:MOST_KEY_COLUMNS] if not is_fraction(test[name])]
    shown = {name: id_text(test[name].head(MOST_TRIED)).tolist() for name in names}
    together = [range(min(SEEN, len(test)))] if len(ids) == len(test) else []
    failed: list[Any] = []
    for rows in (*together, *([row] for row in range(min(len(test), MOST_TRIED)))):
        texts = ids.iloc[: len(rows)].tolist()
        known = {name: [shown[name][row] for row in rows] for name in names}
        template = parsed(texts, {name: each for name, each in known.items() if each[0] in texts[0]})
        if len(failed) == MOST_FAILED:
            break
        if template in failed or not any(named for _, named in template):
            continue
        made = made_by(template, test)
        if made.isin({*ids}).mean() > 0.99 and made.nunique() > 0.99 * ids.nunique():
            return template
        failed.append(template)
    return []


def is_fraction(column: pd.Series) -> bool:
    return pd.api.types.is_float_dtype(column) and bool((column.dropna() % 1 != 0).any())


def parsed(texts: list[str], values: Mapping[str, list[str]], used: tuple[str, ...] = ()) -> list:
    """These texts as columns' values and what stands between, the same of all; empty where they are not."""
    if not any(texts):
        return []
    tried: list[list[str]] = []
    for name, column in values.items():
        pairs = list(zip(texts, column, strict=True))
        if name in used or not all(value and text.startswith(value) for text, value in pairs):
            continue
        if column in tried:  # another column of the same values leads no further
            continue
        tried.append(column)
        rest = [text[len(value) :] for text, value in pairs]
        found = parsed(rest, values, (*used, name))
        if found or not any(rest):
            return [(name, True), *found]
    between = re.match(r"[^0-9A-Za-z]{1,4}|[A-Za-z]{1,20}", texts[0])
    if between and all(text.startswith(between[0]) for text in texts):
        rest = [text[between.end() :] for text in texts]
        found = parsed(rest, values, used)
        if found or not any(rest):
            return [(between[0], False), *found]
    return []


# Rows and columns of another form


def with_cells(train, test, sample, further) -> tuple[Any, Any, Any]:
    """The tables where the sample has a row for each id and target, class or period, or a column for each."""
    ids, name = sample.iloc[:, 0].astype(str), str(sample.columns[0])
    rows = train.iloc[:, :1] if test is None else test
    found = pairs_among(ids, further, rows)
    for form in (by_name, by_step):
        if (made := form(train, test, sample, found, further)) is not None:
            return made
    if test is not None and len(test) == len(sample):
        running = ids.tolist() in ([str(n + start) for n in range(len(ids))] for start in (0, 1))
        told = "the sample's ids are in no column of test.csv: taken in its order"
        print(f"{'NOTE' if running else 'WARNING'}: {told}", flush=True)
        return train, with_ids_first(test, name, ids), sample
    moments = [name for name in train.select_dtypes("number") if found and name in rows]
    moments = moments if len(sample) >= len(rows) else []
    numbers = pd.to_numeric(found[2], errors="coerce") if found else pd.Series()
    if moments := [name for name in moments if numbers.isin(train[name]).mean() > 0.5]:
        raise ValueError(
            f"ids such as {ids.iloc[0]} ask for other {moments[0]} than test.csv has: put a row each"
        )
    return train, test, sample


def pairs_among(ids: pd.Series, further, rows: pd.DataFrame) -> tuple[str, pd.Series, pd.Series] | None:
    """What `id_pairs` says of the ids, or of what another table says of each."""
    if (found := id_pairs(pd.DataFrame({"id": ids}), rows)) is not None:
        return found
    for table in further().values():
        keys = [each for each in table.columns if ids.isin({*id_text(table[each])}).mean() > 0.99]
        if keys and table[keys[0]].is_unique and table.shape[1] > 1:
            told = table.set_index(id_text(table[keys[0]])).drop(columns=keys[0]).reindex(ids)
            told = told.dropna(axis=1, how="all").astype(str).reset_index(drop=True)
            if (found := id_pairs(told, rows)) is not None:
                return found
    return None


def id_pairs(asked: pd.DataFrame, rows: pd.DataFrame) -> tuple[str, pd.Series, pd.Series] | None:
    """(column of the rows, of each id its value there, what else the id says); None where ids name none."""
    for column in [name for name in rows.columns[:MOST_KEY_COLUMNS] if rows[name].is_unique]:
        names = {*id_text(rows[column])}
        for one in asked.columns:
            text = id_text(asked[one])
            if asked.shape[1] > 1 and text.isin(names).mean() > 0.99:
                return column, text, asked[next(each for each in asked.columns[::-1] if each != one)]
            for mark in dict.fromkeys(SEPARATORS.findall(text.iloc[0])):
                for count in range(1, min(text.iloc[0].count(mark), 6) + 1):
                    for split, own, rest in (
                        (text.str.rsplit, 0, slice(1, None)),
                        (text.str.split, -1, slice(-1)),
                    ):
                        parts = split(mark, n=count)
                        if parts.str[own].isin(names).mean() > 0.99:
                            return column, parts.str[own], parts.str[rest].str.join(mark)
    return None


def by_name(train, test, sample, found, _):
    """A row for each id and column to predict, or class of one; or one that a row was taken from."""
    if found is None or test is None:
        return None
    column, keys, rest = found
    names, value = list(dict.fromkeys(rest)), str(sample.columns[1])
    left = [each for each in train.columns[1:] if each not in test.columns]
    classes = [each for each in left if {*names} <= {*id_text(train[each].dropna())}]
    if sample.shape[1] != 2 or not ({*names} <= {*train.columns} or len(classes) == 1):
        return None
    fill(sample, {value: (keys, rest)})
    if {*names} <= {*test.columns} and train[names].isin([0, 1]).all(axis=None):
        print(f"NOTE: which of {', '.join(names[:5])} ... a row is without is learned", flush=True)
        train = pd.concat([train[train[name] == 1].assign(**{name: 0, value: name}) for name in names])
        row = train.index.astype(str) + "_" + train[value]  # of one row all stay together
        train = train.assign(**{train.columns[0]: row.to_numpy()}).reset_index(drop=True)
        plan.SPLIT = "group" if plan.SPLIT == "random" else plan.SPLIT
    asked = pd.DataFrame({column: keys.unique(), **dict.fromkeys(names, 0.5)})
    return train, with_column_first(test, column), asked


def by_step(train, test, sample, found, further):
    """A row for each id and place of a list or period of a wide series, which train.csv has as columns."""
    names, rows = [str(name) for name in sample.columns[1:]], train if test is None else test
    key, keys, rest = found or (str(train.columns[0]), sample.iloc[:, 0].astype(str), None)
    if test is None:
        value = "value" if rest is None else names[0]
        lists = {value: periods_of_columns(train.drop(columns=names, errors="ignore"))}
    elif rest is not None and rest.str.fullmatch(r"\d{1,6}").all():
        form = r"[._ ]\d{1,6}"
        lists = {name: [one for one in train if re.fullmatch(re.escape(name) + form, one)] for name in names}
    else:
        return None
    columns = next(iter(lists.values()))
    if not columns or {*map(len, lists.values())} != {len(columns)}:
        return None
    steps, step = (
        (pd.Series(range(len(columns))), "place") if test is not None else days_of_columns(columns, further())
    )
    if test is not None:
        asked = dict.fromkeys(names, keys if rest is None else rest.astype(int))
    elif rest is not None:
        days = rest.map(dict(zip(columns, steps, strict=True))).fillna(rest)
        asked = {names[0]: pd.to_datetime(days, errors="coerce")}
    elif keys.isin({*train[key].astype(str)}).mean() > 0.99 and len(names) > 1:
        ahead = [steps.iloc[-1] + n * (steps.iloc[-1] - steps.iloc[-2]) for n in range(1, len(names) + 1)]
        days = {name: pd.Timestamp(name) for name in names if A_DAY.fullmatch(name)}
        days = dict(zip(names, ahead, strict=True)) | days
        asked = {name: pd.Series(day, keys.index) for name, day in days.items()}
    else:
        return None

    def row_ids(ids: pd.Series, at: pd.Series) -> pd.Series:
        texts = at.astype(str) if at.dtype.kind == "i" else at.dt.strftime("%Y-%m-%d %H:%M")
        return ids.astype(str) + "|" + texts

    fill(sample, {name: (row_ids(keys, at), name if name in lists else value) for name, at in asked.items()})
    used = {each for some in lists.values() for each in some}
    fixed = [each for each in rows.columns if each in train.columns and each not in used]
    kept = range(len(steps))[-max(LEAST_PERIODS, MOST_LONG // len(train)) :]
    parts = [
        train[fixed].assign(**{step: steps[n], **{name: train[each[n]] for name, each in lists.items()}})
        for n in kept
    ]
    long = pd.concat(parts).sort_index(kind="stable").dropna(subset=[*lists])
    whole = pd.concat([pd.DataFrame({key: keys, step: at}) for at in asked.values()]).drop_duplicates()
    whole = whole.merge(rows[fixed].astype({key: str}), on=key, how="left")
    print(f"NOTE: {len(columns)} columns are read as rows of a {key} and a {step}", flush=True)
    made = []
    letters = [
        name for name in fixed if step == "place" and name != key
        and all(isinstance(each, str) and len(each) >= len(steps) for t in (train, rows) for each in t[name])
    ]  # fmt: skip
    for table in (long.reset_index(drop=True), whole):
        ids = row_ids(table[key], table[step])
        for name in letters:
            pairs = [*zip("___" + table.pop(name).astype(str) + "___", table[step], strict=True)]
            for off in range(-3, 4):
                table[f"{name} {off:+d}"] = [cell[at + off + 3 :][:1] or "_" for cell, at in pairs]
        made.append(with_ids_first(table, "row", ids).astype({step: str} if step != "place" else {}))
    return made[0], made[1], made[1][["row"]].assign(**dict.fromkeys(lists, 0.0))


def periods_of_columns(train: pd.DataFrame) -> list[str]:
    """The columns of wide series: a day each, or numbered one after another, in their order."""
    days = [name for name in train.columns[1:] if A_DAY.fullmatch(str(name))]
    named: dict[str, list[str]] = {}
    for name in train.columns[1:]:
        if (found := NUMBERED.fullmatch(str(name))) and pd.api.types.is_numeric_dtype(train[name]):
            named.setdefault(found[1] + found[3].replace(found[2], ""), []).append(name)
    longest = max([days, *named.values()], key=len)
    return longest if len(longest) >= LEAST_PERIODS else []


def days_of_columns(periods: list[str], further: Mapping[str, pd.DataFrame]) -> tuple[pd.Series, str]:
    """(the day of each, what to call it): what they are called, else what another table says of them."""
    if A_DAY.fullmatch(str(periods[0])):
        return pd.to_datetime(pd.Series(periods)), "date"
    for table in further.values():
        for name in table.columns:
            if not {*periods} <= {*table[name].astype(str)}:
                continue
            for other in table.columns:
                if table[other].astype(str).str.fullmatch(A_DAY).all():
                    known = dict(zip(table[name].astype(str), table[other], strict=True))
                    return pd.to_datetime(pd.Series(periods).map(known)), str(other)
    numbers = pd.Series([int(found[2]) for name in periods if (found := NUMBERED.fullmatch(str(name)))])
    return pd.Timestamp("2000-01-01") + pd.to_timedelta(numbers, unit="D"), "date"


def fill(sample: pd.DataFrame, cells: Mapping[str, tuple[Any, Any]]) -> None:
    """Column of the sample -> (of each of its rows the id, the target) that answers it."""
    found = {str(name): (np.asarray(ids, object), target) for name, (ids, target) in cells.items()}
    plan.cells = sample, found


def in_cells(table: pd.DataFrame) -> pd.DataFrame:
    """The sample with the answers of this table, of one row an answer; else what it shows."""
    sample, cells = plan.cells
    known = table.set_index(table.iloc[:, 0].astype(str)).iloc[:, 1:]
    known = known[~known.index.duplicated()].rename(columns=str)
    written = sample.rename(columns=str)
    for column, (ids, names) in cells.items():
        names = np.broadcast_to(np.asarray(names, object), len(ids))
        row, place = known.index.get_indexer(ids), known.columns.get_indexer(names)
        there = (row >= 0) & (place >= 0)
        if not there.all():
            told = f"{(~there).sum()} of {len(there)} rows of {column} are as in the sample"
            print(f"WARNING: {told}", flush=True)
        found = np.where(there, known.to_numpy(object)[row, place], written[column].to_numpy(object))
        written[column] = pd.Series(found, index=written.index).infer_objects()
    return written
