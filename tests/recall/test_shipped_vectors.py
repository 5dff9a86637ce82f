"""The vectors that ship are those that the packaged encoder makes."""

from __future__ import annotations

import numpy as np

from checks.vectors import shipped_texts
from memory_service.recall.encoder import (
    PACKAGED_SHA256,
    Bert,
    digest,
    packaged_model_path,
    read_vectors,
    sentence_transformer,
)


def test_every_text_that_ships_has_the_vector_that_the_encoder_makes_of_it() -> None:
    vectors, texts = read_vectors(PACKAGED_SHA256), shipped_texts()
    assert {digest(text) for text in texts} == set(vectors), "run `make vectors`"
    path = packaged_model_path()
    assert path is not None
    some = texts[::90]
    made = Bert(path).encode(some)
    shipped = np.array([vectors[digest(text)] for text in some], dtype=np.float32)
    assert np.abs((made * shipped).sum(axis=1) - 1.0).max() < 1e-3


def test_numpy_and_torch_make_the_same_vectors() -> None:
    path = packaged_model_path()
    assert path is not None
    texts = ["", "a", "日本語 text é ñ 😀", " ".join(["word"] * 600), *shipped_texts()[:9]]
    ours, theirs = Bert(path).encode(texts), sentence_transformer(path)(texts)
    assert np.abs(ours - theirs).max() < 1e-5


def test_vectors_of_other_weights_are_not_used() -> None:
    assert read_vectors("0" * 64) == {}
