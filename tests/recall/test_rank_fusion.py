"""Are opinions joined as their formulas say?"""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from memory_service.recall.rank_fusion import SHARED, fuse, outstanding, ranks_of, shared_probability


def _scores(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_the_probability_of_sharing_techniques_by_hand() -> None:
    signals = {"embedding": _scores(0.5, 0.0), "words": _scores(3.0, 0.0), "structure": _scores(0.5, 0.0)}
    found = shared_probability(signals, _scores(1.0, 0.0))
    logit = -5.71 + 2.88 * 0.5 + 0.18 * log(4.0) + 0.48 * 0.5 + 4.72
    assert found == pytest.approx([1 / (1 + exp(-logit)), 1 / (1 + exp(5.71))], rel=1e-6)


def test_without_a_text_the_usual_closeness_of_neighbours_counts() -> None:
    usual = shared_probability({"structure": _scores(0.0)}, None)
    near = shared_probability({"structure": _scores(0.0), "embedding": _scores(0.35)}, None)
    assert usual == pytest.approx(near, rel=1e-6)
    assert usual == pytest.approx([1 / (1 + exp(-SHARED["bias"] - 0.35 * SHARED["embedding"]))], rel=1e-6)


def test_equal_scores_share_their_ranks_and_so_do_all_far_behind() -> None:
    assert ranks_of(_scores(3, 1, 1, 0)).tolist() == [1, 2.5, 2.5, 4]
    assert ranks_of(_scores(5, 4, 3, 2, 1, 0), depth=2).tolist() == [1, 2, 4.5, 4.5, 4.5, 4.5]


def test_first_in_everything_is_one_and_second_is_less() -> None:
    signals = {name: _scores(3, 2, 1) for name in ("embedding", "words", "structure")}
    first, second, third = fuse(signals, _scores(1.0, 0.5, 0.0))
    assert first == pytest.approx(1.0)
    assert 1.0 > second > third


def test_words_stand_out_by_their_ratio_unless_another_is_much_nearer_in_meaning() -> None:
    words = _scores(1.0, 3.0, 2.0)
    assert outstanding(None, words, ratio=1.5) == 1
    assert outstanding(None, words, ratio=1.51) is None
    assert outstanding(_scores(0.50, 0.45, 0.0), words, ratio=1.5) == 1
    assert outstanding(_scores(0.52, 0.45, 0.0), words, ratio=1.5) is None
    assert outstanding(None, _scores(0.0, 0.0), ratio=1.5) is None
