"""What is submitted: priors, thresholds and tables of classes, labels and values.

A script names by its metric which of these functions it uses (`submission_of = class_table` ...).
"""

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from memory_service.train.budget import plan
from memory_service.train.metrics import score_log_loss, score_rmse
from memory_service.train.reading import WARNED, Data
from memory_service.train.writing import columns_of

MOST_GRADES = 100


# What is predicted where nothing is known


def shares_of_classes(targets: np.ndarray, width: int) -> np.ndarray:
    """The share of each class or label."""
    return targets.mean(axis=0) if targets.ndim == 2 else np.bincount(targets, minlength=width) / len(targets)


def value_means(targets: np.ndarray, width: int) -> np.ndarray:
    return np.nanmean(targets.reshape(-1, width), axis=0)


def value_medians(targets: np.ndarray, width: int) -> np.ndarray:
    return np.nanmedian(targets.reshape(-1, width), axis=0)


def value_quantiles(targets: np.ndarray, width: int) -> np.ndarray:
    columns = zip(targets.reshape(-1, width).T, plan.LEVELS, strict=True)
    return np.array([np.quantile(column, level) for column, level in columns])


# Classes by thresholds


def cut_classes(predictions: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Class numbers, of several labels 0 and 1, by thresholds; of three classes the likeliest, where rare
    ones may count for more."""
    if not len(thresholds):  # there is one class
        return predictions.argmax(axis=1)
    if len(thresholds) == predictions.shape[1]:
        return (predictions > thresholds).astype(int)
    if predictions.shape[1] > 2:  # the power of each class's share that its probability is divided by
        shares = predictions.mean(axis=0).clip(1e-6)
        return (predictions / shares ** thresholds[0]).argmax(axis=1)
    return (predictions[:, 1] > thresholds[0]).astype(int)


def cut_defaults(data: Data) -> list[float]:
    """One for each label, one for two classes; of more the power 0, by which all count alike."""
    if data.targets.ndim == 2:
        return [0.5] * len(data.outputs)
    return [] if len(data.outputs) == 1 else [0.5 if len(data.outputs) == 2 else 0.0]


def cut_thresholds(data: Data, truth: np.ndarray, predictions: np.ndarray) -> list[float]:
    """Where the score of these rows is best. They are held out, so the score is only a little too good."""
    if truth.ndim == 2:
        if plan.SCORE.endswith(("_micro", "_samples")):
            return [best_threshold(truth.ravel(), predictions.ravel())] * truth.shape[1]
        return [best_threshold(*label) for label in zip(truth.T, predictions.T, strict=True)]
    if predictions.shape[1] == 1:
        return []
    if predictions.shape[1] > 2:
        powers = (0.0, 0.25, 0.5, 0.75, 1.0)
        return [max(powers, key=lambda power: plan.score_of(truth, cut_classes(predictions, [power])))]
    return [best_threshold(truth, predictions[:, 1], both=plan.SCORE in ("f1_macro", "f_beta_macro"))]


def best_threshold(truth: np.ndarray, probabilities: np.ndarray, both: bool = False) -> float:
    """Every place between two probabilities at once: so many are chosen above it, and so many rightly.

    both   the class below the threshold counts as much
    """
    order = np.argsort(-probabilities, kind="stable")
    probabilities, right = probabilities[order].astype(float), truth[order].cumsum()
    chosen, total, rows = np.arange(1.0, len(truth) + 1), float(right[-1]), len(truth)
    if total in (0, rows):
        return 0.5
    weight = (plan.K / 100) ** 2 if plan.SCORE.startswith("f_beta") else 1.0
    if plan.SCORE == "balanced_accuracy":
        scores = right / total + (rows - chosen - total + right) / (rows - total)
    elif plan.SCORE == "mcc":
        spread = np.sqrt(chosen * (rows - chosen) * total * (rows - total)).clip(1e-9)
        scores = (right * rows - chosen * total) / spread
    else:
        scores = (1 + weight) * right / (chosen + weight * total)
    if both:
        others = (rows - chosen) + weight * (rows - total)
        scores += (1 + weight) * (rows - chosen - total + right) / others.clip(1)
    distinct = probabilities[:-1] > probabilities[1:]
    if not distinct.any():
        return 0.5
    best = np.where(distinct, scores[:-1], -1).argmax()
    return float((probabilities[best] + probabilities[best + 1]) / 2)


def graded_classes(predictions: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """The expected class number, cut at the thresholds; of several labels 0 and 1."""
    if len(thresholds) == predictions.shape[1]:
        return (predictions > thresholds).astype(int)
    return np.digitize(predictions @ np.arange(predictions.shape[1]), thresholds)


def graded_values(predictions: np.ndarray, thresholds: Sequence[float]) -> np.ndarray:
    """Values cut into `plan.GRADES`, the values that the training rows have (`grade_defaults`)."""
    return np.asarray(plan.GRADES)[np.digitize(predictions, thresholds)]


def grade_defaults(data: Data) -> list[float]:
    """Halfway between two grades or class numbers; of several labels one half. Grades are the values of the
    training rows; whole numbers where they are many."""
    if plan.ANSWER == "labels":
        several, width = data.targets.ndim == 2, len(data.outputs)
        return [0.5] * width if several else (np.arange(width - 1) + 0.5).tolist()
    found = np.unique(data.targets)  # they need not be 0, 1, 2
    if len(found) > MOST_GRADES or len(found) < 2:
        lowest, highest = int(found.min()), int(found.max())
        found = np.arange(lowest, max(highest, lowest + 1) + 1)
    plan.GRADES = found.astype(int) if (found == found.round()).all() else found
    return ((plan.GRADES[1:] + plan.GRADES[:-1]) / 2).tolist()


def grade_thresholds(data: Data, truth: np.ndarray, predictions: np.ndarray) -> list[float]:
    """From halfway between grades, and from where each grade gets its share of rows, one threshold after
    another is moved to where the score of these rows is best. They are held out, so the score is only a
    little too good."""
    usual = grade_defaults(data)
    if data.targets.ndim == 2 and len(usual) == predictions.shape[1] > 1:
        return usual
    values = predictions.ravel() if plan.ANSWER == "values" else predictions @ np.arange(predictions.shape[1])
    grades = np.asarray(plan.GRADES) if plan.ANSWER == "values" else np.arange(predictions.shape[1])
    shares = [float((np.asarray(truth) < grade).mean()) for grade in grades[1:]]
    gap = float(np.median(np.diff(grades)))

    def score(thresholds: Sequence[float]) -> float:
        return float(plan.score_of(truth, plan.classes_of(predictions, sorted(thresholds))))

    found = [(score(start), list(start)) for start in (usual, np.quantile(values, shares).tolist())]
    for n, (best, thresholds) in enumerate(found):
        for step in (0.2 * gap, 0.1 * gap, 0.05 * gap):
            for place in range(len(thresholds)):
                for sign in (-1, 1):
                    moved = [*thresholds[:place], thresholds[place] + sign * step, *thresholds[place + 1 :]]
                    if (tried := score(moved)) > best:
                        best, thresholds = tried, moved
        found[n] = (best, sorted(thresholds))
    return max(found)[1]


def thresholds_of(data: Data) -> list[float]:
    """The mean of those of the folds that are averaged."""
    usual = plan.default_thresholds(data)  # it sees what grades there are, also where folds are resumed
    return np.mean(data.thresholds, axis=0) if data.thresholds else usual


# Tables

CHANCES = re.compile(r"prob|score|chance|risk|likelihood|propensity|confidence", re.IGNORECASE)


def wants_probabilities(data: Data) -> bool:
    """Whether the sample submission shows fractions, or, of a metric that does not judge classes, numbers
    that are not whole by their type or in a column called otherwise than the target, as chances are: then it
    is not classes that are submitted."""
    shown = pd.DataFrame() if data.sample is None else data.sample.iloc[:, 1:].select_dtypes("float")
    if plan.FORM in ("classes", "cut", "grades"):
        return bool((shown.fillna(0) % 1 != 0).any(axis=None))
    asked = [] if data.sample is None else [str(name) for name in data.sample.columns[1:]]
    if any(CHANCES.search(name) for name in asked if name not in data.target_columns):
        return True
    return bool(shown.notna().any(axis=None))


def class_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """Probabilities where the metric or the sample wants them, a column for each class or label or that of
    the second of two classes; else classes, or labels as 0 and 1."""
    columns = data.target_columns if data.sample is None else list(data.sample.columns[1:])
    chances, judges_classes = plan.FORM == "chances", plan.FORM in ("classes", "cut", "grades")
    if chances and data.sample is None and len(data.outputs) > 2:
        columns = [str(name) for name in data.outputs]
    tuned = plan.FORM in ("cut", "grades")
    classes = plan.classes_of(predictions, thresholds_of(data)) if tuned else predictions.argmax(axis=1)
    if data.targets.ndim == 2 and len(columns) == 1 < len(data.outputs):  # in a cell, at least one
        chosen = classes > 0 if tuned else predictions > 0.5
        chosen |= predictions == predictions.max(axis=1, keepdims=True)
        names = np.array(data.outputs, dtype=object)
        table = pd.DataFrame({columns[0]: [plan.MARK.join(names[row]) for row in chosen]})
    elif data.targets.ndim == 2 or len(columns) > 1:
        if judges_classes and len(data.target_columns) > 1 and not wants_probabilities(data):
            one_hot = np.eye(len(data.outputs), dtype=int)
            several = classes if tuned else (predictions > 0.5).astype(int)
            predictions = several if data.targets.ndim == 2 else one_hot[classes]
        table = in_columns(data, predictions, columns)
    elif len(data.outputs) == 2 and (chances or wants_probabilities(data)):
        table = pd.DataFrame({columns[0]: predictions[:, 1]})
    else:
        if not chances and not judges_classes and "form" not in WARNED:
            WARNED.add("form")
            print("NOTE: classes are submitted: no sample or known metric wants probabilities", flush=True)
        table = pd.DataFrame({columns[0]: [data.outputs[i] for i in classes]})
    table.insert(0, data.id_column, data.test_ids)
    return table


def in_columns(data: Data, predictions: np.ndarray, columns: list[str]) -> pd.DataFrame:
    """A column for each class, named as in the sample; 0 of a class without a training row."""
    table = pd.DataFrame(predictions, columns=[str(name) for name in data.outputs])
    return table.rename(columns=columns_of(list(table), columns)).reindex(columns=columns, fill_value=0.0)


def ranked_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The K likeliest classes in one column; probabilities where the sample has a column for each class."""
    columns = data.target_columns if data.sample is None else list(data.sample.columns[1:])
    if len(columns) > 1:
        table = in_columns(data, predictions, columns)
    else:
        likeliest = (-predictions).argsort(axis=1)[:, : plan.K]
        names = [" ".join(str(data.outputs[i]) for i in row) for row in likeliest]
        table = pd.DataFrame({columns[0]: names})
    table.insert(0, data.id_column, data.test_ids)
    return table


def value_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The id column and a column for each target, named as in the sample: grades, where these are judged."""
    if plan.LOGS == "log1p":
        predictions = np.expm1(predictions.clip(min=0))
    elif plan.LOGS == "log":
        predictions = np.exp(predictions)
    elif plan.FORM == "grades":
        predictions = plan.classes_of(predictions, thresholds_of(data))
    elif plan.SCORE not in ("spearman", "pearson") and plan.SPLIT != "time" and (data.targets >= 0).all():
        predictions = predictions.clip(min=0)  # amounts and counts: some metrics refuse what is below
    columns = data.target_columns if data.sample is None else list(data.sample.columns[1:])
    table = pd.DataFrame(predictions, columns=columns)
    table.insert(0, data.id_column, data.test_ids)
    return table


def learn_grades_as_values() -> None:
    """Grades that are numbers are predicted as values and cut: how far apart they are counts."""
    plan.ANSWER, plan.prior_of, plan.submission_of = "values", value_means, value_table
    plan.classes_of, plan.default_thresholds = graded_values, grade_defaults
    plan.best_thresholds = grade_thresholds


def use_usual(answer: str) -> None:
    """Predict values, or classes or labels, where the data show that the plan was made for something else: by
    the usual score of these."""
    plan.ANSWER, plan.FORM, plan.LOGS, plan.ABSOLUTE = answer, "", "", False
    plan.METRIC, plan.SCORE, plan.score_of = "log loss", "log_loss", score_log_loss
    plan.prior_of, plan.submission_of, plan.HIGHER_IS_BETTER = shares_of_classes, class_table, False
    if answer == "values":
        plan.METRIC, plan.SCORE, plan.score_of = "RMSE", "rmse", score_rmse
        plan.prior_of, plan.submission_of = value_means, value_table
    plan.classes_of = plan.default_thresholds = plan.best_thresholds = None


NAMES: list[str] = []  # of the labels, by number
MARKED = re.compile("([BIESLU])[-_](.+)")


def name_labels(names: list) -> None:
    """Take them; 0 is outside of entities where no label is O."""
    NAMES[:] = ["O" if str(name) == "0" and "O" not in names else str(name) for name in names]
    if "O" not in names:
        outside = "0 counts as O" if "O" in NAMES else "every word counts as of an entity"
        print(f"WARNING: no label is O ({', '.join(map(str, names[:5]))}): {outside}", flush=True)


def entities_of(numbers: np.ndarray) -> set[tuple]:
    """(first word, word behind it, kind) of each: B-X I-X, also with the marks E, S, L and U, or labels
    without marks that are alike in a row. O is none."""
    found: set[tuple] = set()
    start, kind, last = 0, "O", ""
    for place, name in enumerate([*(NAMES[number] for number in numbers), "O"]):
        marked = MARKED.fullmatch(name)
        mark, now = marked.groups() if marked else ("", name)
        if now != kind or mark in ("B", "S", "U") or last in ("E", "S", "L", "U"):
            if kind != "O":
                found.add((start, place, kind))
            start, kind = place, now
        last = mark
    return found


def label_table(data: Data, predictions: np.ndarray) -> pd.DataFrame:
    """The likeliest label of each word, those of a text between spaces, or a list as in the sample."""
    ids: list[str] = []
    texts: list[list[str]] = []
    for word, best in zip(data.test_ids, predictions.argmax(axis=1), strict=True):
        name, _, place = word.rpartition(":")
        if place == "0":
            ids.append(name)
            texts.append([])
        texts[-1].append(str(data.outputs[best]))
    column, shown = data.target_columns[0], ""
    if data.sample is not None:
        column, shown = data.sample.columns[1], str(data.sample.iloc[0, 1])
    bare = not {"'", '"'} & set(shown) and all(str(name).isdigit() for name in data.outputs)
    lists = [f"[{', '.join(names)}]" if bare else str(names) for names in texts]
    cells = lists if shown.startswith("[") else [" ".join(names) for names in texts]
    return pd.DataFrame({data.id_column: ids, column: cells})


def score_f1_entities(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Of whole entities, of all kinds together, as seqeval has it, but that a text's end does not end one."""
    true, found = (entities_of(numbers) for numbers in (targets, predictions.argmax(axis=1)))
    return 2 * len(true & found) / max(len(true) + len(found), 1)
