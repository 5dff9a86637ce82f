"""The budget of a run and its plan: settings of train.py, what is left of the minutes, what is reported.

train.py says what is learned: its settings and functions are `plan`.
"""

import datetime as dt
import math
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Plan(SimpleNamespace):
    """The settings and functions of train.py: `begin` fills it in. Here is what holds where a script has none
    of its own."""

    BATCH_SIZE, GRAD_ACCUMULATION, EPOCHS, NUM_WORKERS = 0, 1, 1, 0
    WEIGHTS, CHANNELS_LAST, GRADIENT_CHECKPOINTING, IMAGE_SIZE, DIMENSIONS = "hub", False, False, 0, 0
    BANDS, BAND_LEVELS, IMAGE_SHAPE = 0, None, ()  # beyond three colours; of strips
    PLANNED_FROM = ""
    PRETRAINED, HUB_NAME, LORA_RANK, LAYER_DECAY, EMA = False, "", 0, 1.0, 0.0
    MOMENTUM, PAGED_OPTIMIZER, GRADIENT_NORM = 0.0, False, 1.0
    TTA, MIXUP, CUTMIX, FOCAL_GAMMA, CLASS_WEIGHTS, WINDOWS, FLIP = False, 0.0, 0.0, 0.0, False, 0, 0.0
    LABEL_SMOOTHING, HIDDEN_BANDS, PAIRS, METHOD, SHARDED = 0.0, 0, False, "", False
    SPLIT, GROUP_BY, GAP, FOLDS, SEEDS, SEED = "random", None, 0, 5, 1, 42
    RANK, WORLD = 0, 1  # this process among those of several cards
    SERVER, BASELINE, __file__, DATA_DIR = None, "", None, Path("data")
    ANSWER, FORM, SCORE, K, LOGS, ABSOLUTE = "labels", "", "", 0, "", False  # see `answers`
    WEIGHTED = False  # the metric weighs rows by a column
    LEVELS = (0.5,)  # quantiles, one for each value that is predicted
    SAMPLE_ROWS = 0  # rows of train.csv that are learned from; 0: all
    AXES, SHARES, TRIPLES, SHOWN, ERASING = (), False, False, "", 0.0  # of keypoints: see `points`
    MASKS, CHARACTERS, LANGUAGE = 1, 0, "en"  # kinds of masks; most of a transcript; what is spoken
    CORNERS = STEPS = False  # whether boxes are written as corners, and rows have steps of their own
    TARGET, TASK = "", ""  # the column to predict, where the sample does not say
    TEST_ROWS = 0  # to predict
    PAGE_FORM = ()  # lines that the page shows: names of columns or "", an answer
    cells = None  # of a sample of another form: see `submission_form`
    ranks = None  # of each id the group in which its rank is asked for
    listed = None  # a sample of nothing but ids: those of the highest answers are asked for
    MARK = " "  # between labels of one cell
    GRADES = (0, 1)  # what a grade may be, by the training rows

    # Functions: None where a kind of script does without.
    print_devices = start_together = first_says = collate = None  # networks
    training_order = None  # random, if rows are as dear as each other
    default_thresholds = best_thresholds = None  # where probabilities are cut into classes
    score_of = None  # the loss judges
    predict_masks = None  # masks are too large to keep: predicted and written at once
    fuse = None  # boxes have no plain mean
    neighbors = embedder = None  # embeddings, which are matched
    image_samples = learn_pictures = None  # other samples of pictures; what holds of all to train on
    between = None  # the model's own mark between two texts
    write_held_out = None  # another oof.csv
    file_members = ()  # of files and of what rows name, for `engine`
    baseline_table = None  # another baseline than a constant
    add_media = None  # what rows name, as columns
    train = None  # another way to train than fold after fold: see `engine`

    @property
    def channels(self) -> int:
        """Levels that a pixel has: its bands, or three colours."""
        return self.BANDS or 3


plan: Any = Plan()

LARGEST_CUT = 8
"""Times: advice that divides the batch by more is not followed, as the minutes would not do."""


def process_age() -> float:
    """Seconds since this process, or torchrun, began, by the wall clock: imports and a slow disk count."""
    if "ipykernel" in sys.modules:  # a notebook's process is older than the run
        return 0.0
    process = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else "self"  # of torchrun, who begins it
    try:
        ticks = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return max(age, time.process_time())
    except (OSError, AttributeError, ValueError, IndexError):  # no Linux
        return time.process_time()


START = time.monotonic() - process_age()


def minutes_until(moment: str) -> float:
    """From START to a moment: seconds since 1970, or ISO 8601 (UTC where it names no zone)."""
    try:
        timestamp = float(moment)
    except ValueError:
        parsed = dt.datetime.fromisoformat(moment)
        timestamp = (parsed if parsed.tzinfo else parsed.replace(tzinfo=dt.UTC)).timestamp()
    return (timestamp - time.time() + time.monotonic() - START) / 60


