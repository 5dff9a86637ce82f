"""Rows that name signals, pictures, sounds or videos: features as columns for trees and as blocks. Signals
get statistics and random convolutions (MiniRocket and MultiRocket; Dempster et al., Tan et al., 2021)."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.columns import read_frames
from memory_service.train.kernels import (
    FileMember,
    columns_beside,
    kernel_regression,
    linear_regression,
    random_trees,
)
from memory_service.train.media_files import read_image
from memory_service.train.pictures import PICTURE_FILES, STORE, picture_features, read_pictures
from memory_service.train.problem import Fit, Prediction, Problem, from_folder, installed
from memory_service.train.reading import (
    Data,
    as_numbers,
    files_of,
    find_files,
    naming_columns,
    read_table,
    target_columns,
    warn_unreadable,
)
from memory_service.train.sounds import read_sounds
from memory_service.train.table_files import SOUND_FILES
from memory_service.train.words import once, text_columns, topics_of

VIDEO_FILES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif")
FRAMES, SIDE = 8, 64  # of a video, evenly apart; pixels a side that features are of
DIRECTIONS = 32  # main ones of a block, that are columns
ENCODE_SHARE = 0.4  # of the time that is left, for an encoder
FITTED_ROWS = 5_000  # by which main directions are found


def read_joined(train: pd.DataFrame, test: Any, sample: Any) -> Data:
    """The data of a table whose rows name files, or have signals: these are `media`, and no columns."""
    asked = sample.iloc[:, :1] if test is None else test
    media: dict[str, list[Any]] = {}
    if plan.TASK.startswith("time-series"):
        if (found := find_signals(train, asked)) is not None:
            train, asked, media["signal"] = found
    else:
        columns = [name for name in naming_columns(train) if name in asked.columns]
        for name in [*columns, train.columns[0]]:
            if name in target_columns(train, test, sample) or (media and name == train.columns[0]):
                continue
            try:
                found_files = [*find_files("train", train[name]), *find_files("test", asked[name])]
            except (FileNotFoundError, KeyError):
                continue
            if np.mean([path.exists() for path in found_files]) > 0.5:
                media["file" if name == train.columns[0] else name] = found_files
        used = [name for name in columns if name in media]
        train, asked = train.drop(columns=used), asked.drop(columns=used)
        if not media:
            print("NOTE: no column and no id names files: the table alone is learned", flush=True)
    rows, ids = len(train), train.iloc[:, 0].tolist()
    data = read_frames(train, asked, sample)
    places = iter(range(rows))  # rows without a target are left out
    kept = [next(place for place in places if ids[place] == name) for name in data.ids]
    kept += range(rows, rows + len(asked))
    data.media = {name: [given[place] for place in kept] for name, given in media.items()}
    return data


def add_media(problem: Problem, data: Data) -> None:
    """Give the problem what its media show: `blocks`, and their main directions as columns. In a run that
    ends nothing is read: what was fitted is blended."""
    if state.stop:
        names = [f"{name} {place}" for name in data.media for place in range(DIRECTIONS)]
        problem.columns, problem.blocks = problem.columns | dict.fromkeys(names, "number"), [np.zeros((0, 0))]
        return
    rows = len(problem.inputs)
    table = pd.concat([problem.inputs, problem.test_inputs], ignore_index=True)
    blocks, found = list[np.ndarray](), dict[str, np.ndarray]()
    for name, given in data.media.items():
        began = time.monotonic()
        try:
            seen = features_of_media(given, np.arange(rows))
        except Exception as error:  # the columns are there yet
            print(f"WARNING: {name} is not learned from: {error!r:.200}", flush=True)
            continue
        for kind, block in seen.items():
            spread = block[:rows].std(axis=0)
            block = block[:, spread > 0]
            if kind == "statistics":
                found |= {f"{name}: {kind} {place}": column for place, column in enumerate(block.T)}
                block = np.clip((block - block[:rows].mean(0)) / spread[spread > 0], -4, 4)
            elif block.shape[1]:
                main = main_columns(block, rows)
                found |= {f"{name}: {kind} {place}": column for place, column in enumerate(main.T)}
            blocks += [block] if block.shape[1] else []
        told = ", ".join(f"{block.shape[1]} of {kind}" for kind, block in seen.items())
        print(f"Features of {name}: {told} ({time.monotonic() - began:.1f} s)", flush=True)
    if len(table.columns):
        blocks += columns_beside(table.drop(columns=text_columns(problem)))
    whole = pd.concat([table, pd.DataFrame(found, index=table.index)], axis=1)
    problem.inputs, problem.test_inputs = whole.iloc[:rows], whole.iloc[rows:].reset_index(drop=True)
    problem.columns = problem.columns | dict.fromkeys(found, "number")
    blocks += [once(problem, "topics", lambda: topics_of(problem))] if text_columns(problem) else []
    problem.blocks = blocks


def main_columns(block: np.ndarray, rows: int) -> np.ndarray:
    """The main directions of a block, by some of the first `rows`."""
    from sklearn.decomposition import PCA

    some = np.random.default_rng(0).permutation(rows)[:FITTED_ROWS]
    count = min(DIRECTIONS, block.shape[1], len(some))
    known = PCA(count, svd_solver="randomized", random_state=0).fit(block[some])
    return np.asarray(known.transform(block), np.float32)


def features_of_media(given: Sequence[Any], known: np.ndarray) -> dict[str, np.ndarray]:
    """What it is called -> (things, features), by what they are."""
    first = next((each for each in given if not isinstance(each, Path) or each.exists()), given[0])
    ending = first.suffix.lower() if isinstance(first, Path) else ""
    if not isinstance(first, Path) or ending in SIGNAL_FILES:
        statistics, shares = signal_features(given, known)
        return {"statistics": statistics, "convolutions": shares}
    if first.is_dir() or ending in VIDEO_FILES:
        shown = [frames_of(path) for path in given]
        usual = next((each for each in shown if each), [])
        if not usual:
            raise ValueError("no video can be read: other than folders of pictures and .gif need OpenCV")
        if unread := sum(not each for each in shown):
            print(f"WARNING: {unread} of {len(shown)} videos have no frames", flush=True)
        videos = [each or usual for each in shown]  # one that cannot be read is as the first
        starts = np.cumsum([0, *map(len, videos)])
        frames = [frame for video in videos for frame in video]
        read = read_pictures(frames, SIDE)
        blocks = seen_in(frames, read)
        seen = {kind: over_time(block, starts) for kind, block in blocks.items()}
        return {"statistics": motion_features(read.mean(1), starts), **seen}
    if ending in SOUND_FILES:
        return {"statistics": read_sounds(given)[1]}
    return seen_in(given, read_pictures(given, SIDE))


def over_time(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of the frames of each video the mean, the spread, and how far the second half is off the first."""
    found = []
    for start, end in pairwise(starts):
        half, part = (end - start) // 2, block[start:end]
        moved = part[half:].mean(0) - part[:half].mean(0) if half else 0 * part[0]
        found.append(np.concatenate([part.mean(0), part.std(0), moved]))
    return np.stack(found)


