"""Are the GPU and the time limit of a description read, and nothing where it states none?"""

from __future__ import annotations

import pytest

from memory_service.domain.description.resources import cores_in, resources_in

GPUS = {
    "t4": "t4", "l4": "l4", "p100": "p100", "a100": "a100", "v100": "v100", "rtx3090": "rtx3090",
    "3090": "rtx3090", "4090": "rtx4090", "3080": "rtx3080", "v100s": "v100s", "h100": "h100",
    "h10080gb": "h100", "gtx1080ti": "gtx1080ti", "1080ti": "gtx1080ti", "k80": "k80",
    "a10080gb": "a100-80gb", "a10": "a10",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("40k images on a T4 in half an hour", {"gpu": "t4", "minutes": 30}),
        ("CPU Notebook <= 9 hours run-time. GPU Notebook <= 9 hours run-time.", {"minutes": 540}),
        ("CPU Notebook ≤ 6 hours run-time; GPU Notebook ≤ 4 hours run-time", {"minutes": 240}),
        ("We have 2 x T4 GPUs and 90 minutes to train.", {"gpu": "2xt4", "minutes": 90}),
        ("Kaggle T4 x2, up to 12 hours", {"gpu": "2xt4", "minutes": 720}),
        ("I have a T4.", {"gpu": "t4"}),
        ("NVIDIA RTX 3090, 45 min budget", {"gpu": "rtx3090", "minutes": 45}),
        ("an A100-80GB for two hours", {"gpu": "a100-80gb", "minutes": 120}),
        ("training on a Tesla P100 for 30 min", {"gpu": "p100", "minutes": 30}),
        ("Cells in pictures, two hours on a T4", {"gpu": "t4", "minutes": 120}),
        ("One A100-80GB, 30 minutes", {"gpu": "a100-80gb", "minutes": 30}),
        ("Predict the next 24 hours on a T4.", {"gpu": "t4"}),
        # Numbers in words, and spans of two units.
        ("twenty-five minutes on a T4", {"gpu": "t4", "minutes": 25}),
        ("forty five minutes on a T4", {"gpu": "t4", "minutes": 45}),
        ("ninety-five minutes on an L4", {"gpu": "l4", "minutes": 95}),
        ("a hundred and twenty minutes on an L4", {"gpu": "l4", "minutes": 120}),
        ("3,5 hours on an A100", {"gpu": "a100", "minutes": 210}),
        ("RTX3090, 1h30", {"gpu": "rtx3090", "minutes": 90}),
        ("one and a half hours on a P100", {"gpu": "p100", "minutes": 90}),
        ("an hour and a half on a P100", {"gpu": "p100", "minutes": 90}),
        ("a quarter of an hour on a P100", {"gpu": "p100", "minutes": 15}),
        ("half a day on a P100", {"gpu": "p100", "minutes": 720}),
        ("1.5 days on a P100", {"gpu": "p100", "minutes": 2160}),
        ("on a T4 with 2 hours and 30 minutes", {"gpu": "t4", "minutes": 150}),
        ("one hour and fifteen minutes on a T4", {"gpu": "t4", "minutes": 75}),
        ("with an A100 and 2-3 hours", {"gpu": "a100", "minutes": 120}),
        ("5 to 6 hours on an A100", {"gpu": "a100", "minutes": 300}),
        ("GPU: T4. Time: 120 minutes", {"gpu": "t4", "minutes": 120}),
        ("GTX 1080 Ti 90 mins", {"gpu": "gtx1080ti", "minutes": 90}),
        ("Forecast 7 days of sales on a T4.", {"gpu": "t4"}),
        ("Five minutes of sound each, on a T4 for three hours", {"gpu": "t4", "minutes": 180}),
        # How many cards.
        ("two T4 GPUs, 2 hours", {"gpu": "2xt4", "minutes": 120}),
        ("3 A100 GPUs", {"gpu": "3xa100"}),
        ("four V100 GPUs", {"gpu": "4xv100"}),
        ("dual RTX 3090", {"gpu": "2xrtx3090"}),
        ("8 H100 80GB", {"gpu": "8xh100"}),
        ("two V100s, 2 hours", {"gpu": "2xv100", "minutes": 120}),
        ("a V100S for an hour", {"gpu": "v100s", "minutes": 60}),
        ("2 A100s", {"gpu": "2xa100"}),
        ("eight H100s", {"gpu": "8xh100"}),
        ("at most 12 h on 2xT4", {"gpu": "2xt4", "minutes": 720}),
        ("A laptop's RTX 3090 16GB, half an hour", {"gpu": "rtx3090", "vram_gib": 16, "minutes": 30}),
        # Names that need something beside them.
        ("Faces, RMSE. 20 minutes, one L4.", {"gpu": "l4", "minutes": 20}),
        ("Essays, 60 min T4", {"gpu": "t4", "minutes": 60}),
        ("Find one L4 vertebra, 3 hours T4 counts", {}),
        ("Dog breeds on T4 for 2 hours", {"gpu": "t4", "minutes": 120}),
        ("Dog breeds using T4, 90 min", {"gpu": "t4", "minutes": 90}),
        ("a T4 for thirty minutes", {"gpu": "t4", "minutes": 30}),
        ("T4 GPU for 3h", {"gpu": "t4", "minutes": 180}),
        ("Dog breeds on my 4090", {"gpu": "rtx4090"}),
        ("Dog breeds with a 3080 with 10GB", {"gpu": "rtx3080"}),
        ("Pictures with a 3080 x 2160 frame, a 4090 row table", {}),
        ("P100 or T4, 2 hours", {"minutes": 120}),
        # No card.
        ("Dog breeds, CPU only, one hour", {"gpu": "cpu", "minutes": 60}),
        ("Dog breeds without a GPU", {"gpu": "cpu"}),
        ("Dog breeds on a laptop, CPU", {"gpu": "cpu"}),
        ("Dog breeds on my CPU in 20 minutes", {"gpu": "cpu", "minutes": 20}),
        # Two that differ, and words that only look like it.
        ("Use an A100 or a V100.", {}),
        ("At most 2 hours. At most 3 hours.", {}),
        ("Grade L4/L5 stenosis of lumbar spines; T4 cells were counted.", {}),
        ("Predict demand for the next 24 hours from 48 hours of sensor data, 3090 rows each.", {}),
    ],
)
def test_resources(text: str, found: dict[str, object]):
    assert resources_in(text, GPUS) == found


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("Classify 5000 photos into 12 classes. Accuracy. 2 hours.", 120),
        ("Detect cars, 4000 images, mAP. 2 hours", 120),
        ("Churn of 10k rows, AUC, 1h30", 90),
        ("Images, mAP, 45 min.", 45),
        ("Recordings of 2 hours. AUC", None),
        ("Classify recordings of birds, 2 hours.", None),
        ("500 files: 10 minutes of audio. F1.", None),
        ("The fare of trips, 45 minutes.", None),
        ("Forecast the load, 24 hours.", None),
        ("What is sold in 7 days. Two days.", None),
    ],
)
def test_a_span_that_stands_alone_is_the_limit_unless_it_is_of_data(text: str, minutes: int | None) -> None:
    assert resources_in(text, GPUS).get("minutes") == minutes


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("The rerun has a wall-clock limit of 95 minutes on our node.", 95),
        ("Everything, fit included, must be over in 4 hours.", 240),
        ("The time limit of the grading server is 110 minutes.", 110),
        ("Jobs are killed after 8 hours.", 480),
        ("Classify orchids from 4,000 photos, accuracy, three hours at most.", 180),
        ("Total run time: max. 200 min", 200),
        ("Your training mustn't last longer than 55 minutes.", 55),
        ("The model has to train within 3 h.", 180),
        ("We can spare 7 hours on one GPU.", 420),
        ("Ideally the training remains under 65 minutes.", 65),
        ("Wall time of 70 minutes for training and scoring together", 70),
        ("Das Training darf maximal zweieinhalb Stunden laufen.", 150),
        ("Die Rechenzeit ist auf 45 Minuten begrenzt.", 45),
        ("Der Lauf darf nicht länger als 3 Stunden dauern.", 180),
        ("Le temps d'exécution ne doit pas dépasser 40 minutes.", 40),
        ("L'entraînement est limité à deux heures.", 120),
        ("Durée maximale d'entraînement : 90 minutes", 90),
        ("El entrenamiento puede durar como máximo 3 horas.", 180),
        ("Tiempo de ejecución: hasta 4 horas con GPU", 240),
        ("O treino deve terminar em no máximo 50 minutos.", 50),
        ("Tempo limite de execução: 6 horas", 360),
        ("Il training non deve superare i 25 minuti.", 25),
        ("Tempo massimo di esecuzione: due ore", 120),
        ("训练时间不超过90分钟。", 90),
        ("总运行时间须在3小时以内", 180),
        ("学習は2時間以内に終わらせてください。", 120),
        ("実行時間の上限は45分です。", 45),
        ("학습 시간은 최대 2시간입니다.", 120),
        ("추론 포함 실행 시간 50분 이내", 50),
        ("प्रशिक्षण 2 घंटे के भीतर पूरा होना चाहिए।", 120),
        ("अधिकतम 40 मिनट में मॉडल तैयार हो।", 40),
        ("Training plus inference may use 2 h 15 min.", 135),
        ("At most 30 minutes of training and at most 4 minutes for prediction.", 30),
        ("Training must finish within 5 h and inference within 20 min on a V100.", 300),
        ("GPU notebooks: 3 hours or less, CPU notebooks: 8 hours or less.", 180),
        ("A container with 4 vCPU; 2.5 hours limit.", 150),
        ("We have to be done with training in an hour and a half.", 90),
        ("You get 150 minutes from the start to the last prediction on an A100.", 150),
        ("session limit 3.5 hours", 210),
        ("The recordings are at most 20 minutes long.", None),
        ("Windows of up to 4 hours are cut from the signal.", None),
        ("Finalists give a talk of at most 10 minutes.", None),
        ("Presentations of no more than 15 minutes follow on Friday.", None),
        ("Predict whether the patient comes back within 48 hours.", None),
        ("At most 5 submissions per 24 hours.", None),
        ("Answers within 12 hours in the forum.", None),
        ("The bus was late by more than 30 minutes; predict it.", None),
        ("Each clip has a maximum of 3 minutes.", None),
        ("Did the runner finish within 4 hours? Tabular data.", None),
        ("The battery of each device lasts under 10 hours; 5,000 rows.", None),
        ("Die Aufnahmen sind höchstens 10 Minuten lang.", None),
        ("Les enregistrements durent au plus 30 minutes.", None),
        ("Cada grabación dura como máximo 5 minutos.", None),
        ("录音最长 10 分钟。", None),
        ("録音は最大で15分です。", None),
        ("녹음은 최대 20분입니다.", None),
        ("Final talks of 5 minutes each; the deadline is in 48 hours.", None),
        ("The race takes at most 6 hours. Predict the winner.", None),
        ("Train on 24 hours of audio.", None),
        ("The train must not be late by more than 10 minutes.", None),
        ("The wall dries in 8 hours.", None),
        ("Predictions are due within 30 minutes after sunset of the day.", None),
        ("Surgeries lasted under 3 hours; tell complications.", None),
        ("Forecast demand for the next 48 hours; the training set spans 3 years.", None),
    ],
)
def test_what_runs_has_a_limit_however_it_is_worded_and_other_spans_are_none(
    text: str, minutes: int | None
) -> None:
    assert resources_in(text, GPUS).get("minutes") == minutes


def test_a_limit_on_a_gpu_beside_one_on_a_processor_is_not_a_machine_without_a_card() -> None:
    assert resources_in("Time allowed: 3 hours on GPU, 9 hours on CPU.", GPUS) == {"minutes": 180}


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("no gpu, 16 cores, 2 hours", 16),
        ("4 minutes on two CPU cores", 2),
        ("We drilled 40 cores of ice.", None),
        ("A laptop with 8 cores or a server with 32 cores.", None),
    ],
)
def test_cores_are_those_of_a_machine(text: str, cores: int | None) -> None:
    assert cores_in(text) == cores


def test_a_processor_of_a_host_of_notebooks_is_no_card() -> None:
    assert resources_in("Price of boats from 9,000 rows, RMSE. kaggle CPU", GPUS) == {"gpu": "cpu"}
