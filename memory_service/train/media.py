"""Rows that name signals, pictures, sounds or videos: features as columns for trees and as blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from memory_service.train.budget import plan, state
from memory_service.train.columns import read_frames
from memory_service.train.files import FileMember, columns_beside
from memory_service.train.kernels import kernel_regression, linear_regression, random_trees
from memory_service.train.pictures import PICTURE_FILES, picture, picture_features
from memory_service.train.problem import Fit, Prediction, Problem, from_folder, installed
from memory_service.train.reading import Data, find_files, naming_columns, target_columns, warn_unreadable
from memory_service.train.signals import SIGNAL_FILES, find_signals, signal_features
from memory_service.train.sounds import read_sounds
from memory_service.train.table_files import SOUND_FILES
from memory_service.train.words import once, text_columns, topics_of

VIDEO_FILES = (".mp4", ".avi", ".mov", ".mkv", ".webm", ".gif")
FRAMES = 8  # of a video, evenly apart
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
    problem.blocks = [
        *blocks,
        *([once(problem, "topics", lambda: topics_of(problem))] if text_columns(problem) else []),
    ]


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
        return {
            kind: over_time(block, starts)
            for kind, block in seen_in([frame for video in videos for frame in video]).items()
        }
    if ending in SOUND_FILES:
        return {"statistics": read_sounds(given)[1]}
    return seen_in(given)


def over_time(block: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Of the frames of each video the mean, the spread, and how far the second half is off the first."""
    found = []
    for start, end in pairwise(starts):
        half, part = (end - start) // 2, block[start:end]
        moved = part[half:].mean(0) - part[:half].mean(0) if half else 0 * part[0]
        found.append(np.concatenate([part.mean(0), part.std(0), moved]))
    return np.stack(found)


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


def seen_in(pictures: Sequence[Any]) -> dict[str, np.ndarray]:
    """What the plan's encoder sees in pictures, where its weights are there, and gradients and colours."""
    encoded = encoded_pictures(pictures)
    names = ("gradients", "thumbnails", "colours")
    found = dict(zip(names, picture_features(pictures), strict=False))
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
                images.append(transform(picture(each) if isinstance(each, Path) else each))
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


def given_blocks(problem: Problem, _rows: np.ndarray) -> list[np.ndarray]:
    return list(problem.blocks)


def block_member(name: str, learn: Callable[[Fit, Any], Prediction], each: float) -> FileMember:
    """each   seconds of a row"""
    return FileMember(
        f"features, {name}", (), "scipy", given_blocks, learn, lambda rows, _: 2.0 + each * rows
    )


BLOCK_MEMBERS = (
    block_member("linear", linear_regression, 1e-3),
    block_member("kernel", kernel_regression, 3e-3),
    block_member("random trees", random_trees, 5e-2),
)

plan.add_media = add_media
