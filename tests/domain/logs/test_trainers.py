# ruff: noqa: E501 - lines as they are printed
"""Whole logs of usual trainers, as they print them: are position, scores, times and ends of folds right?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.logs.parser import Context, ParsedEvent, read_log
from memory_service.domain.monitoring.event import Event
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.run_view import RunView
from memory_service.domain.monitoring.state import RunFacts, State
from memory_service.domain.monitoring.summary import Summary

LOGS: dict[str, str] = {
    "fastai": """epoch     train_loss  valid_loss  accuracy  time
0         1.234567    0.987654    0.801000  00:45
1         0.834567    0.687654    0.851000  01:01
""",
    "yolo": """Starting training for 50 epochs...
      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
       1/50      2.52G      1.234      2.345      1.456         45        640:  50%|█████     | 62/125 [00:16<00:16,  3.85it/s]\r\
       1/50      2.52G      1.234      2.345      1.456         45        640: 100%|██████████| 125/125 [00:32<00:00,  3.85it/s]
                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 120/120 [00:04<00:00,  1.90it/s]
                   all        128        929      0.669       0.54       0.62       0.45
       2/50      2.53G      1.134      2.145      1.356         45        640:  46%|████▋     | 58/125 [00:15<00:17,  3.85it/s]
""",
    "timm": """Scheduled epochs: 310. LR stepped per epoch.
Train: 0 [   0/1251 (  0%)]  Loss: 6.95 (6.95)  Time: 2.312s,  110.73/s  (2.312s,  110.73/s)  LR: 1.000e-06  Data: 1.523 (1.523)
Train: 0 [1250/1251 (100%)]  Loss: 6.93 (6.94)  Time: 0.312s,  820.51/s  (0.365s,  701.37/s)  LR: 1.000e-06  Data: 0.012 (0.146)
Test: [   0/48]  Time: 1.432 (1.432)  Loss:  6.8901 ( 6.8901)  Acc@1:  0.391 (  0.391)  Acc@5:  1.172 (  1.172)
Test: [  48/48]  Time: 0.132 (0.232)  Loss:  6.7000 ( 6.8101)  Acc@1:  0.391 (  0.512)  Acc@5:  1.172 (  1.172)
Train: 1 [  50/1251 (  4%)]  Loss: 6.90 (6.90)  Time: 0.400s,  210.73/s  (0.400s,  110.73/s)  LR: 1.000e-05  Data: 0.1 (0.16)
""",
    "keras": """Epoch 3/10
  1/312 [..............................] - ETA: 40s - loss: 0.41 - accuracy: 0.87\r\
 57/312 [====>.........................] - ETA: 33s - loss: 0.4221 - accuracy: 0.8642\r\
312/312 [==============================] - 41s 130ms/step - loss: 0.4321 - accuracy: 0.8512 - val_loss: 0.5123 - val_accuracy: 0.8234
Epoch 4/10
 57/312 [====>.........................] - ETA: 33s - loss: 0.3221 - accuracy: 0.8642
""",
    "lightgbm": """[LightGBM] [Info] Number of data points in the train set: 9000, number of used features: 28
Training until validation scores don't improve for 100 rounds
[100]\ttraining's l2: 0.19\tvalid_1's l2: 0.21
[200]\ttraining's l2: 0.17\tvalid_1's l2: 0.22
Early stopping, best iteration is:
[150]\ttraining's l2: 0.18\tvalid_1's l2: 0.205
[100]\ttraining's l2: 0.19\tvalid_1's l2: 0.23
Did not meet early stopping. Best iteration is:
[1000]\ttraining's l2: 0.11\tvalid_1's l2: 0.12
[100]\ttraining's l2: 0.19\tvalid_1's l2: 0.24
""",
    "xgboost": """[0]\tvalidation_0-logloss:0.61\tvalidation_1-logloss:0.63
