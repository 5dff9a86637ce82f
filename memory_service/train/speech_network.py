"""Networks of transformers that hear: encoders that spell by CTC, and Whisper's kin, that write."""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoModelForCTC,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
    GenerationConfig,
)

from memory_service.train.budget import plan
from memory_service.train.hub_models import from_hub, source
from memory_service.train.media_files import read_sound, sound_seconds
from memory_service.train.reading import Data
from memory_service.train.torch_loop import AlikeLengths, Samples, autocast, device, to_device
from memory_service.train.transcripts import as_codes

HEARD_RATE = 16_000  # samples a second, of all these models
LEAST_SECONDS, MOST_SECONDS = 0.5, 3600  # of a clip: a shorter one is filled up with silence
UNKNOWN_SHARE = 0.01  # of the tokens of transcripts, at most, that the model's own vocabulary may lack


@cache
def heard_model() -> Any:
    """Its configuration."""
    return from_hub(AutoConfig)


@cache
def feature_extractor() -> Any:
    return from_hub(AutoFeatureExtractor)


@cache
def own_tokenizer() -> Any:
    """The model's; None of an encoder that was trained without transcripts."""
    config, how = heard_model(), dict[str, Any]()
    if config.is_encoder_decoder and is_multilingual():
        how = {"language": plan.LANGUAGE, "task": "transcribe"}
    elif not config.is_encoder_decoder and not any("CTC" in name for name in config.architectures or ()):
        return None
    return from_hub(AutoTokenizer, **how)


@cache
def is_multilingual() -> bool:
    return bool(getattr(GenerationConfig.from_pretrained(source()), "is_multilingual", False))


def knows(texts: list[str]) -> bool:
    """Whether the model has a vocabulary that spells these."""
    if own_tokenizer() is None or heard_model().is_encoder_decoder:
        return own_tokenizer() is not None
    numbers = [number for text in own_tokenizer()(texts)["input_ids"] for number in text]
    return numbers.count(own_tokenizer().unk_token_id) <= UNKNOWN_SHARE * len(numbers)


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[list, dict]:
    """(of each row the numbers that the model spells, then those of no text; what a checkpoint keeps)."""
    texts, config = [*data.targets, ""], heard_model()
    if own := knows(texts[:1000]):
        labels = own_tokenizer()(texts)["input_ids"]
    else:
        numbers = {each: number for number, each in enumerate(data.outputs)}
        labels = [[numbers[each] for each in text] for text in texts]
    if config.is_encoder_decoder:  # it puts the start before them itself
        begins, most = config.decoder_start_token_id, config.max_target_positions
        labels = [(text[1:] if text[0] == begins else text)[:most] for text in labels]
    seconds = [sound_seconds(data.inputs[row]) for row in train_rows]
    longest = max(plan.SEQ_LEN / 100, float(np.quantile(seconds, 0.9)))
    if config.is_encoder_decoder:
        longest = min(longest, float(feature_extractor().chunk_length))
    kept = {"prior": plan.prior_of(data.targets[train_rows], 0).tolist(), "own": own, "seconds": longest}
    return labels, kept | {"tokens": max(map(len, labels))}


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    """Its public weights, whatever `pretrained` says; of CTC with a new head, where the texts have characters
    that the model's own has not."""
    how: dict[str, Any] = {}
    kind: Any = AutoModelForSpeechSeq2Seq if heard_model().is_encoder_decoder else AutoModelForCTC
    if kind is AutoModelForCTC:
        how = {"ctc_loss_reduction": "mean", "ctc_zero_infinity": True, "ignore_mismatched_sizes": True}
        if not checkpoint["own"]:
            how |= {"vocab_size": len(checkpoint["outputs"]), "pad_token_id": 0}
    network = from_hub(kind, **how)
    if hasattr(network, "freeze_feature_encoder"):  # its convolutions, as they were published to be tuned
        network.freeze_feature_encoder()
    if plan.GRADIENT_CHECKPOINTING:
        network.gradient_checkpointing_enable()
    return network.float().to(device)


