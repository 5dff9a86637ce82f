"""Is the script of a plan one that a person would hand over: whole, readable, honest about its settings?"""

from __future__ import annotations

import ast
import contextlib
import copy
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from memory_service.domain.description.metric_resolution import ANSWERS, MEASURES, resolve_metric
from memory_service.domain.logs.parser import read_log
from memory_service.domain.planning.explanation.plan_text import plan_markdown
from memory_service.services.database.transactions import Database
from memory_service.services.planning.plan_script import (
    _module,
    blend_script,
    plan_files,
    plan_script,
    with_imports,
)
from memory_service.services.planning.recommend import recommend
from memory_service.services.planning.script_choice import NoScript, has_script
from memory_service.services.planning.script_kinds import SCRIPTED
from memory_service.services.planning.script_text import _statements
from memory_service.services.review.review import review_script
from memory_service.train import budget
from memory_service.train.budget import Plan

TABLES = ("tabular-classification", "tabular-regression")
TREES = ("lightgbm", "xgboost", "catboost")
NETWORKS = ("mlp", "tabular-resnet", "ft-transformer", "tabm", "realmlp")
SEED = int(os.environ.get("SEED", "0"))
SEEN = ("visual-question-answering", "image-captioning")
DETECTORS = ("fcos/resnet50", "retinanet/efficientnet_b3", "fasterrcnn/resnet101")
ASKED: tuple[dict[str, Any], ...] = (
    *({"task": task} for task in SCRIPTED if task not in SEEN),
    *({"task": task, "model": "qwen3-vl-2b", "minutes": 240} for task in SEEN),
    {"task": "text", "weights": "none"},
    *({"task": "text", "model": "qwen2.5-0.5b", "method": method} for method in ("full", "lora", "qlora")),
    {"task": "text-regression", "model": "gemma-2-9b", "method": "lora", "minutes": 500, "gpu": "h100"},
    *({"task": task, "model": name} for task in TABLES for name in (*TREES, *NETWORKS)),
    *({"task": task, "model": "linear"} for task in TABLES),
    *({"task": task, "model": "tfidf-linear"} for task in ("text-classification", "text-regression")),
    *({"task": "time-series-regression", "model": name} for name in TREES),
    *({"task": "object-detection", "model": name, "minutes": 240} for name in DETECTORS),
)


@pytest.fixture(scope="module")
def plans(seeded_sqlite: Database) -> Any:
    """A plan for each question of `ASKED`."""
    return [recommend(seeded_sqlite, {"size": "medium", "gpu": "a100"} | asked) for asked in ASKED]


@pytest.fixture(scope="module")
def scripts(plans: list[dict[str, Any]]) -> list[str]:
    """The script of each, as one file."""
    return [plan_script(plan, single=True) for plan in plans]


def image_plan(plans: list[dict[str, Any]]) -> dict[str, Any]:
    return copy.deepcopy(next(plan for plan in plans if plan["task"] == "image-classification"))


def test_every_script_is_laid_out_like_ours_and_has_no_unused_name(plans, scripts, tmp_path: Path):
    for number, text in enumerate(scripts):
        (tmp_path / f"script_{number}.py").write_text(text, encoding="utf-8")
        assert text.count("# === FILL IN") == 1
        libraries = "torch|lightgbm|xgboost|catboost|sklearn.linear_model"
        first = re.search(f"^(?:import|from) ({libraries})", text, re.MULTILINE)
        sleeping = text.find('setdefault("OMP_WAIT_POLICY"')
        if first is None:  # members import their libraries as they fit
            assert 0 < sleeping < text.index("import numpy")
            continue
        without = ("catboost", "sklearn.linear_model")
        assert 0 < sleeping < first.start() or first[1] in without, "OpenMP reads it as it is loaded"
    for number, plan in enumerate(plans):
        with contextlib.suppress(NoScript):
            (tmp_path / f"blend_{number}.py").write_text(blend_script(plan), encoding="utf-8")
    laid_out(tmp_path)


