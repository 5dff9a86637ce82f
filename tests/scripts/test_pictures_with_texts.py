"""Does a script of pictures and texts tune the language model alone?"""

from __future__ import annotations

import torch

from tests.scripts.harness.workshop import Workshop


def test_only_adapters_of_the_language_model_are_trained(workshop: Workshop) -> None:
    trial = workshop.short_trial("visual-question-answering")
    ended = trial.train()
    assert ended.status == 0, ended.log
    trained = torch.load(trial.out / "fold_1.pt", weights_only=True)["model"]
    assert trained
    assert all("language_model" in name and "lora_" in name for name in trained), [*trained][:5]
    trial.cells()
