"""Names and numbers in log lines: scores, durations, memory with its kind, settings.

Every pattern here runs over at most `logline.MOST_CHARS` characters, starts with a fixed character class and
has bounded repeats, so that no line takes more than a few milliseconds.
"""

import re
from calendar import timegm
from collections.abc import Iterator
from typing import Any

from memory_service.domain.logs.durations import epoch_seconds_of

_NUMBER = r"[-+]?(?:\d{1,18}(?:\.\d{0,18})?|\.\d{1,18})(?:[eE][-+]?\d{1,3})?"
_IS = r"\s{0,3}[=:]\s{0,3}"
_PAIR = re.compile(rf"['\"]?{_IS}['\"]?({_NUMBER}|[-+]?nan\b|[-+]?inf\b)", re.IGNORECASE)
_NAME_CHARS = 40
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_/.@() \-]{0,39}$")
_BARE = re.compile(
    r"\b((?:train|val|valid|validation|eval|test|dev)[ _]?)?(loss|acc(?:uracy)?|auc|f1)\s{1,3}"
    rf"({_NUMBER}|nan\b|inf\b)",
    re.IGNORECASE,
)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VALID = _words("val valid validation eval test dev holdout oof cv")
_TRAIN = _words("train training tr trn learn")
_FILLERS = _words("epoch step avg mean total running 0 1")
_LOSSES = _words(
    "loss logloss mlogloss binary_logloss multi_logloss rmse mae mse l1 l2 mape error "
    "binary_error multi_error merror rmsle cross_entropy ce bce quantile huber crossentropy "
    "multiclass poisson tweedie gamma"
)
_METRICS = _words(
    "acc accuracy auc f1 score metric map map50 map5095 dice iou miou qwk kappa precision recall r2 ndcg "
    "top1 acc1 acc@1 top_1 roc_auc auroc pearson spearman bleu rouge psnr ssim mcc f1_score f1_macro cv"
)
_RATES = {"lr", "learning_rate", "train_lr"}

_SIZE = r"(\d{1,7}(?:\.\d{1,6})?)\s?"
_UNIT = r"(GiB|GB|G|MiB|MB|(?-i:M))\b"
_MEMORY = re.compile(
    rf"{_IS}{_SIZE}(?:{_UNIT})?"
    rf"(?:\s?(?:/|of)\s?{_SIZE}{_UNIT})?(?:\s?\(\s?(\d{{1,3}}(?:\.\d{{1,4}})?)\s?%\s?\))?",
    re.IGNORECASE,
)
_MEMORY_NAME = re.compile(r"gpu|mem|vram|cuda|alloc|reserved|cached", re.IGNORECASE)
_USE = re.compile(r"used|peak|max|alloc|reserved|cached", re.IGNORECASE)
_SMI_CSV = re.compile(
    r"(?:(\d{1,3}) %,\s{0,2}(?:\d{1,3} %,\s{0,2})?)?(\d{1,7}) MiB,\s{0,2}(\d{1,7}) MiB"
    r"(?:,\s{0,2}(\d{1,3}) %)?"
)
_SMI = re.compile(r"(\d{1,7})MiB\s{0,3}/\s{0,3}(\d{1,7})MiB\s{0,3}\|\s{0,9}(\d{1,3})%")