def test_the_review_sizes_every_script_by_its_plan_and_sees_a_batch_that_was_raised(
    plans, scripts, seeded_sqlite
):
    """Every eighth as one file with its plan, by turns, others as a folder's short file, which costs a
    twelfth, with what the question was. A batch is raised once for each task and library."""
    sized = set()
    for number, (plan, whole) in enumerate(zip(plans, scripts, strict=True)):
        named = plan["model"]["name"]
        asked = {"gpu": plan["gpu"]["slug"], "minutes": plan["minutes"], "n_train": 10_000, "cpu_count": 8}
        asked |= {"n_features": 20}
        members = "def train_members" in whole  # several ways to learn: the loss of each is not the plan's
        members = members or plan["task"] == "recommendation"
        text = plan_files(plan)["train.py"] if (number + SEED) % 8 or members else whole
        answer = review_script(seeded_sqlite, {"script": text} | ({"plan": plan} if text is whole else asked))
        unsized = answer["not_checked"]
        if plan["model"]["library"] == "sklearn" or members:  # no card, no batch; members end by the clock
            unsized = []
        assert (answer["findings"], unsized) == ([], []), named
        if re.search("^BATCH_SIZE", whole, re.MULTILINE):
            assert answer["read"]["optimizer"] == plan["optimizer"], named
        kind = plan["task"], plan["model"]["library"]
        batched = re.search("^BATCH_SIZE", whole, re.MULTILINE)
        if batched and not plan["task"].startswith("tabular") and kind not in sized:
            sized.add(kind)
            raised = re.sub(r"^BATCH_SIZE = \d+", "BATCH_SIZE = 500_000", text, flags=re.MULTILINE)
            found = review_script(seeded_sqlite, {**asked, "script": raised})["findings"]
            assert "batch-does-not-fit" in {one["rule"] for one in found}, named


def test_the_review_of_a_script_for_several_cards_says_that_it_cannot_size_it(plans, seeded_sqlite):
    text = plan_script(image_plan(plans)).replace("N_GPUS = 1", "N_GPUS = 2")
    answer = review_script(seeded_sqlite, {"script": text, "gpu": "2xt4", "minutes": 30, "n_train": 1000})
    assert any("several cards" in why for why in answer["not_checked"])


def test_no_decoder_is_tuned_without_weights_or_for_a_task_without_a_head(plans):
    plan = next(plan for plan in copy.deepcopy(plans) if plan.get("method") == "lora")
    with pytest.raises(NoScript, match="no script for seq2seq"):
        plan_script(plan | {"task": "seq2seq"})
    plan["model"]["pretrained"] = False
    with pytest.raises(NoScript, match="no public weights"):
        plan_script(plan)


def test_a_folder_holds_the_same_in_a_short_file_and_what_all_share(plans, tmp_path: Path):
    shared: dict[str, str] = {}
    for number, plan in enumerate(plans):
        files = plan_files(plan)
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        most = 300
        assert len(files["train.py"].splitlines()) <= most
        del files["train.py"]
        assert all(shared.setdefault(name, text) == text for name, text in files.items())
    laid_out(tmp_path)
    for text in shared.values():  # what they take from the plan is not theirs
        answer = review_script(None, {"script": text})
        assert (answer["findings"], answer["read"].get("precision")) == ([], None)


def test_a_script_says_in_one_place_what_it_may_lack_and_gives_reasons_instead_of_rules(scripts):
    """A stranger can look up neither who defines a name nor what R12 is. What is compared has a word."""
    for text in scripts:
        assert not re.findall(r"(?:has|get)attr\(plan\b.*", text)
        told = [line for line in text.splitlines() if re.search(r"\bR\d\d\b", line)]
        assert all("rule" in line or "of the time for predicting (R14)" in line for line in told), told


def test_a_script_and_a_plan_of_bands_name_them_and_the_files_that_hold_them(seeded_sqlite: Database) -> None:
    asked = {"task": "image-classification", "bands": 12, "gpu": "a100", "n_train": 3_000}
    plan = recommend(seeded_sqlite, asked)
    head = ast.get_docstring(ast.parse(plan_script(plan))) or ""
    assert "train/<id>.npy" in head
    assert ".jpg" not in head
    assert re.search(r"^Needs .*tifffile", head, re.MULTILINE)
    assert ", 12 bands, " in plan_markdown(plan)


