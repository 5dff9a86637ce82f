"""Texts that a language model writes: one forward pass for each token, and the memory of what it has read.

A pass of few samples is too short for a card: its time is that of launching the kernels from Python, or of
reading the weights and the cache of keys and values where that is longer. HOST_S was fitted on eight rows of
litgpt (Llama 2 7B to 70B, Code Llama 34B, half precision and NF4, one sample, A100-40GB); compiled or served
otherwise (vLLM), a pass takes a third.
"""

from memory_service.domain.common.estimate import Estimate
from memory_service.domain.cost.profile import Profile
from memory_service.domain.cost.roofline import INFERENCE

HOST_S = 31e-6
"""Of a kernel of a forward pass, launched alone."""

READ_SHARE = 0.7
"""Of a card's bandwidth that products with a few rows reach."""

SPREAD = 1.35
"""Either way, of eight in ten: libraries differ."""

ANSWER_SHARE, MOST_TOKENS = 0.25, 256
"""Tokens that an answer is taken to have, as a share of a text, and at most."""

TOGETHER = 16
"""Texts that are written at once, unless a step trains more."""

_KERNELS = 8
"""Column of a roofline row (`domain.cost.roofline`)."""


def answer_tokens(seq_len: int, text_tokens: int | None = None) -> int:
    """How many tokens an answer is taken to have. text_tokens: of a text in the mean, where somebody said."""
    return max(1, min(MOST_TOKENS, round(min(seq_len, text_tokens or seq_len) * ANSWER_SHARE)))


FRAMES_PER_TOKEN = 30
"""Of 10 ms: some 2.5 words a second, of 1.3 tokens."""

_AT_ONCE = ("wav2vec2", "conformer")
"""Families that give a letter or word piece for every frame (CTC) and write nothing token by token."""


def writes_by_token(profile: Profile) -> bool:
    """Whether the network writes its answer one token at a time. Captions of `caption/` are left out."""
    decoder = "cache_bytes_per_token" in profile.extra
    return decoder or (profile.input_kind == "seq_len" and profile.family not in _AT_ONCE)


def text_length(profile: Profile) -> int:
    """Tokens of a text at the profile's input size, of which an answer is a share."""
    if profile.family == "whisper":
        return max(1, round(profile.input_size / FRAMES_PER_TOKEN / ANSWER_SHARE))
    return int(profile.extra.get("text_tokens") or profile.input_size)


def cache_bytes(profile: Profile, tokens: float) -> float:
    """Keys and values of one text in half precision; of what is no decoder, those of a BERT of its size."""
    usual = 4.0 * 12.0 * 768.0 * (profile.params / 110e6) ** (2 / 3)
    return float(profile.extra.get("cache_bytes_per_token", usual)) * tokens


def forward_kernels(profile: Profile) -> float:
    """Kernels of a forward pass of one token: of a decoder with a tower the decoder's."""
    if "token_kernels" in profile.extra:
        return float(profile.extra["token_kernels"])
    rows = profile.extra.get("roofline") or ()
    return float(sum(row[_KERNELS] for row in rows if row[0] == INFERENCE))


def token_seconds(kernels: float, read_bytes: float, card_gb_s: float) -> Estimate:
    """Seconds of one token of all texts that are written together, on a card of this bandwidth."""
    seconds = max(kernels * HOST_S, read_bytes / (READ_SHARE * card_gb_s * 1e9))
    basis = "a forward pass a token, its kernels launched one by one"
    return Estimate(seconds, seconds / SPREAD, seconds * SPREAD, basis=basis)


def answer_seconds(profile: Profile, batch: int, card_gb_s: float, text_tokens: int | None) -> float:
    """Seconds that writing takes of one text, `batch` of them at once, beyond reading its question."""
    longest = text_length(profile)
    length = min(longest, text_tokens or longest)
    tokens, together = answer_tokens(length), max(batch, TOGETHER)
    weights = profile.params * 4.0 + profile.buffers_bytes  # trained ones, in units of four bytes, and frozen
    read = weights + together * cache_bytes(profile, length + profile.extra.get("tower_tokens", 0))
    return tokens * token_seconds(forward_kernels(profile), read, card_gb_s).value / together