def usable_cores() -> int:
    """By the process's affinity and its container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):  # version 2, version 1
        with suppress(OSError, ValueError):  # no quota, or "max"
            text = " ".join((Path("/sys/fs/cgroup") / name).read_text() for name in files)
            quota, period = map(int, text.split())
            cores = min(cores, math.ceil(quota / period)) if quota > 0 else cores
    return cores


@dataclass
class RunState:
    """The plan's settings as they hold now: changed when memory or time run short."""

    out_dir: Path = Path()
    minutes: float = 0.0
    reserve_minutes: float = 0.0  # kept for predicting and writing
    train_minutes: float = 0.0  # from here on a fold begins only if it fits
    batch_size: int = 0
    accumulation: int = 1
    epochs: int = 0
    num_workers: int = 0
    row_seconds: float = 0.0  # that training took for a sample, where the time cut an epoch
    start_seconds: float = 0.0  # that an epoch's first step took beyond another
    share: float = 0.0  # of the present epoch, that is trained already
    predict_seconds: float = 0.0  # expected for the test set, by the speed of validating
    table_seconds: float = 0.0  # most that the disk took for a table such as submission.csv
    save_seconds: float = 0.0  # and the last time for a network's checkpoint
    fold_seconds: list[float] = field(default_factory=list)  # what training each fold took
    unfinished: dict[str, dict] = field(default_factory=dict)  # folds of whose test rows some were predicted
    interim: bool = False  # whether submission.csv is of an epoch within the first fold
    predicted: bool = False  # whether this start wrote submission.csv by its folds
    stop: bool = False  # end now with what there is
    run: Any = None  # what reports to the service, while it does
    verdict: Any = None  # the service's last advice
    repeats: int = 0  # how often in a row it gave the same

    def elapsed(self) -> float:
        return time.monotonic() - START

    def seconds_left(self) -> float:
        """To the end of training: all but the reserve, or what predicting and writing take; at most to
        `train_minutes` until a first epoch or fold has shown that."""
        writing = self.save_seconds + 4 * self.table_seconds  # a fold writes four tables
        ending = self.predict_seconds + writing
        end = 60 * self.minutes - max(60 * self.reserve_minutes, ending)
        if self.is_unseen():
            end = min(end, 60 * self.train_minutes)
        return 0.0 if self.stop else max(end - self.elapsed(), 0.0)

    def is_unseen(self) -> bool:
        """Whether nothing has shown yet what predicting takes."""
        return not self.fold_seconds and self.predict_seconds == 0

    def fold_fits(self) -> bool:
        """Whether one more fold ends in time, if it takes as long as the quickest so far. Before
        `train_minutes` are over half of a last fold is enough: cut there, it helps, too."""
        share = 0.5 if self.elapsed() < 60 * self.train_minutes else 1.0
        return self.seconds_left() > share * min(self.fold_seconds, default=0.0)

    def set_batch_size(self, batch_size: int) -> None:
        """Another batch size with the same effective batch size."""
        self.accumulation = max(1, -(-self.batch_size * self.accumulation // batch_size))
        self.batch_size = batch_size

    def follow(self, verdict) -> None:
        """Of the service's advice what saves the deadline: a smaller batch at once, an end once its rule
        of the time for predicting (R14) asks for it at three moments in a row and that was not seen
        here yet. The rest is printed: how many folds and epochs fit is seen here."""
        if verdict is None or verdict is self.verdict:
            return
        last, self.verdict = self.verdict, verdict
        new = last is None or last.action != verdict.action
        if new:
            self.repeats = 1
        elif last.raw.get("at_seconds") != verdict.raw.get("at_seconds"):  # not the same answer once more
            self.repeats += 1
        if verdict.action != "continue" and new:
            print(f"VERDICT: {verdict}", flush=True)
        over = verdict.action == "stop_and_predict" and verdict.rule == "R14" and self.repeats >= 3
        if over and self.is_unseen():
            self.stop = True
        lower, least = verdict.set.get("batch_size", self.batch_size), self.batch_size / LARGEST_CUT
        if verdict.action == "lower_batch" and least <= lower < self.batch_size:
            self.set_batch_size(lower)


state = RunState()


@dataclass
class Deadline:
    """A clock for one fit: seconds from now on, at most those of the run."""

    seconds: float = math.inf
    began: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        return min(self.seconds - (time.monotonic() - self.began), state.seconds_left())


def begin(module, deadline: str | None = None) -> None:
    """Take the settings and functions of train.py; the budget ends at the deadline or MEMORY_DEADLINE, where
    one is given, else MINUTES after the start of the process."""
    plan.__dict__.update(vars(module))
    deadline = deadline or os.environ.get("MEMORY_DEADLINE")
    state.out_dir = plan.OUT_DIR
    state.minutes = minutes_until(deadline) if deadline else plan.MINUTES
    state.reserve_minutes = plan.RESERVE_SHARE * state.minutes
    state.train_minutes = plan.TRAIN_SHARE * state.minutes
    state.batch_size, state.accumulation, state.epochs = plan.BATCH_SIZE, plan.GRAD_ACCUMULATION, plan.EPOCHS
    state.num_workers = min(plan.NUM_WORKERS, usable_cores() // plan.WORLD)


def agreed(value):
    """What the first of several cards' processes says; the value where there is one."""
    return plan.first_says(value) if plan.first_says else value


def end_in_time() -> threading.Timer:
    """SIGTERM ends training; at the end of the budget, unless cancelled, the process ends whatever it does.
    What is written is whole at any moment."""

    def at_deadline() -> None:
        while not (state.out_dir / "submission.csv").exists():
            time.sleep(0.1)
        print("NOTE: the budget is over: ending with the submission that is there", flush=True)
        told = threading.Thread(
            target=lambda: report(state.run, "finish", "timed_out", submission=True), daemon=True
        )
        told.start()
        told.join(min(max(0.2, 0.4 * state.minutes), 10.0))
        os._exit(0)

    def at_sigterm(*_) -> None:
        state.stop = True

    signal.signal(signal.SIGTERM, at_sigterm)
    timer = threading.Timer(max(0.99 * 60 * state.minutes - state.elapsed(), 0.0), at_deadline)
    timer.daemon = True
    timer.start()
    return timer


def prediction_deadline() -> float:
    """When predictions of the test set must be there, by time.monotonic()."""
    return START + 0.97 * 60 * state.minutes


def report(run, method: str, *values, **facts):
    """One call of the client, such as run.fold(...); nothing where it is not installed."""
    return getattr(run, method)(*values, **facts) if run is not None else None