_N_TRAIN = rf"\b(?:num examples|n_train|train(?:ing)? samples|points in the train set){_IS}(\d[\d,]{{0,15}})"
_SETTINGS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (name, hint, re.compile(pattern, re.IGNORECASE))
    for name, hint, pattern in (
        ("batch_size", "batch", rf"\b(?:train_)?batch[_ ]?(?:size)?(?: per device)?{_IS}(\d[\d,]{{0,12}})"),
        ("cpu_count", "cpu", r"(\d{1,5}) CPU cores"),
        ("cpu_count", "cpu", rf"\bcpu_count{_IS}(\d{{1,5}})"),
        ("num_workers", "num_workers", rf"\bnum_workers{_IS}(\d{{1,5}})"),
        ("prefetch_factor", "prefetch_factor", rf"\bprefetch_factor{_IS}(\d{{1,5}})"),
        ("epochs", "epochs", rf"\b(?:num[_ ]|n_|max_|total[_ ])?epochs{_IS}(\d{{1,7}})\b"),
        ("epochs", "training for", r"\btraining for (\d{1,7}) epochs\b"),
        ("folds", "folds", rf"\b(?:num_|n_|cv_)?folds{_IS}(\d{{1,4}})\b"),
        ("n_train", "", _N_TRAIN),
        ("total_steps", "total optimization", rf"\btotal optimization steps{_IS}(\d[\d,]{{0,15}})"),
        ("grad_accumulation", "accumulation", rf"\bgradient accumulation steps{_IS}(\d{{1,6}})"),
        ("learning_rate", "", rf"\b(?:learning_rate|lr){_IS}({_NUMBER})"),
        ("patience", "patience", rf"\bpatience{_IS}(\d{{1,5}})"),
    )
)
_SETTING_WORDS = (
    "batch", "cpu", "worker", "prefetch", "epochs", "folds", "train", "examples", "steps", "lr",
    "learning_rate", "patience", "gpu=", "precision",
)  # fmt: skip
_GPU_NAME = re.compile(r"\bGPU=([A-Za-z][^,\n]{2,80})")
_PERSISTENT = re.compile(r"\bpersistent_workers=(True|False)", re.IGNORECASE)

_CLOCK = re.compile(
    r"^\W{0,3}(\d{4})[-/](\d{2})[-/](\d{2})[ T](\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,9}))?"
    r"\s?(Z|[+-]\d{2}:?\d{2})?"
)


def clock_of(line: str) -> tuple[float | None, str]:
    """(seconds since 1970 UTC of a date and time at the line's start, the rest of the line).

    A time without a zone is taken as UTC: only differences within one log are meant to be used. None, and the
    line as it was, where it starts otherwise.
    """
    found = _CLOCK.match(line)
    if found is None:
        return None, line
    year, month, day, hour, minute, second = (int(g) for g in found.groups()[:6])
    if not (year and 1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 61):
        return None, line
    at = float(timegm((year, month, day, hour, minute, second)))
    if found[7]:
        at += float(f"0.{found[7]}")
    zone = found[8]
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 3_600 + int(zone[-2:]) * 60
        at -= offset if zone[0] == "+" else -offset
    return at, line[found.end() :]


def _name_before(text: str, end: int) -> str:
    """The name that ends right before a `=` or `:`; "" where there is none."""
    found = _NAME.search(text[max(0, end - _NAME_CHARS) : end].rstrip(" '\""))
    return "" if found is None else found[0].strip()


