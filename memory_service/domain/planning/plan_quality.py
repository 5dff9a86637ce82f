"""What each option of a plan is expected to reach, memory's preferences included."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import numpy.typing as npt

from memory_service.domain.planning.cost_table import CostTable
from memory_service.domain.planning.problem import PlanningProblem
from memory_service.domain.quality.conditioning import given_runs
from memory_service.domain.quality.quality_index import (
    Learning,
    from_random_weights,
    quality_index,
    too_large,
)

Array = npt.NDArray[np.float64]


def quality_of(problem: PlanningProblem, table: CostTable, epochs: Array, folds: Array) -> Array:
    """Expected quality [option, epochs, folds]; what similar competitions suggest is part of the
    expectation."""

    c = table.columns

    def column(values: Array) -> Array:
        return values[:, None, None]

    n_train = float(problem.n_train)
    points = _expected_points(problem, table)
    if problem.data_kind.table == "image":
        if problem.question.weights == "none":
            published = np.array([option.model.library != "torch" for option in table.options])
            random = from_random_weights(points, c.params_m, n_train)
            points = np.where(published, random, points)
        else:
            points = points - too_large(c.params_m, n_train)
    learning = Learning(*(column(getattr(c.learning, f.name)) for f in fields(Learning)))
    index = quality_index(column(points), column(c.size_ratio), epochs, folds, learning, n_train)
    preferred = column(_option_points(problem, table)) + _fold_points(problem, folds)
    return np.clip(np.asarray(index + preferred, dtype=np.float64), 0.0, 100.0)


def _expected_points(problem: PlanningProblem, table: CostTable) -> Array:
    """Points of each option's model on these data [option], given the results of runs of the competition."""
    c, kind = table.columns, problem.data_kind
    models = [table.options[row].model for row in c.first]
    points = problem.quality.expected(kind, [model.name for model in models], c.score[c.first]).points
    if len(problem.results) > 1:
        named = [(model.name, model.family) for model in models]
        points = given_runs(points, named, problem.results, problem.quality, kind.table)
    return points[c.place]


def _option_points(problem: PlanningProblem, table: CostTable) -> Array:
    """What memory says of each option's model and input size, in index points [option]; what is pinned is
    not weighed."""
    said, c, question = problem.preferences, table.columns, problem.question
    points = np.zeros(len(c.names))
    if question.model is None:
        points += np.array([said.family_points(names) for names in c.families])[c.family]
        for name, preference in said.models.items():
            points[c.names == name] += preference.points
    for kind, pinned in (("image_size", question.image_size), ("seq_len", question.seq_len)):
        if pinned is None:
            of_kind = c.input_kind == kind
            points[of_kind] += said.size_points(kind, c.input_size[of_kind])
    return points


def _fold_points(problem: PlanningProblem, folds: Array) -> Array:
    points = np.zeros_like(folds)
    if problem.question.folds is None:
        for count, preferred in problem.preferences.folds.items():
            points = np.where(folds == count, preferred, points)
    return points