def motion_features(greys: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of videos whose frames, (frames, SIDE, SIDE), begin at `starts`, the last of them the end: (videos,
    features) of what is other than in the frame before, and than in most frames: how much, where its middle
    is, how far it spreads, and how these change. The last frame stands for those that are missing."""
    places = np.minimum(starts[:-1, None] + np.arange(FRAMES), starts[1:, None] - 1)
    films = greys[places].astype(np.float32) / 255
    found, at = list[np.ndarray](), np.linspace(-1, 1, SIDE)
    for change in (np.diff(films, axis=1), films - np.median(films, axis=1, keepdims=True)):
        change = np.abs(change)
        change = np.maximum(change - 2 * np.median(change, axis=(2, 3), keepdims=True), 0) + 1e-6
        total, sums = change.sum((2, 3)), (change.sum(2), change.sum(3))
        across, down = (each @ at / total for each in sums)
        spread = sum(each @ at**2 for each in sums) / total - across**2 - down**2
        found += [np.log(total), across, down, spread]
        for steps in (np.diff(each, axis=1) for each in (across, down, spread)):
            found += [steps, steps.mean(1, keepdims=True)]
    return np.concatenate(found, axis=1)


def frames_of(path: Path) -> list[Any]:
    """Some frames of a video: of a folder, a .gif or, with OpenCV, another file; else none."""
    from PIL import Image, ImageSequence

    there: list[Any] = []
    try:
        if path.is_dir():
            there = [file for file in sorted(path.iterdir()) if file.suffix.lower() in PICTURE_FILES]
        elif path.suffix.lower() == ".gif":
            with Image.open(path) as film:
                there = [frame.convert("RGB").copy() for frame in ImageSequence.Iterator(film)]
        elif path.exists():
            cv2 = import_module("cv2")

            video = cv2.VideoCapture(str(path))
            for place in evenly(int(video.get(cv2.CAP_PROP_FRAME_COUNT))):
                video.set(cv2.CAP_PROP_POS_FRAMES, place)
                good, frame = video.read()
                there += [Image.fromarray(frame[:, :, ::-1])] if good else []
    except (ImportError, OSError, ValueError, SyntaxError) as error:
        warn_unreadable(path, error)
        return []
    return [there[place] for place in evenly(len(there))]


def evenly(count: int) -> list[int]:
    """Places of `FRAMES` of so many frames."""
    return list(np.unique(np.linspace(0, count - 1, FRAMES).astype(int)).tolist()) if count > 0 else []


def seen_in(pictures: Sequence[Any], read: np.ndarray) -> dict[str, np.ndarray]:
    """What the plan's encoder sees in pictures, where its weights are there, and gradients and colours of
    what was read of them."""
    encoded = encoded_pictures(pictures)
    names = ("gradients", "thumbnails", "colours")
    found = dict(zip(names, picture_features(read), strict=False))
    return found if encoded is None else {"encoder": encoded, **found}


def encoded_pictures(pictures: Sequence[Any]) -> np.ndarray | None:
    """(pictures, features) of the plan's encoder; None without its weights, or without the time for it."""
    name = str(plan.MODEL).partition("/")[2]
    if plan.WEIGHTS == "none" or not name or not installed("timm", "torch"):
        return None
    import timm
    import torch
    from timm.data import create_transform, resolve_data_config

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        overlay = from_folder(name)
        model = timm.create_model(name, True, pretrained_cfg_overlay=overlay, num_classes=0).eval().to(device)
    except Exception as error:
        print(f"NOTE: no weights of {name} ({error!r:.120}): gradients and colours instead", flush=True)
        return None
    config = resolve_data_config({}, model=model) | {"crop_mode": "squash"}
    transform = create_transform(**config)

    def encode(part: Sequence[Any]) -> np.ndarray:
        images = []
        for each in part:
            try:
                images.append(transform(read_image(each, side=2 * STORE) if isinstance(each, Path) else each))
            except (OSError, ValueError, SyntaxError):
                images.append(torch.zeros(config["input_size"]))
        with torch.inference_mode():
            return np.asarray(model(torch.stack(images).to(device)).float().cpu(), np.float32)

    began, at_once = time.monotonic(), 16 if device == "cpu" else 64
    first = encode(pictures[:at_once])
    price = (time.monotonic() - began) * len(pictures) / at_once
    if price > ENCODE_SHARE * state.seconds_left():
        print(f"NOTE: no time for {name}: it takes about {price:.0f} s", flush=True)
        return None
    rest = [encode(pictures[start : start + at_once]) for start in range(at_once, len(pictures), at_once)]
    return np.concatenate([first, *rest])


def block_member(name: str, learn: Callable[[Fit, Any], Prediction], each: float) -> FileMember:
    """each   seconds of a row"""
    return FileMember(
        f"features, {name}", (), "scipy", lambda of, _: [*of.blocks], learn, lambda n, _: 2.0 + each * n
    )


BLOCK_MEMBERS = (
    block_member("linear", linear_regression, 1e-3),
    block_member("kernel", kernel_regression, 3e-3),
    block_member("random trees", random_trees, 5e-2),
)

plan.add_media = add_media


SIGNAL_FILES = (".csv", ".tsv", ".txt", ".npy", ".parquet")
LEAST_STEPS = 16  # of a signal
MOST_STEPS, MOST_CHANNELS = 512, 40  # that are convolved
READ_TIME = 0.15  # of the time that is left, for statistics and for convolutions
LEVELS_OF_VALUES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
LAGS = (1, 2, 4, 8, 16, 32)
SPECTRUM_PARTS, PARTS = 12, 8
KERNELS = np.array(list(combinations(range(9), 3)))  # where a kernel of length 9 weighs 2, elsewhere -1
PASSED = (0.3, 0.5, 0.8)  # quantiles of what a kernel gives, which are its thresholds
AT_ONCE = 64  # rows


def find_signals(
    train: pd.DataFrame, test: pd.DataFrame
) -> tuple[pd.DataFrame, pd.DataFrame, list[Any]] | None:
    """(the tables without them, the signals of all rows and then of the test rows), each an array (channels,
    steps) or the file that has it. Files train/<id>.csv with a row a step; or a row a step in train.csv or
    in tables beside it, by the same id; or columns that are numbered. None where there are none."""
    ids = pd.concat([train.iloc[:, 0], test.iloc[:, 0]], ignore_index=True)
    with suppress(FileNotFoundError):
        paths = [*files_of("train", train), *files_of("test", test)]
        known = next((path for path in paths if path.exists()), paths[0])
        if known.exists() or any((plan.DATA_DIR / name).is_dir() for name in ("train", "test")):
            return (train, test, paths) if known.suffix.lower() in SIGNAL_FILES else None
    if plan.TASK != "time-series-classification":
        return None
    first = train.columns[0]
    if len(train) >= LEAST_STEPS * train[first].nunique():
        changing = train.groupby(first).nunique().gt(1).any()
        steps = [first, *(name for name in changing.index[changing] if name in test.columns)]
        parts = by_id([train[steps], test[steps]])
        train, test = (table.drop_duplicates(first).reset_index(drop=True) for table in (train, test))
        kept = [name for name in train.columns if not changing.get(name, False)]
        train, test = train[kept], test[[name for name in kept if name in test.columns]]
        return train, test, signals_of(parts, [train[first], test[first]])
    tables = dict[str, pd.DataFrame]()
    for path in sorted(plan.DATA_DIR.glob("*.csv")):
        if first in pd.read_csv(path, nrows=0, encoding_errors="replace").columns:
            table = read_table(path.name, first)
            if table is not None and len(table) >= LEAST_STEPS * table[first].nunique():
                tables[path.stem.lower()] = table[table[first].isin(ids)]
    if tables and ids.isin(pd.concat([table[first] for table in tables.values()])).mean() > 0.5:
        sides = []
        for asked, other in ((train[first], "test"), (test[first], "train")):
            own = [table for name, table in tables.items() if other not in name] or [*tables.values()]
            side = pd.concat(own, ignore_index=True, join="inner")
            if asked.isin(side[first]).mean() <= 0.5:
                side = pd.concat(tables.values(), ignore_index=True, join="inner")
            sides.append(side)
        return train, test, signals_of(by_id(sides), [train[first], test[first]])
    channels = numbered_columns(train, test)
    if not channels:
        return None
    several = channels.values()
    values = [np.stack([as_columns(each[names]) for names in several], axis=1) for each in (train, test)]
    used = [name for names in channels.values() for name in names]
    return train.drop(columns=used), test.drop(columns=used), [*values[0], *values[1]]


def by_id(tables: Sequence[pd.DataFrame]) -> list[dict[str, np.ndarray]]:
    """Of each table, whose ids are its own: id -> (channels, steps) without columns that count the steps."""
    shared = [name for name in tables[0].columns[1:] if all(name in table.columns for table in tables)]
    shared = [name for name in shared if pd.api.types.is_numeric_dtype(tables[0][name])]
    found = []
    for table in tables:
        values, names = as_columns(table[shared]), table.iloc[:, 0].to_numpy()
        order = np.argsort(pd.factorize(names)[0], kind="stable")
        names, values = names[order], values[order]
        starts = np.flatnonzero(np.r_[True, names[1:] != names[:-1]])
        found.append(dict(zip(names[starts], np.split(values.T, starts[1:], axis=1), strict=True)))
    some = list(found[0].values())[:50]
    kept = [c for c in range(len(shared)) if not is_counter([one[c] for one in some])]
    return [{name: one[kept or slice(None)] for name, one in each.items()} for each in found]


def is_counter(columns: Sequence[np.ndarray]) -> bool:
    """Whether steps count on evenly in every signal, or are of one value in all."""
    moves = [np.diff(column) for column in columns if len(column) > 2]
    even_moves = bool(moves) and all(np.ptp(move) == 0 for move in moves)
    return even_moves and (all(move[0] for move in moves) or len({float(each[0]) for each in columns}) == 1)


def signals_of(parts: Sequence[dict[str, np.ndarray]], ids: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """The signal of each id by its part; a flat one where it has no rows."""
    flat = np.zeros((len(next(iter(parts[0].values()))), LEAST_STEPS), np.float32)
    missing = [name for part, names in zip(parts, ids, strict=True) for name in names if name not in part]
    if missing:
        print(f"WARNING: {len(missing)} ids have no steps, as {missing[0]}: flat signals", flush=True)
    return [part.get(name, flat) for part, names in zip(parts, ids, strict=True) for name in names]


def numbered_columns(train: pd.DataFrame, test: pd.DataFrame) -> dict[str, list[str]]:
    """Beginning -> its numbered columns in order, as many as most beginnings have."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in train.columns[1:]:
        match = re.fullmatch(r"([^\d]{0,40}(?:\d{1,4}[^\d]{1,40})?)(\d{1,9})", str(name)[:99])
        if match and name in test.columns and pd.api.types.is_numeric_dtype(train[name]):
            found.setdefault(match[1], []).append((int(match[2]), name))
    long = {begin: [name for _, name in sorted(names)] for begin, names in found.items()}
    lengths = [len(names) for names in long.values() if len(names) >= LEAST_STEPS]
    usual = max(set(lengths), key=lambda each: each * lengths.count(each), default=0)
    return {begin: names for begin, names in long.items() if usual and len(names) == usual}


def as_columns(table: pd.DataFrame) -> np.ndarray:
    return np.column_stack([as_numbers(table[name]) for name in table.columns]).astype(np.float32)


def read_signal(given: Any) -> np.ndarray:
    """(channels, steps) without gaps, of an array or a file."""
    if isinstance(given, str | Path):
        path = Path(given)
        if path.suffix == ".npy":
            loaded = np.load(path, allow_pickle=False)
            given = np.atleast_2d(loaded.T if loaded.ndim == 2 and len(loaded) > loaded.shape[1] else loaded)
        elif path.suffix == ".parquet":
            given = as_columns(pd.read_parquet(path)).T
        else:
            table = pd.read_csv(path, sep={".tsv": "\t", ".txt": r"\s+"}.get(path.suffix, ","), header=None)
            heads = as_numbers(table.iloc[0]).isna().any()
            given = as_columns(table.iloc[1:] if heads else table).T
    found = np.asarray(given, np.float32)[:MOST_CHANNELS].copy()
    for channel in found:
        known = np.isfinite(channel)
        if not known.all():
            places = np.flatnonzero(known)
            channel[:] = np.interp(np.arange(len(channel)), places, channel[known]) if len(places) else 0.0
    return found


def read_signals(given: Sequence[Any]) -> list[np.ndarray]:
    """All of them with as many channels; one that cannot be read is a flat one."""
    found, broken = list[np.ndarray | None](), list[str]()
    for each in given:
        try:
            found.append(read_signal(each))
        except (OSError, ValueError, KeyError, IndexError) as error:
            found.append(None)
            broken.append(f"{each}: {error!r:.200}")
    if len(broken) == len(given):
        raise ValueError(f"no signal can be read, for example {broken[0]}")
    if broken:
        print(f"WARNING: {len(broken)} of {len(given)} signals cannot be read, as {broken[0]}", flush=True)
    usual = int(np.median([len(one) for one in found if one is not None]))
    signals = []
    for one in found:
        whole = np.zeros((usual, LEAST_STEPS if one is None else max(one.shape[1], 2)), np.float32)
        if one is not None:
            whole[: len(one), : one.shape[1]] = one[:usual]
        signals.append(whole)
    return signals


def statistics_of(signal: np.ndarray) -> np.ndarray:
    """Level, spread, shape, changes, spectrum and course of each channel, and how they go together."""
    length = signal.shape[1]
    x = (signal if length >= LEAST_STEPS else even(signal, LEAST_STEPS)).astype(float)
    steps = x.shape[1]
    mean, spread = x.mean(1, keepdims=True), x.std(1, keepdims=True)
    z, change = (x - mean) / (spread + 1e-9), np.diff(x, axis=1)
    power = np.abs(np.fft.rfft(z, axis=1)[:, 1:]) ** 2
    edges = np.unique(np.geomspace(1, power.shape[1] + 1, SPECTRUM_PARTS + 1).astype(int)) - 1
    share = power / (power.sum(1, keepdims=True) + 1e-9)
    bands = np.add.reduceat(share, edges[:-1], axis=1)
    bands = np.pad(bands, ((0, 0), (0, SPECTRUM_PARTS - bands.shape[1])))
    hertz = np.arange(1, power.shape[1] + 1) / steps
    lags = [(z[:, lag:] * z[:, :-lag]).mean(1) if lag < steps else 0 * z[:, 0] for lag in LAGS]
    parts = np.array_split(x, PARTS, axis=1)
    pieces = [*(part.mean(1) for part in parts), *(part.std(1) for part in parts)]
    found = [
        mean[:, 0], spread[:, 0], x.min(1), x.max(1), *np.quantile(x, LEVELS_OF_VALUES, axis=1),
        (z**3).mean(1), (z**4).mean(1), np.abs(change).mean(1), change.std(1), np.abs(change).max(1),
        (np.sign(z[:, 1:]) != np.sign(z[:, :-1])).mean(1), x.argmax(1) / steps, x.argmin(1) / steps,
        x[:, 0], x[:, -1], (z * np.linspace(-1, 1, steps)).mean(1), hertz[power.argmax(1)], share @ hertz,
        *lags, *bands.T, *pieces,
    ]  # fmt: skip
    found = [np.concatenate(found), [float(length)]]
    if 2 <= len(x) <= 8:
        found.append((z @ z.T / steps)[np.triu_indices(len(x), 1)])
    return np.nan_to_num(np.concatenate(found)).astype(np.float32)


def even(signal: np.ndarray, steps: int) -> np.ndarray:
    """With so many steps, by linear interpolation; of a much longer one means of neighbours."""
    if signal.shape[1] >= 2 * steps:
        cut = signal.shape[1] // steps
        signal = signal[:, : cut * (signal.shape[1] // cut)].reshape(len(signal), -1, cut).mean(2)
    if signal.shape[1] == steps:
        return signal
    places = np.linspace(0, signal.shape[1] - 1, steps)
    return np.stack([np.interp(places, np.arange(len(one)), one) for one in signal]).astype(np.float32)


def convolved(x: np.ndarray, known: np.ndarray, seed: int, seconds: float = np.inf) -> np.ndarray:
    """(rows, features) of (rows, channels, steps): the share of steps at which random channels, convolved
    with each of 84 kernels at several dilations, and so their changes, pass thresholds. These are quantiles
    of what some `known` rows give. When `seconds` are over, further dilations are left out."""
    rng, parts, began = np.random.default_rng(seed), list[np.ndarray](), time.monotonic()
    changes = np.diff(x, axis=2, append=x[:, :, -1:])
    dilations = np.unique(np.geomspace(1, max((x.shape[2] - 1) / 8, 1), 7).astype(int))
    for dilation in rng.permutation(dilations):
        for shown in (x, changes):
            if parts and time.monotonic() - began > seconds:
                break
            mixed = [rng.choice(x.shape[1], rng.integers(1, min(x.shape[1], 4) + 1), False) for _ in KERNELS]
            some = rng.choice(known, min(len(known), 30), replace=False)
            bounds = np.quantile(_kernels(shown[some], dilation, mixed), PASSED, axis=(0, 2))
            found = np.empty((len(x), len(KERNELS) * len(PASSED)), np.float32)
            for start in range(0, len(x), AT_ONCE):
                given = _kernels(shown[start : start + AT_ONCE], dilation, mixed)
                shares = [(given > bound[None, :, None]).mean(2) for bound in bounds]
                found[start : start + AT_ONCE] = np.hstack(shares)
            parts.append(found)
    return np.hstack(parts)


def _kernels(x: np.ndarray, dilation: int, mixed: Sequence[np.ndarray]) -> np.ndarray:
    """(rows, kernels, steps): 3 times the three steps that weigh, less all nine."""
    steps, pad = x.shape[2], 4 * dilation
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad)))
    moved = np.stack([padded[:, :, place * dilation : place * dilation + steps] for place in range(9)])
    whole = moved.sum(0)
    out = np.empty((len(x), len(KERNELS), steps), np.float32)
    for place, ((a, b, c), channels) in enumerate(zip(KERNELS, mixed, strict=True)):
        if x.shape[1] == 1:
            out[:, place] = (3 * (moved[a] + moved[b] + moved[c]) - whole)[:, 0]
        else:
            three = moved[a][:, channels] + moved[b][:, channels] + moved[c][:, channels]
            out[:, place] = (3 * three - whole[:, channels]).sum(1)
    return out


def signal_features(given: Sequence[Any], known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(statistics, features by convolutions) of all signals, in a share of the time that is left: long ones
    are thinned where it is short.

    known   rows whose values set thresholds and scales
    """
    signals, seconds = read_signals(given), READ_TIME * state.seconds_left()

    def slower(work: Any, some: list[np.ndarray]) -> int:
        """How often the time for all signals is the time that there is, at least 1."""
        began = time.monotonic()
        work(some)
        cost = (time.monotonic() - began) / len(some) * len(signals)
        return max(1, int(np.ceil(cost / max(seconds, 0.1))))

    step = slower(lambda some: [statistics_of(one) for one in some], signals[:20])
    if step > 1:
        print(f"NOTE: statistics of every {step}th step: there is no time for all", flush=True)
    thinned = [one[:, ::step] if one.shape[1] > 4 * step else one for one in signals]
    statistics = np.stack([statistics_of(one) for one in thinned])
    steps = int(np.clip(np.median([one.shape[1] for one in signals]), LEAST_STEPS, MOST_STEPS))

    some = [even(one, steps) for one in signals[:AT_ONCE]]
    times = slower(lambda few: convolved(np.stack(few), np.arange(4), 0), some)
    steps = max(LEAST_STEPS, steps // times)
    x = np.stack([even(one, steps) for one in signals])
    x = (x - x[known].mean((0, 2), keepdims=True)) / (x[known].std((0, 2), keepdims=True) + 1e-9)
    return statistics, convolved(x, known, plan.SEED, seconds)
