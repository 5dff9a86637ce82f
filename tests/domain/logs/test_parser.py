"""Are the lines of the usual trainers understood, and is the rest kept?"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_service.domain.logs.parser import Context, ParsedEvent, read_log
from memory_service.domain.monitoring.event import MEMORY_FIELDS, Event
from memory_service.domain.monitoring.reducer import add_events
from memory_service.domain.monitoring.summary import Summary
from memory_service.schemas.events import EVENT_FIELDS, parse_events


def told(text: str, context: Context | None = None) -> list[tuple[str, dict[str, Any]]]:
    return [(event.kind, dict(event.fields)) for event in read_log(text, context, final=True).events]


def one(line: str, context: Context | None = None) -> dict[str, Any]:
    ((_, fields),) = told(line, context)
    return fields


R27 = [
    (
        "RESOURCES: 30 CPU cores, batch=32, GPU=NVIDIA A100-SXM4-40GB, Mixed Precision=ON",
        ("note", {"batch_size": 32, "cpu_count": 30, "gpu_name": "NVIDIA A100-SXM4-40GB"}),
    ),
    ("GPU Memory: 24.0 GB", ("note", {"total_gib": 24.0})),
    (
        "DataLoader: num_workers=10, prefetch_factor=4, persistent_workers=True",
        ("note", {"num_workers": 10, "prefetch_factor": 4, "persistent_workers": True}),
    ),
    ("GPU Memory Used: 18.3 GB / 24.0 GB (76.3%)", ("gpu", {"memory_gib": 18.3, "total_gib": 24.0})),
    (
        "VALIDATION: If <50% memory, batch_size=128 is TOO SMALL - should be 256+",
        ("note", {"batch_size": 128}),
    ),
    ("=== Fold 1/3 ===", ("fold", {"fold": 1, "folds": 3})),
    (
        "Epoch 3: Loss=0.542, Acc=0.801, GPU=18.1GB (75.4%)",
        (
            "epoch",
            {
                "fold": 1,
                "epoch": 3,
                "train_loss": 0.542,
                "metric": 0.801,
                "metric_name": "acc",
                "memory_gib": 18.1,
                "total_gib": 24.0,
            },
        ),
    ),
]


@pytest.mark.parametrize(("line", "event"), R27)
def test_r27(line: str, event: tuple[str, dict[str, Any]]) -> None:
    assert told(line) == [event]


PLAIN = [
    ("Epoch 3/30 loss=0.5", {"epoch": 3, "epochs": 30, "train_loss": 0.5}),
    (
        "Epoch 3/30 loss=0.5 val_loss=0.45 time=12.3s",
        {"train_loss": 0.5, "valid_loss": 0.45, "seconds": 12.3},
    ),
    (
        "Epoch [4/30], Loss: 0.5, Val Loss: 0.43, Val Acc: 80.1%, Time: 00:51",
        {"epoch": 4, "epochs": 30, "valid_loss": 0.43, "metric": 80.1, "seconds": 51.0},
    ),
    (
        "[Epoch 7] train_loss: 1.5e-2 | valid_loss: 2e-2 | f1: 0.7",
        {"train_loss": 0.015, "valid_loss": 0.02, "metric": 0.7},
    ),
    (
        "epoch=5 train/loss=0.4 val/loss=0.3 val/auc=0.91 lr=1e-4",
        {"train_loss": 0.4, "valid_loss": 0.3, "metric": 0.91, "learning_rate": 1e-4},
    ),
    (
        "Epoch 5 train loss 0.3 val loss 0.2 (took 12.1s)",
        {"train_loss": 0.3, "valid_loss": 0.2, "seconds": 12.1},
    ),
    ("Epoch 4 loss 0.4 val_loss 0.3 time 1m 05s", {"train_loss": 0.4, "valid_loss": 0.3, "seconds": 65.0}),
    ("Epoch 2 - loss: nan - val_loss: inf", {"train_loss": "nan", "valid_loss": "inf"}),
    ("Fold 2 - Epoch 1/5 - loss: 0.4", {"fold": 2, "epoch": 1, "epochs": 5, "train_loss": 0.4}),
    (
        "Epoch 1: loss=0.5 max_memory_allocated=17.2GB reserved=19.0 GB",
        {"train_loss": 0.5, "peak_allocated_gib": 17.2, "reserved_gib": 19.0},
    ),
    (
        '{"train_lr": 1e-4, "train_loss": 0.51, "test_loss": 0.4, "test_acc1": 80.1, "epoch": 3}',
        {"epoch": 3, "train_loss": 0.51, "valid_loss": 0.4, "metric": 80.1},
    ),
]


@pytest.mark.parametrize(("line", "fields"), PLAIN)
def test_plain_epoch_lines(line: str, fields: dict[str, Any]) -> None:
    ((kind, found),) = told(line)
    assert kind == "epoch"
    assert {name: found.get(name) for name in fields} == fields


MEMORY = [
    ("GPU Memory Used: 12.3 GB / 24.0 GB (51.3%)", "memory_gib", 12.3),
    ("Allocated: 412 MB", "allocated_gib", 412 / 1024),
    ("torch.cuda.memory_allocated: 0.41 GiB", "allocated_gib", 0.41),
    ("max_memory_allocated: 17.2 GB", "peak_allocated_gib", 17.2),
    ("Peak GPU memory: 17.2 GiB", "peak_allocated_gib", 17.2),
    ("memory_reserved: 19.1 GB", "reserved_gib", 19.1),
    ("max_memory_reserved=19.1GB", "peak_reserved_gib", 19.1),
    ("CUDA cached: 20 GiB", "reserved_gib", 20.0),
    (
        "| N/A   35C    P0   230W / 300W |  18300MiB / 24576MiB |     98%      Default |",
        "used_gib",
        18300 / 1024,
    ),
]


@pytest.mark.parametrize(("line", "name", "gib"), MEMORY)
def test_memory_keeps_its_kind(line: str, name: str, gib: float) -> None:
    fields = one(line)
    assert [field for field in fields if field in MEMORY_FIELDS] == [name]
    assert fields[name] == pytest.approx(gib)


def test_lightning() -> None:
    lines = (
        "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 11.02it/s]\r"
        "Epoch 0:   0%|          | 0/100 [00:00<?, ?it/s]\r"
        "Epoch 0:  45%|████▌     | 45/100 [00:05<00:06,  8.20it/s, v_num=0, train_loss=0.52]\r"
        "Epoch 0: 100%|██████████| 100/100 [00:12<00:00,  8.33it/s, v_num=0, train_loss=0.50]\r"
        "Validation DataLoader 0:  50%|█████     | 5/10 [00:00<00:00, 50.0it/s]\r"
        "Epoch 0: 100%|██████████| 100/100 [00:14<00:00,  7.14it/s, v_num=0, val_loss=0.41, val_acc=0.88]\r"
        "Epoch 1:   3%|▎         | 3/100 [00:01<00:30,  3.1it/s, v_num=0, train_loss=0.40]\n"
    )
    epochs = [fields for kind, fields in told(lines) if kind == "epoch"]
    assert [e["seconds"] for e in epochs] == [12.0, 14.0]
    assert (epochs[1]["valid_loss"], epochs[1]["metric"]) == (0.41, 0.88)
    last = told(lines)[-1][1]
    assert (last["epoch"], last["step"], last["of"], last["scope"]) == (1, 3, 100, "epoch")


def test_hugging_face() -> None:
    lines = "\n".join(
        [
            "***** Running training *****",
            "  Num examples = 9,000",
            "  Num Epochs = 3",
            "  Instantaneous batch size per device = 16",
            "  Total optimization steps = 1,689",
            "{'loss': 0.6931, 'grad_norm': 1.2, 'learning_rate': 4.5e-05, 'epoch': 0.5}",
            " 33%|███▎      | 500/1689 [01:23<02:46,  6.0it/s]",
            "{'eval_loss': 0.4, 'eval_accuracy': 0.9, 'eval_runtime': 1.2, 'epoch': 1.0}",
            "{'loss': '0.31', 'learning_rate': '3e-05', 'epoch': '2'}",
            "{'train_runtime': 123.4, 'train_samples_per_second': 72.1, 'train_loss': 0.55, 'epoch': 3.0}",
        ]
    )
    summary = add_events(Summary(), [Event(i, k, 1.0 * i, f) for i, (k, f) in enumerate(told(lines))])
    assert [summary.setting(n) for n in ("n_train", "epochs", "batch_size", "total_steps")] == [
        9000,
        3,
        16,
        1689,
    ]
    assert summary.progress is not None
    assert summary.progress[2] == [1, None, 1689, 500, 83.0, "run"]
    assert summary.epochs[1, 1]["valid_loss"][2] == 0.4
    assert summary.epochs[1, 2]["train_loss"][2] == 0.31
    assert read_log(lines).unrecognized == ()


def test_an_evaluation_of_hugging_face_changes_no_setting_and_no_position() -> None:
    lines = "\n".join(
        [
            " 33%|███▎      | 500/1689 [01:23<02:46,  6.0it/s]",
            "{'loss': 0.69, 'learning_rate': 4.5e-05, 'epoch': 0.5}",
            "***** Running Evaluation *****",
            "  Num examples = 1000",
            "  Batch size = 64",
            " 50%|█████     | 16/32 [00:01<00:01,  16.0it/s]",
        ]
    )
    reading = read_log(lines, final=True)
    assert [event.kind for event in reading.events] == ["batch", "batch"]
    assert reading.unrecognized == ()
    after = read_log("***** Running training *****\n  Num examples = 9,000\n", reading.context)
    assert [event.fields for event in after.events] == [{"n_train": 9000}]


def test_keras() -> None:
    lines = (
        "Epoch 3/30\n"
        "\x08\x08 500/1875 ━━━━━━━━━━━━━━━━━━━━ 3s 2ms/step - accuracy: 0.98 - loss: 0.06\r"
        "\x1b[1m1875/1875\x1b[0m \x1b[32m━━━━━━━━━━━━━━━━━━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m5s\x1b[0m 2ms/step"
        " - accuracy: 0.9812 - loss: 0.0512 - val_accuracy: 0.9720 - val_loss: 0.1012\n"
        "313/313 ━━━━━━━━━━━━━━━━━━━━ 1s 2ms/step - accuracy: 0.97 - loss: 0.09\n"
    )
    (epoch,) = [fields for kind, fields in told(lines) if kind == "epoch"]
    assert epoch == {
        "fold": 1,
        "epoch": 3,
        "train_loss": 0.0512,
        "valid_loss": 0.1012,
        "metric": 0.972,
        "metric_name": "val_accuracy",
        "seconds": 5.0,
    }
    old = "1875/1875 [==============================] - 5s 3ms/step - loss: 0.2912 - val_loss: 0.2"
    assert dict(told(old, Context(epoch=1))[0][1])["seconds"] == 5.0
    brief = "1875/1875 - 5s - loss: 0.1 - accuracy: 0.97 - 5s/epoch - 3ms/step"
    assert dict(told(brief, Context(epoch=1))[0][1])["metric"] == 0.97


TREES = [
    (
        "[100]\tvalid_0's binary_logloss: 0.123\tvalid_0's auc: 0.9",
        {"epoch": 100, "valid_loss": 0.123, "metric": 0.9},
    ),
    (
        "[100]\ttraining's rmse: 1.2\tvalid_1's rmse: 1.3",
        {"epoch": 100, "train_loss": 1.2, "valid_loss": 1.3},
    ),
    (
        "[10]\ttrain-logloss:0.45000\teval-logloss:0.46000",
        {"epoch": 10, "train_loss": 0.45, "valid_loss": 0.46},
    ),
    (
        "99:\tlearn: 0.5123\ttest: 0.5513\tbest: 0.54 (98)\ttotal: 1.2s\tremaining: 10.1s",
        {"epoch": 99, "train_loss": 0.5123, "valid_loss": 0.5513, "seconds": 0.012},
    ),
    ("0:\tlearn: 0.6\ttotal: 12.3ms\tremaining: 1.2s", {"epoch": 0, "train_loss": 0.6, "seconds": 0.0123}),
]


@pytest.mark.parametrize(("line", "fields"), TREES)
def test_boosting_rounds(line: str, fields: dict[str, Any]) -> None:
    found = one(line)
    assert {name: found.get(name) for name in fields} == pytest.approx(fields)


def test_lightgbm_says_how_many_rows_it_has() -> None:
    line = "[LightGBM] [Info] Number of data points in the train set: 9000, number of used features: 28"
    assert one(line) == {"n_train": 9000}


BARS = [
    (" 45%|████▌     | 45/100 [00:05<00:06,  8.20it/s]", Context(), {"step": 45, "of": 100, "scope": None}),
    (" 45%|████▌     | 45/100 [00:05<00:06,  8.20it/s]", Context(epoch=2), {"epoch": 2, "scope": "epoch"}),
    ("train:  45%|████▌     | 45/100 [1:00:05<00:06,  8.20s/it]", Context(), {"elapsed_seconds": 3605.0}),
    ("Epoch [1/5], Step [100/600], Loss: 0.4", Context(), {"step": 100, "of": 600, "epoch": 1, "epochs": 5}),
    (
        "Train: 0 [ 100/781 ( 13%)]  Loss: 6.9 (6.9)  Time: 0.500s,  256/s  (0.510s,  250/s)",
        Context(),
        {"epoch": 0, "step": 100, "of": 781, "elapsed_seconds": 51.0, "train_loss": 6.9},
    ),
]


@pytest.mark.parametrize(("line", "context", "fields"), BARS)
def test_positions(line: str, context: Context, fields: dict[str, Any]) -> None:
    ((kind, found),) = told(line, context)
    assert kind == "batch"
    assert {name: found.get(name) for name in fields} == fields


def test_a_bar_over_epochs_is_epochs() -> None:
    found = one("Epochs:  30%|███       | 3/10 [01:30<03:30, 30.0s/it]")
    assert (found["epoch"], found["epochs"], found["seconds"]) == (3, 10, 30.0)


def test_scores_under_an_epoch_of_their_own() -> None:
    lines = "Epoch 2/10\n----------\ntrain Loss: 0.5 Acc: 0.80\nval Loss: 0.4 Acc: 0.90\n"
    reading = read_log(lines)
    assert reading.unrecognized == ("----------",)
    fields: dict[str, Any] = {}
    for event in reading.events:
        fields.update(event.fields)
    assert (fields["epoch"], fields["epochs"]) == (2, 10)
    assert (fields["train_loss"], fields["valid_loss"], fields["metric"]) == (0.5, 0.4, 0.9)


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 39.39 GiB",
        "RuntimeError: CUDA error: out of memory",
        "ResourceExhaustedError: OOM when allocating tensor with shape[128,3,224,224]",
    ],
)
def test_running_out_of_memory_is_heard(line: str) -> None:
    assert one(line)["out_of_memory"] is True


def test_stamps_give_differences() -> None:
    lines = "2026-02-28 23:59:50,500 - INFO - Epoch 1/3 loss=1\n[2026-03-01T00:00:10.5Z] Epoch 2/3 loss=0.5\n"
    first, second = read_log(lines).events
    assert first.clock is not None
    assert second.clock is not None
    assert second.clock - first.clock == pytest.approx(20.0)
    assert first.fields["epoch"] == 1


def test_what_is_not_understood_is_kept_and_counted() -> None:
    reading = read_log("hello\n\nloading data...\nEpoch 1/3 loss=1\n")
    assert (reading.lines, reading.understood, reading.unrecognized) == (3, 1, ("hello", "loading data..."))


SAMPLE = (
    "\n".join(
        [line for line, _ in R27]
        + [line for line, _ in PLAIN]
        + [line for line, *_ in MEMORY]
        + [line for line, _ in TREES]
        + [line for line, *_ in BARS]
        + ["what is this"]
    )
    + "\n"
)


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(SAMPLE.encode())), max_size=12))
def test_pieces_may_end_anywhere(cuts: list[int]) -> None:
    """Also in the middle of a line; a character cut in two is only possible in a bar's picture."""
    text = "".join(c if ord(c) < 128 else "#" for c in SAMPLE)
    whole = read_log(text, final=True)
    events: list[ParsedEvent] = []
    kept: list[str] = []
    context = Context()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    for start, end in itertools.pairwise(edges):
        piece = read_log(text[start:end], context, final=end == len(text))
        events, kept, context = (
            [*events, *piece.events],
            [*kept, *piece.unrecognized],
            Context.from_dict(piece.context.as_dict()),
        )
        if end == len(text):
            break
    assert tuple(events) == whole.events
    assert tuple(kept) == whole.unrecognized


def test_every_event_of_a_log_may_be_sent_as_it_is() -> None:
    """What the reader makes is accepted by POST /runs/{id}/events, field by field."""
    body = [
        {"seq": i, "kind": kind, "at": "2026-01-31T12:00:00Z", **fields}
        for i, (kind, fields) in enumerate(told(SAMPLE))
    ]
    assert len(parse_events({"events": body})) == len(body)
    assert all(set(fields) <= set(EVENT_FIELDS[kind]) for kind, fields in told(SAMPLE))