[100]\tvalidation_0-logloss:0.31\tvalidation_1-logloss:0.33
[0]\tvalidation_0-logloss:0.62\tvalidation_1-logloss:0.64
""",
    "catboost": """Learning rate set to 0.05
0:\tlearn: 0.6931\ttest: 0.6930\tbest: 0.6930 (0)\ttotal: 52.1ms\tremaining: 52.1s
100:\tlearn: 0.5\ttest: 0.52\tbest: 0.52 (100)\ttotal: 5.1s\tremaining: 45.4s
Stopped by overfitting detector  (50 iterations wait)
bestIteration = 50
Shrink model to first 51 iterations.
0:\tlearn: 0.6931\ttest: 0.6930\tbest: 0.6930 (0)\ttotal: 51.1ms\tremaining: 52.1s
""",
    "kaggle": """========== fold: 0 training ==========
Epoch: [1][0/312] Elapsed 0m 1s (remain 6m 4s) Loss: 0.6913(0.6913) Grad: 12.3  LR: 0.00002000
Epoch: [1][311/312] Elapsed 2m 1s (remain 0m 0s) Loss: 0.3913(0.4913) Grad: 2.3  LR: 0.00002000
EVAL: [0/29] Elapsed 0m 1s (remain 0m 45s) Loss: 0.2(0.2)
EVAL: [28/29] Elapsed 0m 9s (remain 0m 0s) Loss: 0.4(0.3)
Epoch 1 - avg_train_loss: 0.4913  avg_val_loss: 0.4021  time: 130s
Epoch 1 - Score: 0.8123
""",
    "imagenet": """Epoch: [0][  10/5005]\tTime  0.312 ( 0.512)\tData  0.002 ( 0.120)\tLoss 6.9012e+00 (6.9311e+00)
Epoch: [0][  40/5005]\tTime  0.300 ( 0.400)\tData  0.002 ( 0.100)\tLoss 6.8012e+00 (6.9011e+00)
""",
    "torchvision": "Epoch: [0]  [ 30/100]  eta: 0:01:02  lr: 0.001  loss: 0.5 (0.6)  time: 0.3121  data: 0.1021  max mem: 3421\n",
    "language model": "| epoch   1 |   200/ 2983 batches | lr 5.00 | ms/batch 12.31 | loss  8.12 | ppl  3361.12\n",
    "nanogpt": "step 0: train loss 4.28, val loss 4.27\niter 100: loss 2.3421, time 152.31ms, mfu 31.2%\n",
    "tqdm": (
        "Map: 100%|██████████| 9000/9000 [00:03<00:00, 2711.32 examples/s]\n"
        "Generating train split: 100%|██████████| 9000/9000 [00:03<00:00, 2711.32 examples/s]\n"
        "100%|██████████| 9000/9000 [00:13<00:00, 711.32files/s]\n"
        "\r  0%|          | 0/281 [00:00<?, ?it/s]\r 50%|█████     | 140/281 [00:20<00:20,  7.00it/s]"
    ),
    "nvidia-smi": "utilization.gpu [%], memory.used [MiB], memory.total [MiB]\n97 %, 18203 MiB, 23028 MiB\n",
    "colours": (
        "\x1b[32m2026-03-01 12:00:01,123\x1b[0m \x1b[1mINFO\x1b[0m Epoch 2/10 | loss: \x1b[31m0.512\x1b[0m | "
        "val_loss: 0.48 | 31.2s\r\n"
    ),
}  # fmt: skip


def told(name: str) -> list[tuple[str, dict[str, Any]]]:
    return [(event.kind, dict(event.fields)) for event in read_log(LOGS[name], final=True).events]


def epochs(name: str) -> list[dict[str, Any]]:
    return [fields for kind, fields in told(name) if kind == "epoch"]


def steps(name: str) -> list[dict[str, Any]]:
    return [fields for kind, fields in told(name) if kind == "batch"]


def has(found: dict[str, Any], **wanted: Any) -> None:
    assert {name: found.get(name) for name in wanted} == pytest.approx(wanted)


def test_fastai_s_table() -> None:
    first, second = epochs("fastai")
    has(first, epoch=0, train_loss=1.234567, valid_loss=0.987654, metric=0.801, seconds=45.0)
    has(second, epoch=1, seconds=61.0)


def test_ultralytics() -> None:
    """Its GPU_mem is `torch.cuda.memory_reserved`; the validation's bar is no training, however long."""
    ended, scored = epochs("yolo")
    has(ended, epoch=1, seconds=32.0, train_loss=5.035, reserved_gib=2.52)
    has(scored, epoch=1, metric=0.45)
    has(steps("yolo")[-1], epoch=2, step=58, of=125, elapsed_seconds=15.0)
    assert told("yolo")[0] == ("note", {"epochs": 50})


