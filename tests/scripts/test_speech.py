"""Does a script of speech say what it lacks, take a vocabulary of its own, and keep clips in memory?"""

from __future__ import annotations

import shutil

import torch

from tests.scripts.harness.kinds import TINY_EAR
from tests.scripts.harness.submission import gain
from tests.scripts.harness.workshop import Workshop

SPEECH = "speech-recognition"


def test_without_weights_the_baseline_is_there_and_one_sentence(workshop: Workshop) -> None:
    trial = workshop.short_trial(
        SPEECH, own={"WEIGHTS": str(workshop.folder / "none"), "HF_HUB_OFFLINE": "1"}
    )
    ended = trial.train()
    assert ended.status == 1, ended.log
    assert "cannot be loaded" in ended.log.strip().splitlines()[-1]
    assert {row[0] for row in trial.cells().values()} <= {"", *" ".join(trial.data.seen).split()}


def test_long_clips_are_heard_in_parts_and_a_model_spells_as_it_learned_to(workshop: Workshop) -> None:
    """The vocabulary of a model that was trained by CTC is kept, with its head."""
    import transformers

    ear = workshop.models / "ear-with-letters"
    if not ear.exists():
        shutil.copytree(workshop.models / TINY_EAR, ear)
        letters = ["<pad>", "|", "<unk>", *"abcd"]
        (ear / "vocab.json").write_text(str({n: k for k, n in enumerate(letters)}).replace("'", '"'))
        tokenizer = transformers.Wav2Vec2CTCTokenizer(
            str(ear / "vocab.json"), unk_token="<unk>", pad_token="<pad>", bos_token=None, eos_token=None
        )
        tokenizer.save_pretrained(ear)
        config = transformers.AutoConfig.from_pretrained(ear)
        config.update({"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id})
        transformers.Wav2Vec2BertForCTC(config).save_pretrained(ear)
    model = workshop.plan(SPEECH)["model"] | {"name": str(ear), "seq_len": 64}
    trial = workshop.trial(SPEECH, model=model, folds=1, epochs=8)
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "clips are longer than" in ended.log
    assert torch.load(trial.out / "fold_1.pt", weights_only=True)["own"]
    assert gain(trial.data, trial.cells()) > 0, ended.log


def test_a_fold_that_is_done_is_kept_and_its_texts_are_predicted_from_what_it_left(
    workshop: Workshop,
) -> None:
    trial = workshop.short_trial(SPEECH)
    killed = trial.train(kill_when=(trial.out / "answers_1.npz").exists)
    assert killed.status != 0, killed.log
    ended = trial.train()
    assert ended.status == 0, ended.log
    assert "Fold 1 is done already" in ended.log
    assert (trial.out / "oof.csv").exists()
    trial.cells()