class Clips(Samples):
    """Waves of the rows; one that is too long at once is in several parts. Part is train, valid or test: in
    training without clips that are longer than is usual, else the longest first."""

    def __init__(self, part: str, data: Data, rows, checkpoint: dict) -> None:
        paths, most = data.test_inputs if part == "test" else data.inputs, checkpoint["seconds"]
        lengths = np.array([sound_seconds(paths[row]) for row in rows])
        kept = np.flatnonzero(lengths <= most) if part == "train" else np.argsort(-lengths, kind="stable")
        if len(kept) < len(rows):
            told = f"{len(rows) - len(kept)} of {len(rows)} clips are longer than {most:.1f} s"
            print(f"NOTE: {told}: not trained with", flush=True)
        super().__init__(paths, np.asarray(rows)[kept])
        self.lengths, self.most = lengths[kept], most

    def sample(self, row: int) -> list[np.ndarray]:
        wave = plan.read_sound(self.paths[row], MOST_SECONDS, 0.0, HEARD_RATE)
        if len(wave) == 0 or not np.isfinite(wave).all():
            raise ValueError("there are no samples, or some that are no numbers")
        wave = np.pad(wave, (0, max(0, int(LEAST_SECONDS * HEARD_RATE) - len(wave))))
        return np.array_split(wave, -(-len(wave) // int(self.most * HEARD_RATE + 1)))

    def unreadable(self) -> list[np.ndarray]:
        return [np.zeros(HEARD_RATE, np.float32)]


def collate(samples: list) -> tuple[dict, torch.Tensor, torch.Tensor]:
    """A batch as wide as its longest clip; `clip` is the place of that which each part is of, `share` how
    much of the width it has."""
    clips, rows, readable = zip(*samples, strict=True)
    waves = [wave for parts in clips for wave in parts]
    how: dict[str, Any] = {} if heard_model().is_encoder_decoder else {"padding": True}
    features = feature_extractor()(waves, sampling_rate=HEARD_RATE, return_tensors="pt", **how)
    lengths = torch.tensor([len(wave) for wave in waves])
    inputs = {**features, "share": lengths / lengths.max()}
    inputs["clip"] = torch.tensor([place for place, parts in enumerate(clips) for _ in parts])
    return inputs, torch.tensor(rows), torch.tensor(readable)


def heard(inputs: dict) -> dict:
    """What the model takes of a batch."""
    return to_device({name: each for name, each in inputs.items() if name not in ("share", "clip")})


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """The loss of a training batch; what cannot be read is silence without a text."""
    known = zip(rows.tolist(), readable.tolist(), strict=True)
    labels = [torch.tensor(targets[row if good else -1]) for row, good in known]
    filled = nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=-100).long()
    with autocast():
        return model(**heard(inputs), labels=filled.to(device)).loss.float()


@torch.no_grad()
def predict_batch(model, inputs, data: Data, checkpoint: dict, views: int) -> torch.Tensor:
    """Code points of the likeliest texts, (1, clips, CHARACTERS), each number of them by itself."""
    if heard_model().is_encoder_decoder:
        left = model.config.max_target_positions - 8
        how: dict[str, Any] = {"max_new_tokens": min(checkpoint["tokens"] + 8, left), "num_beams": 1}
        if is_multilingual():
            how |= {"language": plan.LANGUAGE, "task": "transcribe"}
        numbers = model.generate(heard(inputs)["input_features"], **how)
    else:
        numbers = model(**heard(inputs)).logits.argmax(dim=-1).cpu()
        ends = (inputs["share"] * numbers.shape[1]).ceil()
        numbers[torch.arange(numbers.shape[1]) >= ends[:, None]] = model.config.pad_token_id
    if checkpoint["own"]:
        texts = own_tokenizer().batch_decode(numbers, skip_special_tokens=True)
    else:
        texts = [spelled(each, checkpoint["outputs"]) for each in numbers.tolist()]
    clips: list[list[str]] = [[] for _ in range(int(inputs["clip"].max()) + 1)]
    for place, text in zip(inputs["clip"].tolist(), texts, strict=True):
        clips[place] += text.split()
    return torch.from_numpy(as_codes([" ".join(words) for words in clips]))[None]


def spelled(numbers: list[int], characters: list[str]) -> str:
    """As CTC has it: a number that comes again at once is the same, and 0 is a blank."""
    pairs = zip([0, *numbers], numbers, strict=False)
    return "".join(characters[number] for before, number in pairs if number != before)


make_dataset = Clips
plan.build_model, plan.make_dataset, plan.prepare_fold = build_model, make_dataset, prepare_fold
plan.collate, plan.batch_loss, plan.predict_batch = collate, batch_loss, predict_batch
plan.training_order, plan.read_sound = AlikeLengths, read_sound
