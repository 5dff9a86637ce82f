"""Do alike competitions lie near each other on the map?"""

from __future__ import annotations

import numpy as np

from memory_service.recall.structure import pca_projection


def test_alike_ones_lie_near_whatever_their_number():
    draw = np.random.default_rng(3)
    centres = np.eye(3, 16)
    vectors = np.concatenate([centre + 0.05 * draw.standard_normal((20, 16)) for centre in centres])
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    tasks = [None] * 60
    places = pca_projection(vectors, tasks)
    assert places.shape == (60, 2)
    assert np.abs(places).max() == 1.0
    groups = places.reshape(3, 20, 2)
    within = np.linalg.norm(groups - groups.mean(axis=1, keepdims=True), axis=2).max()
    between = min(
        np.linalg.norm(groups[a].mean(axis=0) - groups[b].mean(axis=0)) for a, b in ((0, 1), (0, 2), (1, 2))
    )
    assert between > 2 * within
    assert np.array_equal(places, pca_projection(vectors, tasks))


def test_none_one_and_two_have_places_too():
    for count in range(3):
        vectors = np.zeros((count, 0 if count == 0 else 4), dtype=np.float32)
        assert pca_projection(vectors, ["image-classification"] * count).shape == (count, 2)