def test_timm_says_how_long_it_waits_and_its_test_lines_are_no_epochs_of_a_second() -> None:
    (scored,) = epochs("timm")
    has(scored, epoch=0, valid_loss=6.8101, metric=0.512)
    assert "seconds" not in scored
    first, last, second = steps("timm")
    assert "loader_wait_percent" not in first, "workers are only being started"
    has(last, step=1250, of=1251, elapsed_seconds=456.25, loader_wait_percent=40.0)
    has(second, epoch=1, loader_wait_percent=40.0)
    summary = add_events(Summary(), [Event(i, k, 60.0 * i, f) for i, (k, f) in enumerate(told("timm"))])
    assert RunView(State(RunFacts(), summary)).wait_percents[-1] == pytest.approx(40.0)


def test_keras_unfinished_bars_are_positions() -> None:
    (ended,) = epochs("keras")
    has(ended, epoch=3, seconds=41.0, train_loss=0.4321, valid_loss=0.5123, metric=0.8234)
    has(steps("keras")[-1], epoch=4, step=57, of=312, train_loss=0.3221)


@pytest.mark.parametrize(("name", "rounds"), [
    ("lightgbm", [(1, 100), (1, 200), (2, 100), (3, 100)]),
    ("xgboost", [(1, 0), (1, 100), (2, 0)]),
    ("catboost", [(1, 0), (1, 100), (2, 0)]),
])  # fmt: skip
def test_boosting_rounds_that_begin_anew_are_the_next_fold_s(
    name: str, rounds: list[tuple[int, int]]
) -> None:
    """The best round, printed again at the end of a fit, is not counted as one."""
    assert [(e["fold"], e["epoch"]) for e in epochs(name)] == rounds
    done = [fields["fold"] for kind, fields in told(name) if kind == "fold"]
    assert done == {"lightgbm": [1, 2], "xgboost": [], "catboost": [1]}[name]


def test_of_two_sets_that_xgboost_watches_the_last_is_the_validation() -> None:
    has(epochs("xgboost")[1], train_loss=0.31, valid_loss=0.33)


def test_kaggle_s_template_tells_positions_and_one_epoch() -> None:
    evaluated, ended, scored = epochs("kaggle")
    has(evaluated, epoch=1, valid_loss=0.3, train_loss=0.3913)
    has(ended, fold=0, epoch=1, train_loss=0.4913, valid_loss=0.4021, seconds=130.0)
    has(scored, epoch=1, metric=0.8123)
    has(steps("kaggle")[1], epoch=1, step=311, of=312, elapsed_seconds=121.0, train_loss=0.3913)


def test_step_lines_of_examples() -> None:
    has(steps("imagenet")[1], epoch=0, step=40, of=5005, elapsed_seconds=16.0, loader_wait_percent=25.0)
    has(steps("torchvision")[0], epoch=0, step=30, of=100, elapsed_seconds=30 * 0.3121)
    assert ("gpu", {"peak_allocated_gib": 3421 / 1024}) in told("torchvision")
    has(steps("language model")[0], epoch=1, step=200, of=2983, elapsed_seconds=2.462, train_loss=8.12)
    has(steps("nanogpt")[-1], step=100, elapsed_seconds=15.231, train_loss=2.3421)


