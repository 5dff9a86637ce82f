"""Does a plan that tunes a decoder have a script, which trains what its method says and keeps no more?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from memory_service.domain.common.optimizers import PAGED_ADAMW
from memory_service.services.planning.plan_script import plan_script
from memory_service.services.planning.script_choice import techniques_done
from memory_service.services.planning.script_kinds import HUB_NAMES
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop
from tests.scripts.test_resume import edited

LORA = "text-classification-lora"


def test_a_checkpoint_of_lora_holds_adapters_and_the_head_and_no_frozen_weight(workshop: Workshop) -> None:
    trial = workshop.trial(LORA, folds=1)
    ended = trial.train()
    assert ended.status == 0, ended.log
    kept = torch.load(trial.out / "fold_1.pt", weights_only=True)["model"]
    assert {"lora" in name or "score" in name for name in kept} == {True}, list(kept)
    assert "lora" in techniques_done(trial.plan)
    before = trial.cells()
    (trial.out / "answers_1.npz").unlink()
    assert trial.predict().status == 0
    assert trial.cells() == before, "the frozen weights are those that the adapters were made for"


def test_full_tuning_needs_no_peft(workshop: Workshop) -> None:
    trial = workshop.trial(LORA, method="full", learning_rate=3e-3)
    ended = trial.train(before="import sys; sys.modules['peft'] = None")
    assert ended.status == 0, ended.log
    assert gain(trial.data, trial.cells()) > 0, ended.log


BITSANDBYTES = """
import sys, types
import torch
class PagedAdamW8bit(torch.optim.AdamW):
    is_paged = True
class GlobalOptimManager:
    get_instance = classmethod(lambda own: own())
    def register_module_override(self, module, name, how):
        print("PAGED, but of an embedding", how, tuple(getattr(module, name).shape))
optim = types.SimpleNamespace(PagedAdamW8bit=PagedAdamW8bit, GlobalOptimManager=GlobalOptimManager)
sys.modules |= {"bitsandbytes": optim, "bitsandbytes.optim": optim}
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_paged_optimizer_is_that_of_bitsandbytes_on_a_card_alone(workshop: Workshop, there: bool) -> None:
    trial = workshop.trial(LORA, method="full", learning_rate=3e-3, optimizer=PAGED_ADAMW, folds=1)
    without = "import sys; sys.modules['bitsandbytes'] = None"
    edited(trial, 'plan.PAGED_OPTIMIZER and device == "cuda"', "plan.PAGED_OPTIMIZER")
    ended = trial.train(before=BITSANDBYTES if there else without)
    assert ended.status == (0 if there else 1), ended.log
    if there:
        assert "PAGED, but of an embedding {'optim_bits': 32}" in ended.log
        assert gain(trial.data, trial.cells()) > 0, ended.log
    else:
        assert "needs the package bitsandbytes" in ended.log.strip().splitlines()[-1]


def test_qlora_without_a_card_ends_with_one_sentence(workshop: Workshop) -> None:
    trial = workshop.trial(LORA, method="qlora")
    ended = trial.train()
    assert ended.status == 1, ended.log
    assert "needs a CUDA card and the package bitsandbytes" in ended.log.strip().splitlines()[-1]
    assert "Traceback" not in ended.log
    assert len({tuple(row) for row in trial.cells().values()}) == 1, "the baseline"


@pytest.mark.parametrize("method", ["full", "lora", "qlora"])
def test_the_settings_of_the_method_are_at_the_top(workshop: Workshop, method: str) -> None:
    plan = workshop.plan(LORA, method=method)
    text = plan_script(plan)
    assert (f"\nLORA_RANK = {plan['lora_rank']} " in text) == (method != "full")
    assert f'METHOD = "{method}"' in text
    assert "BitsAndBytesConfig" in plan_script(plan, single=True)


def test_every_text_model_has_a_repository_of_the_hub() -> None:
    lines = (Path(__file__).parents[2] / "seeds" / "models.jsonl").read_text().splitlines()
    of_texts = [
        model["name"]
        for model in map(json.loads, lines)
        if model["library"] == "transformers"
        and "text-classification" in model["tasks"]
        and model["pretrained"]
    ]
    assert len(of_texts) >= 80
    assert not set(of_texts) - set(HUB_NAMES)
