"""The packaged text encoder, all-MiniLM-L6-v2, computed with numpy: no torch in the serving process.

BERT as published (Devlin et al. 2018; weights and tokenizer of the package): embeddings, layers of attention
and a GELU network, each with a residual and a layer norm behind it; the mean over tokens, of unit length.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MOST_PADDED = 4
"""Texts in one forward pass. A sentence takes nearly as long among eight as alone (8.1 ms of 10.8 on one
core), so questions of several callers are not collected."""

_ROWS_AT_ONCE = 16
"""Of an activation, 100 KB of each thing that is computed on its way: that of a whole text is 4 MB, and its
dozen passes through memory took a third of the time of a question (40 ms of 92 in a layer; now 9)."""


class Bert:
    """Sentence vectors of a folder with `config.json`, `tokenizer.json` and `model.safetensors`."""

    def __init__(self, folder: Path) -> None:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        limits = json.loads((folder / "sentence_bert_config.json").read_text(encoding="utf-8"))
        self._heads = int(config["num_attention_heads"])
        self._epsilon = float(config["layer_norm_eps"])
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(int(limits["max_seq_length"]))
        weights: dict[str, Any] = load_file(folder / "model.safetensors")
        self._tokenizer.no_padding()
        self._words = weights["embeddings.word_embeddings.weight"]
        self._places = (
            weights["embeddings.position_embeddings.weight"]
            + weights["embeddings.token_type_embeddings.weight"][0]
        )
        self._norm = _pair(weights, "embeddings.LayerNorm")
        self._layers = [
            _layer(weights, f"encoder.layer.{n}") for n in range(int(config["num_hidden_layers"]))
        ]

    def encode(self, texts: Sequence[str]) -> Floats:
        """Unit vectors (n, width), in the order given; texts of like length share a forward pass."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        out = np.empty((len(texts), self._words.shape[1]), dtype=np.float32)
        for start in range(0, len(order), _MOST_PADDED):
            places = order[start : start + _MOST_PADDED]
            read = [self._tokenizer.encode(texts[place]).ids for place in places]
            ids = np.zeros((len(read), max(map(len, read))), dtype=np.int64)
            mask = np.zeros(ids.shape, dtype=np.float32)
            for row, tokens in enumerate(read):
                ids[row, : len(tokens)], mask[row, : len(tokens)] = tokens, 1.0
            out[places] = self._pooled(ids, mask)
        return out

    def _pooled(self, ids: NDArray[np.int64], mask: Floats) -> Floats:
        x = self._normal(self._words[ids] + self._places[: ids.shape[1]], *self._norm)
        hidden = np.where(mask[:, None, None, :] > 0.0, np.float32(0.0), np.float32(-1e9))
        for layer in self._layers:
            x = self._through(x, layer, hidden)
        mean = (x * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True))

    def _through(self, x: Floats, layer: dict[str, Any], hidden: Floats) -> Floats:
        n, tokens, width = x.shape
        flat = x.reshape(-1, width)
        mixed = (flat @ layer["qkv"][0] + layer["qkv"][1]).reshape(n, tokens, 3, self._heads, -1)
        query, key, value = mixed.transpose(2, 0, 3, 1, 4)
        scores = query @ key.transpose(0, 1, 3, 2)
        scores *= np.float32(1.0 / np.sqrt(query.shape[-1]))
        scores += hidden
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=-1, keepdims=True)
        seen = (scores @ value).transpose(0, 2, 1, 3).reshape(-1, width)
        x = self._normal(flat + (seen @ layer["out"][0] + layer["out"][1]), *layer["out_norm"])
        wide = _gelu(x @ layer["up"][0] + layer["up"][1])
        x = self._normal(x + (wide @ layer["down"][0] + layer["down"][1]), *layer["down_norm"])
        return x.reshape(n, tokens, width)

    def _normal(self, x: Floats, weight: Floats, bias: Floats) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        scale = np.einsum("...i,...i->...", x, x)[..., None] / x.shape[-1]
        x *= weight / np.sqrt(scale + np.float32(self._epsilon))
        x += bias
        return x


def _pair(weights: dict[str, Any], name: str) -> tuple[Floats, Floats]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _layer(weights: dict[str, Any], name: str) -> dict[str, Any]:
    """Matrices as they are multiplied from the right, with their biases; query, key and value in one."""

    def linear(*names: str) -> tuple[Floats, Floats]:
        found = [_pair(weights, f"{name}.{each}") for each in names]
        matrix = np.ascontiguousarray(np.concatenate([weight for weight, _ in found]).T)
        return matrix, np.concatenate([bias for _, bias in found])

    return {
        "qkv": linear(*(f"attention.self.{each}" for each in ("query", "key", "value"))),
        "out": linear("attention.output.dense"),
        "out_norm": _pair(weights, f"{name}.attention.output.LayerNorm"),
        "up": linear("intermediate.dense"),
        "down": linear("output.dense"),
        "down_norm": _pair(weights, f"{name}.output.LayerNorm"),
    }


def _gelu(x: Floats) -> Floats:
    """x times the normal distribution function, in place, by formula 7.1.26 of Abramowitz and Stegun (error
    under 1.5e-7). A few rows at a time: what is computed on the way stays in the cache of a core."""
    for start in range(0, len(x), _ROWS_AT_ONCE):
        rows = x[start : start + _ROWS_AT_ONCE]
        size = np.abs(rows)
        z = size * np.float32(0.7071067811865476)
        t = np.float32(1.0) / (np.float32(1.0) + np.float32(0.3275911) * z)
        tail = np.float32(1.061405429) * t
        for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
            tail += np.float32(coefficient)
            tail *= t
        tail *= np.exp(-z * z)
        tail *= np.float32(0.5) * size
        np.maximum(rows, np.float32(0.0), out=rows)
        rows -= tail
    return x