def test_no_module_defines_what_a_script_names_itself() -> None:
    """In one file the script's own would hide it: `train` was a small network's loop, and what learns."""
    package = Path(plan_files.__code__.co_filename).parents[2]
    named = (package / "scripts" / "answers.py.txt").read_text(encoding="utf-8")
    own = {name for line in re.findall(r"^([a-z_, ]+) =", named, re.MULTILINE) for name in line.split(", ")}
    assert {"train", "file_members", "best_thresholds"} <= own
    for path in (package / "train").glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        defined = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert not own & defined or path.stem == "retrieval", path.name  # whose prior is its own


def test_no_module_names_a_constant_as_a_setting_is_named() -> None:
    """In one file it would be the setting: series' `BANDS` was the bands of pictures, and none was read."""
    settings = {name for name in vars(Plan) if name.isupper()}
    for path in Path(str(budget.__file__)).parent.glob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
        named = {each.id for one in targets for each in ast.walk(one) if isinstance(each, ast.Name)}
        assert named & settings <= {"RANK", "WORLD"}, path.name  # which this process has


def laid_out(folder: Path) -> None:
    """The scripts there are as ruff would have them; a folder's files import each other."""
    sources = json.dumps(sorted({str(path.parent.relative_to(folder)) for path in folder.rglob("*.py")}))
    ruff = (sys.executable, "-m", "ruff")
    told = ("--line-length", "110", "--target-version", "py311", "--no-cache", ".")
    for command in (
        ("check", "--isolated", "--config", f"src={sources}", "--select", "E,F,I,B,UP,SIM,C4,RET,PIE"),
        ("format", "--check", "--isolated"),
    ):
        done = subprocess.run([*ruff, *command, *told], capture_output=True, text=True, cwd=folder)
        assert done.returncode == 0, done.stdout[-2000:]


def constants_of(text: str) -> dict[str, Any]:
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            found[ast.unparse(node.targets[0])] = node.value.value
    return found


def test_the_constants_are_the_plans_settings(plans, scripts):
    for plan, text in zip(plans, scripts, strict=True):
        told = constants_of(text)
        names = {"PLAN_ID": "plan_id"} | ({"FOLDS": "folds"} if "EPOCHS" in told else {})
        if "EPOCHS" in told:
            names |= {"EPOCHS": "epochs", "LEARNING_RATE": "learning_rate"}
        if plan["optimizer"] == "adamw" and "BATCH_SIZE" in told:
            names |= {"BATCH_SIZE": "batch_size"}
        if plan["optimizer"] == "adamw" and "PRECISION" in told:
            names |= {"GRAD_ACCUMULATION": "grad_accumulation", "PRECISION": "precision"}
        assert {name: told[name] for name in names} == {name: plan[field] for name, field in names.items()}
        assert told["MODEL"] == plan["model"]["name"]


def test_what_a_plan_reserves_is_never_less_than_fifteen_percent_and_training_ends_by_then(plans):
    plan = image_plan(plans)
    text = plan_script(plan)
    assert "RESERVE_SHARE = 0.15 " in text
    plan["checks"]["reserve_percent"] = 25.0  # as a row of the strategies says
    assert "RESERVE_SHARE = 0.25 " in plan_script(plan)
    plan["expected"]["inference_minutes"]["high"] = 0.3 * plan["minutes"]
    plan["timetable"][-2]["start_minute"] = 0.9 * plan["minutes"]
    text = plan_script(plan)
    assert "RESERVE_SHARE = 0.3 " in text
    assert "TRAIN_SHARE = 0.7 " in text


def test_a_name_from_outside_cannot_become_code(plans):
    plan = image_plan(plans)
    evil = 'A100"""\nimport os; os.system("true")\n"""\\'
    plan["gpu"]["name"] = plan["model"]["name"] = plan["plan_id"] = evil
    tree = ast.parse(plan_script(plan))
    assert constants_of(plan_script(plan))["GPU"] == evil
    calls = [node for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)]
    assert [ast.unparse(call) for call in calls] == ["os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')"]
    assert isinstance(tree.body[0], ast.Expr)
    assert isinstance(tree.body[1], ast.Import | ast.ImportFrom)


def judged(plan: dict[str, Any], said: str) -> dict[str, Any]:
    return {**plan, "metric": resolve_metric(said, "as asked", plan["task"]).as_dict()}