def float_of(text: str | None) -> float | None:
    """The number that a text is; None for no text and for any other."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def pairs_of(text: str) -> Iterator[tuple[str, str]]:
    """(normalised name, number as text) of each `name=number` or `name: number`."""
    for found in _PAIR.finditer(text):
        name = re.sub(r"[^a-z0-9@]+", "_", _name_before(text, found.start()).lower()).strip("_")
        if name:
            yield name, found[1]
    for found in _BARE.finditer(text):
        yield f"{(found[1] or '').strip(' _').lower()}_{found[2].lower()}".strip("_"), found[3]


def scores_of(text: str, best: bool = False) -> dict[str, Any]:
    """train_loss, valid_loss, metric and metric_name, learning_rate, seconds, as far as the text names them.

    Not-a-number losses are stored as the text "nan" or "inf": they mean something.
    """
    out: dict[str, Any] = {}
    rank = 0
    for name, value in pairs_of(text):
        side, what = _split_name(name, best)
        if what in _RATES:
            out.setdefault("learning_rate", _score(value))
        elif what in _LOSSES:
            out.setdefault("valid_loss" if side == "valid" else "train_loss", _score(value))
        elif what in _METRICS and side != "train":
            better = 2 if side == "valid" else 1
            if better > rank:
                rank, out["metric"], out["metric_name"] = better, _score(value), name
    seconds = epoch_seconds_of(text)
    return out if seconds is None else {**out, "seconds": seconds}


def _split_name(name: str, best: bool) -> tuple[str, str]:
    """("train" | "valid" | "", the score's own name) of `val_acc`, `train/loss`, `loss_val`, `fold 1 auc`.

    A "best" figure repeats an earlier one: it is none unless `best`.
    """
    words = [w for w in name.split("_") if w and w not in _FILLERS]
    if "best" in words and not best:
        return "", ""
    side = "valid" if _VALID & set(words) else "train" if _TRAIN & set(words) else ""
    own = [w for w in words if w not in _VALID and w not in _TRAIN] or words
    for size in (3, 2, 1):
        what = "_".join(own[-size:])
        if what in _LOSSES or what in _METRICS or what in _RATES:
            return side, what
    return "", ""


def _score(value: str) -> float | str:
    plain = value.lower()
    return plain.lstrip("+") if "n" in plain else float(plain)


def memory_of(text: str, *, alone_is_total: bool = True) -> dict[str, Any]:
    """Memory figures with their kind, by the names of `event.MEMORY_FIELDS`, and the card's total.

    alone_is_total   `GPU Memory: 24.0 GB` says how much the card has (R27), not how much is used
    """
    out: dict[str, Any] = {}
    smi = _SMI.search(text) if "MiB" in text else None
    if smi is not None:
        return {"used_gib": int(smi[1]) / 1024, "total_gib": int(smi[2]) / 1024,
                "utilization_percent": float(smi[3])}  # fmt: skip
    listed = _SMI_CSV.search(text) if "MiB, " in text else None
    if listed is not None:
        less, more = sorted((int(listed[2]) / 1024, int(listed[3]) / 1024))
        busy = listed[1] or listed[4]
        utilization = {} if busy is None else {"utilization_percent": float(busy)}
        return {"used_gib": less, "total_gib": more, **utilization}
    for found in _MEMORY.finditer(text):
        unit = found[2] or found[4]
        name = "" if unit is None else _name_before(text, found.start()).lower()
        if _MEMORY_NAME.search(name) is None:
            continue
        used, total = _gib(found[1], unit), _gib(found[3], found[4])
        percent = None if found[5] is None else float(found[5])
        alone = total is None and percent is None and _USE.search(name) is None
        if (alone and alone_is_total and "gpu memory" in name) or re.search(r"total|capacity", name):
            out.setdefault("total_gib", used)
            continue
        out.setdefault(_kind_field(name), used)
        if total is not None:
            out.setdefault("total_gib", total)
        elif percent and used:
            out.setdefault("total_gib", round(used / percent * 100.0, 1))
    return out


def _gib(value: str | None, unit: str | None) -> float | None:
    if value is None or unit is None:
        return None
    return float(value) / (1024.0 if unit[0] in "mM" else 1.0)


def _kind_field(name: str) -> str:
    peak = re.search(r"max|peak", name) is not None
    if "reserved" in name or "cached" in name:
        return "peak_reserved_gib" if peak else "reserved_gib"
    if "alloc" in name:
        return "peak_allocated_gib" if peak else "allocated_gib"
    if "driver" in name or "smi" in name or "nvml" in name:
        return "used_gib"
    return "peak_allocated_gib" if peak else "memory_gib"


def without_memory(text: str) -> str:
    """The text without its memory figures, so that they are not read as scores."""
    return _MEMORY.sub(lambda m: " " if m[2] or m[4] else m[0], text)


def settings_of(text: str) -> dict[str, Any]:
    """What the line says of the run's settings, by the names of `event.SETTING_FIELDS`."""
    out: dict[str, Any] = {}
    plain = text.lower()
    if not any(word in plain for word in _SETTING_WORDS):
        return out
    for name, hint, pattern in _SETTINGS:
        found = pattern.search(text) if hint in plain else None
        if found is not None and name not in out:
            value = found[1].replace(",", "")
            out[name] = float(value) if name == "learning_rate" else int(value)
    card, persistent = _GPU_NAME.search(text), _PERSISTENT.search(text)
    if card is not None:
        out["gpu_name"] = card[1].strip()
    if persistent is not None:
        out["persistent_workers"] = persistent[1].lower() == "true"
    return out
