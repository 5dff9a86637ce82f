"""Recommendation: which items a user takes next. Candidates of several sources, and a ranker that learns from
what users took in the latest days; the source that is best on later days stands in where there is no time."""

import re
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, report, state, usable_cores
from memory_service.train.problem import installed
from memory_service.train.reading import Data, as_days, as_numbers, is_dates
from memory_service.train.submission_form import id_text
from memory_service.train.writing import load_result, save_result, write_submission

ITEMS = 20_000  # that are candidates, the most frequent
FACTORS, NEIGHBORS = 64, 100
EACH = 40  # candidates of a source
HALVES = 3.0  # half lives of an interaction in all that is known
CELLS = 2e7  # users times items that are scored at once
RANKED_USERS = 20_000  # from which the ranker learns
WINDOW_SHARE, MOST_DAYS = 0.1, 7.0  # of the time that is known: what is predicted
ROUNDS = 300
FEW_AGAIN = 0.01  # of the later rows: items that are hardly ever taken again are no candidates
SOURCES = ("taken before", "popular", "taken together", "factors")


def read_interactions(train: pd.DataFrame, test: Any, sample: Any) -> Data:
    """The data of a table with a row for each item that a user took: `inputs` has numbers of both and the
    time; the sample has a row a user and items between spaces."""
    if sample is None or len(sample.columns) != 2:
        raise ValueError("sample_submission.csv must have a row a user, and items between spaces")
    user, told = str(sample.columns[0]), sample.iloc[:, 1].dropna().astype(str).str.split()
    shown = {word for words in told.head(1000) for word in words}
    if user not in train.columns:
        raise ValueError(f"train.csv has no column {user}, of which the sample asks: change read_data")
    others = [name for name in train.columns if name != user]
    keys = {name: texts_as(train[name], shown) for name in others[:20]}
    hits = {name: len(shown & {*keys[name].unique()}) for name in keys}
    item = max(hits, key=lambda name: (hits[name], name == sample.columns[1], bool(ITEM_NAMES.search(name))))
    if shown and not hits[item]:
        print(f"WARNING: no column of train.csv has an item of the sample, as {min(shown)}", flush=True)
    known = train[user].notna() & train[item].notna()
    if not known.all():
        print(f"WARNING: {(~known).sum()} rows without {user} or {item} are left out", flush=True)
        train = train[known]
    asked = sample.iloc[:, 0].astype(str)
    users, names = pd.factorize(texts_as(train[user], {*asked}))
    items, outputs = pd.factorize(keys[item][train.index])
    rest = [name for name in others if name != item]
    moments = [name for name in rest if re.search(r"time|date|day|week", str(name), re.IGNORECASE)]
    dated = [name for name in rest if is_dates(train[name])]
    dated += [name for name in moments if as_numbers(train[name]).notna().mean() > 0.9]
    if dated:
        times = (as_days if is_dates(train[dated[0]]) else as_numbers)(train[dated[0]]).to_numpy()
    else:
        times = np.arange(len(train), dtype=float)
        print("NOTE: no column tells when: rows are taken to be in order", flush=True)
    print(f"NOTE: {user} takes {item}, by {[*dated, 'the order of rows'][0]}", flush=True)
    table = pd.DataFrame({"user": users, "item": items, "time": np.nan_to_num(times, nan=np.nanmin(times))})
    plan.K = plan.K or max([len(words) for words in told.head(1000)], default=0) or 10
    places = pd.Index(names).get_indexer(asked)  # -1: nothing is known of this user
    target = [str(sample.columns[1])]
    return Data(user, list(names), target, table, items, list(outputs), asked.tolist(), places, sample)


def texts_as(column: pd.Series, shown: set[str]) -> pd.Series:
    """What is there as texts: 7 and not 7.0, where none of these is shown."""
    texts = column.dropna().astype(str)
    return texts if shown & {*texts.unique()} else id_text(texts)


ITEM_NAMES = re.compile("(?i)item|product|article|movie|track|song|book|business|hotel|shop|place|video")


