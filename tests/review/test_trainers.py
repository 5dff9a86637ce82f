"""Are trainers of all frameworks read as training, with their settings?"""

from __future__ import annotations

from typing import Any

import pytest

from memory_service.services.database.transactions import Database
from memory_service.services.review.review import review_script


def read(script: str) -> dict[str, Any]:
    return dict(review_script(None, {"script": script})["read"])


def rules(script: str) -> set[str]:
    return {found["rule"] for found in review_script(None, {"script": script})["findings"]}


YOLO = 'from ultralytics import YOLO\nnet = YOLO("yolov8s.pt")\nnet.train(data="a.yaml"{})\n'


def test_ultralytics_trains_with_its_defaults() -> None:
    assert read(YOLO.format("")) == {
        "framework": "ultralytics", "trains": True, "model": "yolov8s", "batch_size": 16, "image_size": 640,
        "precision": "fp16", "folds": 1, "epochs": 100,
    }  # fmt: skip
    assert rules(YOLO.format("")) == {"no-deadline"}


def test_ultralytics_settings_are_read_and_judged() -> None:
    script = YOLO.format(", imgsz=1024, batch=8, epochs=30, workers=0, amp=False, time=0.5")
    known = read(script)
    assert (known["batch_size"], known["image_size"], known["epochs"], known["precision"]) == (
        8,
        1024,
        30,
        "fp32",
    )
    assert rules(script) == {"loader-workers", "no-mixed-precision"}


TAPE = """import tensorflow as tf
from data import x, y
model, optimizer = tf.keras.Sequential(), tf.keras.optimizers.Adam(1e-3)
rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)
@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.keras.losses.mse(labels, model(images, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
for epoch in range(50):
    for images, labels in rows:
        train_step(images, labels)
model.save("model.keras")
"""


def test_a_loop_over_a_gradient_tape_trains() -> None:
    known = read(TAPE)
    assert known["trains"] is True
    assert (known["framework"], known["batch_size"], known["epochs"]) == ("tensorflow", 64, 50)
    assert rules(TAPE) == {"no-deadline", "no-early-stopping"}
    assert read(TAPE.replace("tape.gradient", "tape.jacobian"))["trains"] is False


def test_an_own_checkpoint_is_no_model_of_the_catalogue() -> None:
    assert "model" not in read(YOLO.format("").replace("yolov8s.pt", "runs/train/weights/best.pt"))


@pytest.mark.parametrize(
    ("script", "framework"),
    [
        ("from autogluon.tabular import TabularPredictor\nTabularPredictor('y').fit(t)", "autogluon"),
        ("from nnunetv2.run.run_training import run_training\nrun_training('1', '2d', 0)", "nnunet"),
        ("from mmengine.runner import Runner\nrunner = Runner.from_cfg(cfg)\nrunner.train()", "openmmlab"),
        ("from mmdet.apis import train_detector\ntrain_detector(model, data, cfg)", "openmmlab"),
        ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(Net)", "lightning"),
        ("from keras import Sequential\nm = Sequential()\nm.compile('adam', 'mse')\nm.fit(x, y)", "keras"),
        (
            "from trl import SFTConfig, SFTTrainer\nt = SFTTrainer(m, args=SFTConfig('o'))\nt.train()",
            "transformers",
        ),
        ("from sklearn.pipeline import make_pipeline\nmake_pipeline(a(), b()).fit(x, y)", "sklearn"),
    ],
)
def test_each_trainer_is_training(script: str, framework: str) -> None:
    known = read(script)
    assert (known["framework"], known["trains"]) == (framework, True)


def test_automl_without_a_limit_has_no_deadline() -> None:
    script = "from autogluon.tabular import TabularPredictor\nTabularPredictor('y').fit(t{})"
    assert "no-deadline" in rules(script.format(""))
    assert "no-deadline" not in rules(script.format(", time_limit=600"))


ONE_PASS = """import torch
torch.manual_seed(0)
net = torch.nn.Linear(4, 2).cuda()
opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(rows, batch_size=64, shuffle=True, num_workers=8)
{}
"""
STEP = "opt.zero_grad(); loss = net(x.cuda()).mean(); loss.backward(); opt.step()"


def test_one_pass_over_a_loader_is_training_of_one_epoch() -> None:
    script = ONE_PASS.format(f"for x in loader:\n    {STEP}")
    known = read(script)
    assert (known["trains"], known["epochs"], known["batch_size"]) == (True, 1, 64)
    assert {"no-deadline", "no-mixed-precision"} <= rules(script)
    assert "no-early-stopping" not in rules(script)


def test_an_engine_that_others_call_is_training() -> None:
    body = f"import torch\ndef one_epoch(net, opt, loader):\n    for x in loader:\n        {STEP}\n"
    assert read(body)["trains"] is True
    assert "no-deadline" not in rules(body)


def test_a_script_of_members_is_read_with_its_settings() -> None:
    script = (
        'from engine import train_members\nfrom runtime import main\nPLAN_ID = "p"\n'
        'TASK = "tabular-classification"\nMODEL = "lightgbm"\nFOLDS = 5\nSEEDS = 2\n'
        'SPLIT = "stratified"\nRESERVE_SHARE = 0.0\nmain(train_members)\n'
    )
    known = read(script)
    assert (known["framework"], known["trains"], known["model"], known["folds"]) == (
        "lightgbm", True, "lightgbm", 5,
    )  # fmt: skip
    assert "no-deadline" in rules(script)


ADAPTED = """from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B"{})
args = SFTConfig("out", per_device_train_batch_size={}, max_seq_length=2048, bf16=True,
                 gradient_checkpointing=True)
SFTTrainer(get_peft_model(model, LoraConfig(r=16)), args=args, train_dataset=rows).train()
"""


def test_adapters_are_sized_by_the_law_of_predict(seeded_sqlite: Database) -> None:
    def found(script: str, gpu: str) -> set[str]:
        answer = review_script(seeded_sqlite, {"script": script, "gpu": gpu})
        return {each["rule"] for each in answer["findings"]}

    quantised = ", quantization_config=BitsAndBytesConfig(load_in_4bit=True)"
    assert "batch-does-not-fit" in found(ADAPTED.format("", 16), "t4")
    assert "batch-does-not-fit" not in found(ADAPTED.format(quantised, 1), "a100-80gb")


def test_what_a_smaller_input_does_not_fit_the_script_does_not(seeded_sqlite: Database) -> None:
    script = YOLO.format(", imgsz=1312, batch=256").replace("yolov8s", "yolov8x")
    answer = review_script(seeded_sqlite, {"script": script, "gpu": "t4"})
    (found,) = (each for each in answer["findings"] if each["rule"] == "batch-does-not-fit")
    assert "yolov8x at 1312, which needs more" in found["message"]


def test_fastai_is_read_with_its_epochs_and_the_size_that_the_card_cuts() -> None:
    script = """from fastai.vision.all import *
cut = aug_transforms(size=224)
dls = ImageDataLoaders.from_folder("train", item_tfms=Resize(460), batch_tfms=cut, bs=128, num_workers=8)
learn = vision_learner(dls, resnet34, metrics=error_rate).to_fp16()
learn.fine_tune(4)
learn.tta(dl=dls.test_dl(get_image_files("test")))
"""
    answer = review_script(None, {"script": script, "cpu_count": 8})
    read = answer["read"]
    assert [read[name] for name in ("trains", "epochs", "image_size", "batch_size")] == [True, 4, 224, 128]
    assert [one for one in answer["findings"] if one["severity"] == "error"] == []
