"""Do trainings of other frameworks tell of themselves by one callback: epochs, times, scores and the end?"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from memory_service.client import Run, Verdict, watch
from memory_service.client.boosting import CatBoostCallback, lightgbm_callback, xgboost_callback
from tests.client.conftest import Scripted, Service

ROWS = 320


@pytest.fixture(autouse=True)
def foreign_warnings() -> Any:
    """What frameworks warn of each other is not ours; on a busy machine one thread is the fastest."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def epochs_of(service: Service, run_id: str) -> list[dict[str, Any]]:
    page = service.page(run_id)
    assert page["status"] == "completed"
    told: list[dict[str, Any]] = page["outcome"]["epochs"]
    # A run that did all it meant to do asks for nothing.
    assert (page["verdict"]["action"], page["verdict"]["set"]) == ("continue", {}), page["verdict"]
    assert page["watch"]["odd_values"] == 0
    return told


def table() -> TensorDataset:
    torch.manual_seed(0)
    rows = torch.randn(ROWS, 10)
    return TensorDataset(rows, (rows[:, 0] > 0).long())


def lightning_fit(callback: Any, epochs: int = 3) -> int:
    """Epochs that were trained."""
    import lightning

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(10, 2)

        def training_step(self, batch: Any, index: int) -> Any:
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("train_loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            guessed = self.net(batch[0])
            self.log("val_loss", nn.functional.cross_entropy(guessed, batch[1]))
            self.log("val_acc", (guessed.argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters(), 3e-2)

    quiet: dict[str, Any] = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    quiet |= {"enable_model_summary": False}
    trainer = lightning.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[callback], **quiet)
    trainer.fit(Net(), DataLoader(table(), batch_size=32), DataLoader(table(), batch_size=64))
    return int(trainer.current_epoch)


def test_lightning_tells_of_a_fit(service: Service, monkeypatch: pytest.MonkeyPatch):
    from memory_service.client.lightning import WatchCallback

    monkeypatch.setenv("MEMORY_SERVER", service.url)
    callback = WatchCallback(task="tabular", minutes=10)
    began = time.perf_counter()
    lightning_fit(callback)
    taken = time.perf_counter() - began
    assert callback.run is not None
    assert callback.run.problems == []
    page = service.page(callback.run.run_id)
    assert {name: page[name] for name in ("model", "batch_size", "epochs", "n_train", "precision")} == {
        "model": "custom/Net", "batch_size": 32, "epochs": 3, "n_train": ROWS, "precision": "fp32",
    }  # fmt: skip
    told = epochs_of(service, callback.run.run_id)
    assert [row["epoch"] for row in told] == [0, 1, 2]
    assert all(row["samples"] == ROWS and 0 < row["valid_seconds"] < row["seconds"] for row in told)
    assert sum(row["seconds"] for row in told) < taken
    assert all(0 <= row["loader_wait_percent"] <= 100 for row in told)
    assert told[-1]["valid_loss"] < told[0]["valid_loss"]
    assert told[-1]["metric"] > 0.8
    assert page["best_metric"] == pytest.approx(max(row["metric"] for row in told), abs=1e-6)
    assert page["notes"] == []
    steps = [event.get("steps", 0) for event in service.events(callback.run.run_id)]
    assert sum(steps) == 3 * ROWS // 32


def test_lightning_takes_the_direction_of_a_strange_score_from_who_watches_it():
    from lightning.pytorch.callbacks import EarlyStopping

    from memory_service.client.lightning import _monitored

    class Trainer:
        callbacks = (EarlyStopping("val_wonder", mode="max"), object())

    assert _monitored(Trainer(), "val_wonder") == "max"
    assert _monitored(Trainer(), "val_other") is None


def keras_fit(callback: Any, epochs: int = 3) -> int:
    """Epochs that were trained."""
    import keras

    keras.utils.set_random_seed(0)
    rows, answers = (part.numpy() for part in table().tensors)
    net = keras.Sequential([keras.layers.Input((10,)), keras.layers.Dense(2, activation="softmax")])
    loss = "sparse_categorical_crossentropy"
    net.compile(keras.optimizers.AdamW(3e-2), loss, metrics=["accuracy"])
    valid = (rows, answers)
    done = net.fit(
        rows, answers, batch_size=32, epochs=epochs, validation_data=valid, callbacks=[callback], verbose=0
    )
    return len(done.epoch)


def test_keras_tells_of_a_fit(service: Service, monkeypatch: pytest.MonkeyPatch):
    from memory_service.client.keras import WatchCallback

    monkeypatch.setenv("MEMORY_SERVER", service.url)
    callback = WatchCallback(task="tabular", minutes=10, batch_size=32, n_train=ROWS)
    began = time.perf_counter()
    keras_fit(callback)
    taken = time.perf_counter() - began
    assert callback.run is not None
    assert callback.run.problems == []
    page = service.page(callback.run.run_id)
    assert {name: page[name] for name in ("model", "batch_size", "epochs", "n_train", "precision")} == {
        "model": "custom/Sequential", "batch_size": 32, "epochs": 3, "n_train": ROWS, "precision": "fp32",
    }  # fmt: skip
    told = epochs_of(service, callback.run.run_id)
    assert [row["epoch"] for row in told] == [0, 1, 2]
    assert all(row["samples"] == ROWS and 0 < row["valid_seconds"] < row["seconds"] for row in told)
    assert sum(row["seconds"] for row in told) < taken
    assert all(0 <= row["loader_wait_percent"] <= 100 for row in told)
    assert told[-1]["valid_loss"] < told[0]["valid_loss"]
    assert told[-1]["train_loss"] < told[0]["train_loss"]
    assert page["best_metric"] == pytest.approx(max(row["metric"] for row in told), abs=1e-6)


def test_keras_counts_every_step_of_an_execution_of_several(scripted: Scripted):
    """As the other backends call it with steps_per_execution=4; torch's has but one."""
    from memory_service.client.keras import WatchCallback

    run = watch(task="tabular", model="custom", batch_size=32, server=scripted.url)
    callback = WatchCallback(run)
    callback.on_epoch_begin(0)
    for first, last in ((0, 3), (4, 7), (8, 9)):
        callback.on_train_batch_begin(first)
        callback.on_train_batch_end(last, {"loss": 0.5})
    callback.on_epoch_end(0, {"loss": 0.5, "val_loss": 0.6, "val_accuracy": 0.7})
    (told,) = rounds_of(run, scripted)
    assert (told["samples"], told["metric"], told["valid_loss"]) == (ROWS, 0.7, 0.6)
    assert (scripted.ends[0]["best_metric"], scripted.ends[0]["best_epoch"]) == (0.7, 0)


def test_keras_obeys_a_verdict_to_stop_where_it_was_asked_to(scripted: Scripted):
    from memory_service.client.keras import WatchCallback

    run = watch(task="tabular", model="custom", server=scripted.url)
    assert run._sender is not None
    scripted.answer = lambda path, body: (200, {}, {})
    run._sender.verdict = Verdict(action="stop_and_predict", known=True)
    for obey, epochs in ((False, 3), (True, 1)):
        assert keras_fit(WatchCallback(run, obey_stop=obey)) == epochs
        assert run.status == "running", "whoever made the run ends it"
    run.finish(flush_seconds=0.1)


def test_keras_trains_on_where_the_callback_fails():
    from memory_service.client.keras import WatchCallback

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

    callback = WatchCallback(task="tabular")
    callback.run = Broken()  # type: ignore[assignment]
    assert keras_fit(callback) == 3


def test_lightning_obeys_a_verdict_to_stop_where_it_was_asked_to(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
):
    from memory_service.client.lightning import WatchCallback

    monkeypatch.setenv("MEMORY_SERVER", scripted.url)
    run = watch(task="tabular", model="custom", server=scripted.url)
    assert run._sender is not None
    scripted.answer = lambda path, body: (200, {}, {})
    run._sender.verdict = Verdict(action="stop_and_predict", known=True)
    for obey, epochs in ((False, 3), (True, 1)):
        callback = WatchCallback(run, obey_stop=obey)
        assert lightning_fit(callback) == epochs
        assert run.status == "running", "whoever made the run ends it"
    run.finish(flush_seconds=0.1)


def test_lightning_tells_how_a_fit_failed(scripted: Scripted, monkeypatch: pytest.MonkeyPatch):
    from memory_service.client.lightning import WatchCallback

    class Failing(WatchCallback):
        def on_train_batch_end(self, *given: Any) -> None:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setenv("MEMORY_SERVER", scripted.url)
    with pytest.raises(RuntimeError, match="out of memory"):
        lightning_fit(Failing(task="tabular", plan_id="p1"))
    assert [end["status"] for end in scripted.ends] == ["out_of_memory"]
    (body,) = scripted.begun.values()
    assert "model" not in body, "the plan says it"
    assert body["batch_size"] == 32


def test_hugging_face_tells_of_a_training(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from transformers import AutoModelForSequenceClassification, BertConfig, Trainer, TrainingArguments

    from memory_service.client.huggingface import WatchCallback

    class Texts(Dataset[dict[str, Any]]):
        def __len__(self) -> int:
            return 160

        def __getitem__(self, index: int) -> dict[str, Any]:
            words = torch.full((8,), index % 50)
            return {"input_ids": words, "attention_mask": torch.ones(8).long(), "labels": index % 2}

    shape: dict[str, Any] = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    config: Any = BertConfig(vocab_size=50, **shape)
    config.num_labels = 2
    made: Any = AutoModelForSequenceClassification
    model = made.from_config(config)
    settings = TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=3, per_device_train_batch_size=8, eval_strategy="epoch",
        logging_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        gradient_accumulation_steps=2,
    )  # fmt: skip
    monkeypatch.setenv("MEMORY_SERVER", service.url)
    callback = WatchCallback(task="text", metric="accuracy")
    began = time.perf_counter()
    Trainer(
        model=model,
        args=settings,
        train_dataset=Texts(),
        eval_dataset=Texts(),
        callbacks=[callback],
        compute_metrics=accuracy,
    ).train()
    taken = time.perf_counter() - began
    assert callback.run is not None
    assert callback.run.problems == []
    page = service.page(callback.run.run_id)
    assert {name: page[name] for name in ("model", "batch_size", "epochs", "n_train")} == {
        "model": "custom/BertForSequenceClassification", "batch_size": 8, "epochs": 3, "n_train": 160,
    }  # fmt: skip
    told = epochs_of(service, callback.run.run_id)
    assert [row["epoch"] for row in told] == [0, 1, 2]
    assert all(row["samples"] == 160 and 0 < row["valid_seconds"] < row["seconds"] for row in told)
    assert sum(row["seconds"] for row in told) < taken
    assert all(row["metric"] >= 0.4 and row["valid_loss"] > 0 and row["train_loss"] > 0 for row in told)
    assert page["best_metric"] == pytest.approx(max(row["metric"] for row in told), abs=1e-6)


def accuracy(told: Any) -> dict[str, float]:
    return {"f1": 0.1, "accuracy": float(np.mean(told.predictions.argmax(-1) == told.label_ids))}


def rows() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    found = random.normal(size=(500, 5))
    return found, (found[:, 0] + 0.1 * random.normal(size=500) > 0).astype(int)


def test_lightgbm_tells_of_its_rounds(service: Service):
    import lightgbm

    features, labels = rows()
    train = lightgbm.Dataset(features[:400], labels[:400])
    valid = lightgbm.Dataset(features[400:], labels[400:], reference=train)
    settings = {"objective": "binary", "metric": ["auc", "binary_logloss"], "verbosity": -1, "num_threads": 1}
    with watch(task="tabular", model="lightgbm", server=service.url, n_train=500) as run:
        lightgbm.train(
            settings, train, 60, valid_sets=[valid],
            callbacks=[lightgbm_callback(run, fold=1, metric="auc"), lightgbm.early_stopping(50)],
        )  # fmt: skip
    told = epochs_of(service, run.run_id)
    assert (told[0]["epoch"], told[-1]["epoch"]) == (0, 59)
    assert told[-1]["metric"] > 0.9
    assert 0 < told[-1]["valid_loss"] < told[0]["valid_loss"]
    assert all(row["fold"] == 1 and row["seconds"] > 0 for row in told)
    assert service.page(run.run_id)["best_metric"] >= max(row["metric"] for row in told)


def rounds_of(run: Run, scripted: Scripted) -> list[dict[str, Any]]:
    run.finish()
    return [event for _, event in sorted(scripted.events.items()) if event["kind"] == "epoch"]


def test_xgboost_tells_of_its_rounds(scripted: Scripted):
    xgboost = pytest.importorskip("xgboost", reason="xgboost-cpu has wheels for Linux on x86-64")
    features, labels = rows()
    matrix = xgboost.DMatrix(features, labels)
    run = watch(task="tabular", model="xgboost", server=scripted.url)
    xgboost.train(
        {"objective": "binary:logistic", "nthread": 1}, matrix, 20, evals=[(matrix, "valid")],
        verbose_eval=False, callbacks=[xgboost_callback(run)],
    )  # fmt: skip
    told = rounds_of(run, scripted)
    assert (told[0]["epoch"], told[-1]["epoch"]) == (0, 19)
    assert 0 < told[-1]["valid_loss"] < told[0]["valid_loss"]
    (end,) = scripted.ends
    assert (end["best_metric"], end["best_epoch"]) == (pytest.approx(told[-1]["valid_loss"]), 19)


def test_catboost_tells_of_its_rounds(scripted: Scripted):
    catboost = pytest.importorskip("catboost", reason="catboost is not installed")
    features, labels = rows()
    run = watch(task="tabular", model="catboost", server=scripted.url)
    model = catboost.CatBoostClassifier(
        iterations=20, thread_count=1, verbose=False, allow_writing_files=False
    )
    model.fit(features, labels, eval_set=(features, labels), callbacks=[CatBoostCallback(run)])
    told = rounds_of(run, scripted)
    assert told[0]["epoch"] == 0
    assert 0 < told[0]["valid_loss"] < 1


def test_the_best_score_is_the_mean_of_the_best_of_each_fold(scripted: Scripted):
    run = watch(task="tabular", model="custom", server=scripted.url)
    for fold, scores in enumerate(((0.5, 0.9, 0.7), (0.6, 0.4, 0.7))):
        for epoch, score in enumerate(scores):
            run.score("val_accuracy", score, epoch, fold=fold)
    run.finish()
    assert scripted.ends == [
        {"status": "completed", "best_metric": pytest.approx(0.8), "at": scripted.ends[0]["at"]}
    ]


def test_a_score_of_which_nobody_knows_the_direction_is_no_best_one(scripted: Scripted):
    run = watch(task="tabular", model="custom", server=scripted.url)
    for epoch, score in enumerate((0.5, 0.9, float("nan"), 0.7)):
        run.score("wonder", score, epoch)
    run.score("rmse", "no number", 4)
    run.finish()
    assert "best_metric" not in scripted.ends[0]
    run = watch(task="tabular", model="custom", server=scripted.url)
    for epoch, score in enumerate((0.5, 0.9, float("nan"), 0.7)):
        run.score("wonder", score, epoch, direction="max")
    run.finish()
    assert (scripted.ends[1]["best_metric"], scripted.ends[1]["best_epoch"]) == (0.9, 1)


def test_what_the_script_says_is_best_goes_first(scripted: Scripted):
    run = watch(task="tabular", model="custom", server=scripted.url)
    run.score("accuracy", 0.9, 0)
    run.result(best_metric=0.8, best_epoch=7)
    run.finish()
    assert (scripted.ends[0]["best_metric"], scripted.ends[0]["best_epoch"]) == (0.8, 7)


def test_a_callback_that_fails_does_not_end_the_training(scripted: Scripted):
    class Strange:
        iteration = "first"
        end_iteration = None
        evaluation_result_list = ((1, 2),)

    run = watch(task="tabular", model="lightgbm", server=scripted.url)
    lightgbm_callback(run)(Strange())
    assert CatBoostCallback(run).after_iteration(Strange()) is True
    run.finish()