class History:
    """What is known at a moment, of so many users and items: what each source says of a user's next items.

    kept   items that are candidates
    """

    def __init__(self, table: pd.DataFrame, users: int, items: int) -> None:
        from scipy.sparse import csr_matrix, diags
        from sklearn.utils.extmath import randomized_svd

        self.table, times = table, table["time"].to_numpy()
        age = (times.max() - times) / max(float(np.ptp(times)), 1e-9)
        user, item = table["user"].to_numpy(), table["item"].to_numpy()
        recent, counts = 0.5 ** (4 * HALVES * age), np.bincount(item, minlength=items)
        trend = np.bincount(item, recent, items)
        self.kept = np.argsort(-trend, kind="stable")[: min(ITEMS, np.count_nonzero(counts))]
        place = np.full(items, -1)
        place[self.kept] = np.arange(len(self.kept))
        good = place[item] >= 0
        where, shape = (user[good], place[item[good]]), (users, len(self.kept))
        self.seen = csr_matrix((0.5 ** (HALVES * age[good]), where), shape)
        self.last = csr_matrix((recent[good], where), shape)
        self.trend, self.counts = trend[self.kept], counts[self.kept]
        self.activity = np.bincount(user, minlength=users)
        taken = (self.seen > 0).astype(float)
        scale = diags(np.maximum(self.counts, 1) ** -0.25)
        together = (scale @ taken.T @ taken @ scale).tocsr()
        together.setdiag(0)
        for start, end in pairwise(together.indptr):  # the nearest of each
            part = together.data[start:end]
            if len(part) > NEIGHBORS:
                part[part < np.partition(part, -NEIGHBORS)[-NEIGHBORS]] = 0
        self.together, width = together, max(min(FACTORS, users - 1, len(self.kept) - 1), 1)
        self.factors = randomized_svd(taken @ scale, width, n_iter=3, random_state=plan.SEED)[2]

    def parts(self, rows: np.ndarray) -> list[np.ndarray]:
        """Rows of which a matrix of all items has room."""
        return np.array_split(rows, int(len(rows) * len(self.kept) / CELLS) + 1)

    def candidates(self, users: np.ndarray, fresh: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(place of the user, place of the item, features) of the best items of each source.

        fresh   what a user took is no candidate
        """
        known = self.seen[users].toarray() > 0
        scores = [self.last[users].toarray(), np.tile(self.trend, (len(users), 1))]
        scores += [(self.last[users] @ self.together).toarray()]
        scores += [(self.seen[users] @ self.factors.T) @ self.factors]
        scores = [each / (each.max(1, keepdims=True) + 1e-9) for each in scores]
        chosen = np.zeros(known.shape, bool)
        for name, each in zip(SOURCES, scores, strict=True):
            new = np.where(known, -1, each) if fresh or name == "popular" else each
            top = np.argpartition(-new, min(EACH, each.shape[1]) - 1, axis=1)[:, :EACH]
            some = np.zeros(known.shape, bool)
            np.put_along_axis(some, top, np.take_along_axis(new, top, 1) > 0, axis=1)
            chosen |= some
        at, places = np.nonzero(chosen)
        columns = [each[at, places] for each in scores]
        columns += [self.trend[places], self.counts[places], self.trend[places] / self.counts[places]]
        columns += [self.activity[users[at]], known[at, places], chosen.sum(1)[at]]
        return at, places, np.column_stack(columns).astype(np.float32)

    def best(self, at: np.ndarray, places: np.ndarray, scores: np.ndarray, users: int) -> np.ndarray:
        """(users, K) items, the highest scores first, filled up with what is popular."""
        found = np.full((users, min(plan.K, len(self.kept))), -1)
        order = np.lexsort((-scores, at))
        rank = np.arange(len(order)) - np.searchsorted(at[order], at[order])
        order, rank = order[rank < found.shape[1]], rank[rank < found.shape[1]]
        found[at[order], rank] = places[order]
        for user in np.flatnonzero((found < 0).any(axis=1)):  # places are in the order of the trend
            own = found[user][found[user] >= 0]
            more = np.setdiff1d(np.arange(found.shape[1] + len(own)), own)
            found[user, len(own) :] = more[: found.shape[1] - len(own)]
        return np.asarray(self.kept[found])


def items_table(data: Data, found: np.ndarray) -> pd.DataFrame:
    """The submission of (test rows, K) numbers of items."""
    names = np.array(data.outputs, dtype=object)
    lists = [" ".join(names[row]) for row in found]
    return pd.DataFrame({data.id_column: data.test_ids, data.target_columns[0]: lists})


def popular_items(data: Data) -> pd.DataFrame:
    """The submission of what is taken most in the latest tenth of the rows."""
    latest = data.inputs.sort_values("time", kind="stable").tail(max(len(data.inputs) // 10, 100))
    usual = latest["item"].value_counts().index.to_numpy()[: plan.K]
    return items_table(data, np.tile(usual, (len(data.test_ids), 1)))


def latest_rows(table: pd.DataFrame) -> np.ndarray:
    """Which rows validate: a tenth of the time, a week at most, no more than 40 % of the rows; where most are
    of one moment some at random."""
    times = table["time"].to_numpy()
    span, last = float(np.ptp(times)), float(times.max())
    start = last - min(WINDOW_SHARE * span, MOST_DAYS if span > 5 * MOST_DAYS else np.inf)
    for least in (start, float(np.quantile(times, 0.85))):
        if 0 < (times > least).mean() < 0.4:
            return np.asarray(times > least)
    print("NOTE: most rows are of one moment: rows drawn at random judge", flush=True)
    drawn = np.random.default_rng(plan.SEED).permutation(len(times))
    return np.isin(np.arange(len(times)), drawn[: max(1, round(0.15 * len(times)))])


def train_recommender(data: Data, run: Any) -> list[float]:
    """Validate each source and the ranker on the latest window, and submit what is best there."""
    state.predict_seconds = 1e-3
    state.reserve_minutes = min(state.reserve_minutes, 0.04 * state.minutes + 0.05)
    kept = load_result("items")
    if kept is not None and int(kept["test_set"]) == data.test_set:
        write_submission(data, items_table(data, kept["test"]), state.out_dir)
        if state.stop or bool(kept["done"]):
            print(f"Items of an earlier start are kept: {plan.METRIC}={float(kept['score']):.5g}", flush=True)
            return [float(kept["score"])]
    if state.stop:
        return []
    table, users, items = data.inputs, len(data.ids), len(data.outputs)
    later = latest_rows(table)
    past, later = History(table[~later], users, items), table[later]
    pairs = past.table[["user", "item"]].drop_duplicates()
    fresh = len(later.merge(pairs, on=["user", "item"])) < FEW_AGAIN * len(later)
    taken = later.groupby("user")["item"].agg(set)
    taken = taken.sample(min(len(taken), RANKED_USERS), random_state=plan.SEED)
    asked, truth = taken.index.to_numpy(), taken.tolist()
    print(f"{len(asked)} users of the latest rows judge; items are {'not ' * fresh}taken again", flush=True)
    parts = [(rows, *past.candidates(asked[rows], fresh)) for rows in past.parts(np.arange(len(asked)))]
    at = np.concatenate([rows[of] for rows, of, *_ in parts])
    places, features = (np.concatenate([part[n] for part in parts]) for n in (2, 3))
    right = np.array([past.kept[place] in truth[row] for row, place in zip(at, places, strict=True)])
    cut = len(asked) // 2  # the ranker learns from the first half, and the other one judges all

    def judged(name: str, scores: np.ndarray) -> float:
        found = past.best(at, places, np.asarray(scores), len(asked))
        score = float(plan.score_of(truth[cut:], found[cut:]))
        print(f"{name}: {plan.METRIC}={score:.5g}", flush=True)
        report(run, "note", f"{name}: {plan.METRIC}={score:.5g}", metric=score, fit=name)
        return score

    shown = {name: judged(name, features[:, place]) for place, name in enumerate(SOURCES)}
    if installed("lightgbm") and right[at < cut].any():
        shown["ranker"] = judged("ranker", ranker(features, right, at, cut).predict(features))
    best = max(shown, key=lambda name: shown[name])
    model = ranker(features, right, at, len(asked)) if best == "ranker" else None
    whole, done = History(table, users, items), True
    found = np.tile(whole.kept[: plan.K], (len(data.test_ids), 1))
    for rows in whole.parts(np.flatnonzero(data.test_inputs >= 0)):
        if state.seconds_left() <= 0:
            done = False
            print("WARNING: the time is over: the other users have what is popular", flush=True)
            break
        of, items_at, told = whole.candidates(data.test_inputs[rows], fresh)
        scores = told[:, SOURCES.index(best)] if model is None else model.predict(told)
        found[rows] = whole.best(of, items_at, scores, len(rows))
    save_result("items", {"test": found, "score": shown[best], "done": done, "test_set": data.test_set})
    write_submission(data, items_table(data, found), state.out_dir)
    print(f"BLEND: {best} 1.00; {state.elapsed():.0f} of {60 * state.minutes:.0f} s", flush=True)
    return [shown[best]]


def ranker(features: np.ndarray, right: np.ndarray, at: np.ndarray, users: int) -> Any:
    """LightGBM by lambdarank of the candidates of the first users."""
    import lightgbm

    here = np.flatnonzero(at < users)
    here = here[np.argsort(at[here], kind="stable")]
    sizes = np.unique(at[here], return_counts=True)[1]
    settings = {
        "objective": "lambdarank", "lambdarank_truncation_level": plan.K + 5, "learning_rate": 0.03,
        "num_leaves": 15, "min_data_in_leaf": 50, "feature_fraction": 0.7, "num_threads": usable_cores(),
        "verbose": -1, "seed": plan.SEED,
    }  # fmt: skip
    end = time.monotonic() + 0.3 * state.seconds_left()

    def in_time(told: Any) -> None:
        if time.monotonic() > end:
            raise lightgbm.callback.EarlyStopException(told.iteration, [])

    known = lightgbm.Dataset(features[here], right[here].astype(int), group=sizes)
    return lightgbm.train(settings, known, ROUNDS, callbacks=[in_time])


plan.baseline_table = popular_items