def test_where_nobody_says_a_metric_classes_are_judged_by_their_probabilities(plans):
    """They may be what is submitted: the epoch of the best accuracy may be far too sure of them."""
    of_classes = [
        each for each in plans if each["task"] in ("image-classification", "tabular-classification")
    ]
    assert {plan["model"]["library"] for plan in of_classes} >= {"timm", "lightgbm"}
    for plan in of_classes:
        for text in (
            plan_script({**plan, "metric": None}, single=True),
            blend_script({**plan, "metric": None}),
        ):
            assert 'METRIC, HIGHER_IS_BETTER = "log loss", False' in text
            assert "def wants_probabilities" in text, "the likeliest class where the sample shows classes"


@pytest.mark.parametrize(
    ("said", "word"), [("mean column-wise ROC AUC", "AUC"), ("quadratic weighted kappa", "Kappa")]
)
def test_the_score_is_the_plans_metric_where_the_script_can_compute_it(plans, said: str, word: str):
    assert f'METRIC_LABEL = "{word}"' in plan_script(judged(image_plan(plans), said))


@pytest.mark.parametrize("said", ["BLEU", "weighted ROC AUC", "0.5 ROC AUC + 0.5 F1", "my own score"])
def test_no_other_score_goes_under_the_name_of_a_metric_that_a_script_cannot_compute(plans, said: str):
    text = plan_script(judged(image_plan(plans), said), single=True)
    assert "# Judged by " in text
    assert 'METRIC, HIGHER_IS_BETTER = "validation loss", False' in text
    assert loaded(text).metric_of(0.5) == {}


def test_a_review_holds_the_loss_of_every_metrics_script_against_the_plans_metric(plans, tmp_path: Path):
    networks = ("image-classification", "image-regression")
    first = {ANSWERS[plan["task"]]: plan for plan in reversed(plans) if plan["task"] in networks}
    trees = {ANSWERS[plan["task"]]: plan for plan in plans if plan["model"]["name"] == "lightgbm"}
    for measure in {(m.answer, m.form): m for m in MEASURES if m.answer in first}.values():
        for plan in (first[measure.answer], trees[measure.answer]):
            told = judged(plan, re.sub("(@|top )k", r"\g<1>5", measure.name))
            assert told["metric"]["in_script"]
            folder = tmp_path / f"{plan['model']['name']}_{measure.function}"
            folder.mkdir(exist_ok=True)
            for name, text in plan_files(told).items():
                (folder / name).write_text(text, encoding="utf-8")
            short = (folder / "train.py").read_text(encoding="utf-8")
            answer = review_script(None, {"script": short, "cpu_count": 8, "plan": told})
            assert answer["findings"] == [], (plan["model"]["name"], measure.name)
    laid_out(tmp_path)
    told = judged(first["labels"], "ROC AUC")
    wrong = plan_files(judged(first["values"], "RMSE"))["train.py"]
    found = review_script(None, {"script": wrong, "plan": {"metric": told["metric"]}})["findings"]
    assert [each["rule"] for each in found if "ROC AUC" in each["message"]] == ["wrong-loss"]


def test_no_script_says_for_what_there_is_one(plans):
    plan = image_plan(plans)
    with pytest.raises(NoScript, match=r"no script for translation; .*audio-classification"):
        plan_script({**plan, "task": "translation"})
    boxes = next(plan for plan in plans if plan["task"] == "object-detection")
    with pytest.raises(NoScript, match=r"maskrcnn/resnet50 \(torchvision\); .* fcos, retinanet, fasterrcnn"):
        plan_script(
            {**boxes, "model": boxes["model"] | {"name": "maskrcnn/resnet50", "library": "torchvision"}}
        )
    with pytest.raises(NoScript, match=r"no script for small-cnn \(torch\); .* timm"):
        plan_script({**plan, "model": {**plan["model"], "name": "small-cnn", "library": "torch"}})
    with pytest.raises(NoScript, match="Nothing fits"):
        plan_script({"feasible": False, "why": "No."})


def test_a_kind_without_a_script_says_so_in_the_plan(seeded_sqlite):
    for task in ("question-answering", "translation"):
        answer = recommend(seeded_sqlite, {"task": task, "size": "small", "gpu": "a100"})
        assert [w for w in answer["warnings"] if w["code"] == "no-script"], task
    hears, finds = ("speech-recognition", "image-keypoints"), ("recommendation", "multimodal")
    for task in ("time-series-classification", "video-classification", *hears, *finds):
        answer = recommend(seeded_sqlite, {"task": task, "size": "small", "gpu": "a100"})
        assert not [w for w in answer["warnings"] if w["code"] == "no-script"], task
        assert len(plan_script(answer).splitlines()) <= 350