def test_bars_of_files_and_examples_are_no_training() -> None:
    (found,) = steps("tqdm")
    has(found, step=140, of=281, elapsed_seconds=20.0)


def test_nvidia_smi_and_colours() -> None:
    assert told("nvidia-smi") == [
        ("gpu", {"used_gib": 18203 / 1024, "total_gib": 23028 / 1024, "utilization_percent": 97.0})
    ]
    has(epochs("colours")[0], epoch=2, epochs=10, train_loss=0.512, valid_loss=0.48, seconds=31.2)


@pytest.mark.parametrize(("lines", "folds"), [
    ("Epoch 1/2 loss=1\nEpoch 2/2 loss=1\nEpoch 1/2 loss=1\n", [1, 1, 2]),
    ("Epoch 0/2 loss=1\nEpoch 1/2 loss=1\nEpoch 0/2 loss=1\n", [1, 1, 2]),
    ("Epoch 1/9 loss=1\nEpoch 2/9 loss=1\nEpoch 1/9 loss=1\n", [1, 1, 1]),
    ("Epoch 1/9 loss=1\nEpoch 2/9 loss=1\nEarly stopping\nEpoch 1/9 loss=1\n", [1, 1, 2]),
    ("Epoch 1/9 loss=1\nEarlyStopping counter: 1 out of 5\nEpoch 2/9 loss=1\nEpoch 1/9 loss=1\n", [1, 1, 1]),
    ("Fold 1\nEpoch 1/2 loss=1\nEpoch 2/2 loss=1\nFold 2\nEpoch 1/2 loss=1\n", [1, 1, 2]),
])  # fmt: skip
def test_epochs_that_begin_anew_after_the_last_are_the_next_fold_s(lines: str, folds: list[int]) -> None:
    """Where they begin anew in the middle, the script was started again."""
    found = [e.fields["fold"] for e in read_log(lines).events if e.kind == "epoch"]
    assert found == folds


def test_hugging_face_without_a_bar_tells_its_position_by_the_epoch() -> None:
    lines = "  Num Epochs = 3\n  Total optimization steps = 1,689\n{'loss': 0.69, 'epoch': 0.32}\n"
    has(dict(read_log(lines).events[-1].fields), step=180, of=1689, scope="run")


ALL = ("".join(LOGS.values()) + "Epoch 9/10 – Verlust: loss=0.1 ✓\n").encode()


def unfinished(event: ParsedEvent) -> bool:
    """A frame of a bar that was redrawn later: pieces may tell of more of these."""
    return event.kind == "batch" and "step" in event.fields


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, len(ALL)), max_size=12))
def test_pieces_may_end_inside_a_character(cuts: list[int]) -> None:
    whole = read_log(ALL, final=True)
    events: list[ParsedEvent] = []
    kept: list[str] = []
    context = Context()
    for start, end in itertools.pairwise([0, *sorted(cuts), len(ALL)]):
        piece = read_log(ALL[start:end], context, final=end == len(ALL) and start < end)
        events, kept = [*events, *piece.events], [*kept, *piece.unrecognized]
        context = Context.from_dict(piece.context.as_dict())
    last = read_log(b"", context, final=True)
    events = [*events, *last.events]
    assert [e for e in events if not unfinished(e)] == [e for e in whole.events if not unfinished(e)]
    assert [e for e in whole.events if e not in events] == []
    assert tuple(kept) == whole.unrecognized


def test_every_single_byte_may_be_a_piece_of_its_own() -> None:
    whole = read_log(ALL, final=True)
    context, events = Context(), []
    for n in range(len(ALL)):
        piece = read_log(ALL[n : n + 1], context)
        context = piece.context
        events += [e for e in piece.events if not unfinished(e)]
    assert events == [e for e in whole.events if not unfinished(e)]
