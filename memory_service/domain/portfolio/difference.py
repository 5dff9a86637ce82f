"""How differently two models err on one data set: what makes a second run worth its minutes."""

from __future__ import annotations

TREES = ("lightgbm", "xgboost", "catboost")

SAME_FAMILY, OTHER_FAMILY, TREES_AND_NETWORK = 1.5, 3.5, 4.5


def difference_sd(  # the fitted table goes by modality
    name_a: str,
    family_a: str,
    name_b: str,
    family_b: str,
    modality: str,  # noqa: ARG001
) -> float:
    """Standard deviation of the difference of two models' quality on one data set, in points; replaced by the
    fitted table.

    Two libraries of boosted trees err like one family.
    """
    trees = [name in TREES for name in (name_a, name_b)]
    if family_a == family_b or all(trees):
        return SAME_FAMILY
    return TREES_AND_NETWORK if any(trees) else OTHER_FAMILY