def test_a_script_of_signals_says_that_it_does_not_train_the_planned_network(seeded_sqlite):
    answer = recommend(
        seeded_sqlite, {"task": "time-series-classification", "model": "inceptiontime", "gpu": "a100"}
    )
    (said,) = [each["text"] for each in answer["warnings"] if each["code"] == "script-uses-all"]
    assert "in whose place the script fits others" in said
    assert plan_script(answer).startswith(
        '"""Trains trees and linear models on features of signals, in place of inceptiontime'
    )


def test_speech_has_a_script_by_public_weights_and_says_for_which(seeded_sqlite):
    asked = {"task": "speech-recognition", "size": "small", "gpu": "a100", "minutes": 120}
    for model, told in (("whisper-small", "openai/whisper-small"), ("wavlm-large", "microsoft/wavlm-large")):
        text = plan_script(recommend(seeded_sqlite, asked | {"model": model}))
        assert f'HUB_NAME = "{told}"' in text
        assert ('LANGUAGE = "en"' in text) == (model == "whisper-small")
        assert 'METRIC, HIGHER_IS_BETTER = "word error rate", False' in text
    for other in ({"model": "qwen3-asr-0.6b"}, {"weights": "none"}, {"method": "lora"}):
        with pytest.raises(NoScript, match="no Whisper or CTC with public weights"):
            plan_script(recommend(seeded_sqlite, asked | other))
    with pytest.raises(NoScript, match="no blend for speech-recognition"):
        blend_script(recommend(seeded_sqlite, asked))


def test_pictures_with_texts_have_a_script_by_adapters_and_say_of_which(seeded_sqlite):
    asked = {"task": "visual-question-answering", "size": "small", "gpu": "a100", "minutes": 240}
    text = plan_script(recommend(seeded_sqlite, asked | {"model": "internvl3-2b"}))
    assert 'HUB_NAME = "OpenGVLab/InternVL3-2B-hf"' in text
    assert 'METRIC, HIGHER_IS_BETTER = "exact match", True' in text
    assert 'METHOD = "lora"' in text
    captions = asked | {"task": "image-captioning", "model": "qwen3-vl-2b", "metric": "BLEU"}
    assert "Judged by BLEU, which this script does not compute." in plan_script(
        recommend(seeded_sqlite, captions)
    )
    led = recommend(seeded_sqlite, asked | {"task": "image-captioning"})  # not a decoder trained from nothing
    assert led["model"]["library"] == "transformers"
    assert has_script(led)
    with pytest.raises(NoScript, match="mixture of experts"):
        plan_script(recommend(seeded_sqlite, asked | {"model": "qwen3-vl-30b-a3b", "gpu": "h100"}))


def loaded(text: str) -> ModuleType:
    module = ModuleType("generated_train")
    sys.modules["generated_train"] = module
    exec(compile(text, "train.py", "exec"), module.__dict__)
    vars(module)["START"] = time.monotonic()  # this process began long before
    vars(module)["begin"](module)
    return module


def test_its_log_lines_are_understood_with_their_memory(plans, monkeypatch, capsys):
    import torch

    script: Any = loaded(plan_script(judged(image_plan(plans), "accuracy"), single=True))
    gib = 2**30
    card = SimpleNamespace(total_memory=24 * gib)
    monkeypatch.setattr(script, "device", "cuda")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA A10")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: card)
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 18.1 * gib)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 16.4 * gib)
    script.print_devices()
    print("=== Fold 2/3 ===")
    print(f"First batch: {script.gpu_peak()}")
    script.print_epoch(3, 8, 0.542, 0.611, 0.801, 12.5, 0)
    print("Early stopping at epoch 3")
    reading = read_log(capsys.readouterr().out, final=True)
    told: list[tuple[str, dict[str, Any]]] = [(event.kind, dict(event.fields)) for event in reading.events]
    assert reading.unrecognized == ()
    assert told[0][1] | told[2][1] | {"gpu_name": "NVIDIA A10", "cpu_count": 1} == {
        "cpu_count": 1,
        "batch_size": script.BATCH_SIZE,
        "gpu_name": "NVIDIA A10",
        "num_workers": script.state.num_workers,
        "prefetch_factor": script.PREFETCH_FACTOR,
        "persistent_workers": True,
    }
    assert told[1] == ("note", {"total_gib": 24.0})
    assert told[3] == ("fold", {"fold": 2, "folds": 3})
    assert (told[4][0], told[4][1]["peak_allocated_gib"]) == ("gpu", 16.4)
    kind, epoch = told[5]
    assert kind == "epoch"
    expected = {
        "fold": 2,
        "epoch": 3,
        "train_loss": 0.542,
        "valid_loss": 0.611,
        "metric": 0.801,
        "seconds": 12.5,
    }
    assert {name: epoch[name] for name in expected} == expected
    assert (epoch["memory_gib"], epoch["peak_allocated_gib"]) == (18.1, 16.4)
    assert epoch["total_gib"] == pytest.approx(24.0, abs=0.05)
    assert told[6] == ("fold", {"fold": 2, "done": True})
    assert json.dumps(told)


def test_memory_that_runs_out_changes_the_settings_and_advice_that_saves_the_deadline_is_obeyed(
    plans, capsys
):
    from memory_service.client.verdict import Verdict

    plan = image_plan(plans) | {"batch_size": 48, "grad_accumulation": 2, "folds": 3, "epochs": 8}
    script: Any = loaded(plan_script(plan, single=True))
    state = script.state
    state.num_workers = 4
    script.recover(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), None)
    assert (state.batch_size, state.accumulation) == (24, 4)
    script.recover(RuntimeError("DataLoader worker (pid 7) is killed by signal: Bus error."), None)
    assert state.num_workers == 0
    with pytest.raises(RuntimeError, match="shapes"):
        script.recover(RuntimeError("shapes do not match"), None)
    for action, settings in (
        ("reduce_folds", {"folds": 2}),
        ("reduce_epochs", {"epochs": 5}),
        ("raise_batch", {"batch_size": 96}),
        ("lower_batch", {"batch_size": 12}),
    ):
        state.follow(Verdict(action=action, set=settings, known=True))
    assert (state.epochs, state.batch_size, state.accumulation) == (8, 12, 8)

    def stop(rule: str, at: float) -> Verdict:
        return Verdict(action="stop_and_predict", rule=rule, known=True, raw={"at_seconds": at})

    for verdict in (stop("R16", 1), stop("R16", 2), stop("R16", 3), Verdict(known=True)):
        state.follow(verdict)
    for at in (4, 4, 4, 5, 5):  # an answer that comes again says nothing new
        state.follow(stop("R14", at))
    assert state.seconds_left() > 0
    state.follow(stop("R14", 6))
    assert state.seconds_left() == 0
    assert capsys.readouterr().out.count("VERDICT: ") == 6


@pytest.mark.parametrize(
    "roots",
    [
        ("inputs", "box_torchvision", "detection", "box_loop"),
        ("inputs", "box_ultralytics", "detection", "box_loop"),
        ("inputs", "unet", "mask_loop"),
        ("inputs", "smp_network", "mask_loop"),
        ("inputs", "image_network", "retrieval", "network_step"),
        ("inputs", "image_network", "class_loss", "network_step"),
        ("inputs", "sound_network", "value_loss", "network_step"),
        ("inputs", "text_network", "word_pieces", "class_loss", "network_step"),
        ("inputs", "text_network", "text_batches", "class_loss", "network_step"),
        ("inputs", "decoder_network", "text_batches", "value_loss", "network_step"),
        ("points", "image_network", "keypoint_network"),
        ("inputs", "transcripts", "speech_network"),
        ("inputs", "transcripts", "vision_language_network"),
        ("columns", "engine", "inputs", "pictures", "sounds"),
        ("masks", "inputs"),
    ],
)
def test_modules_that_become_one_file_give_no_name_two_meanings(roots: tuple[str, ...]):
    meant: dict[str, str] = {}
    for module in with_imports(["answers", "runtime", *roots]):
        for statement in _statements(_module(module))[1]:
            for name in statement.defined:
                assert meant.setdefault(name, statement.text.strip()) == statement.text.strip(), name
