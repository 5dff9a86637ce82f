"""Vision-language models of transformers that write a text about a picture: an answer to its question, or a
caption. Their language model is tuned (LoRA, QLoRA); what sees stays as it is."""

import gc
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForImageTextToText, AutoProcessor

from memory_service.train.budget import plan
from memory_service.train.hub_models import from_hub, frozen_type, in_four_bits, with_adapters
from memory_service.train.media_files import read_image
from memory_service.train.reading import Data
from memory_service.train.torch_loop import Samples, autocast, device, to_device
from memory_service.train.transcripts import as_codes

SEES = r".*\b(?:visual|vision\w*|image\w*|multi_modal\w*|connector|projector)\b.*"  # modules before the text
SHORTEST = 28  # pixels of a side: a patch of the coarsest of these models
CAPTION = "Describe the picture."  # is asked where a row has no question


@cache
def processor() -> Any:
    """Of pictures and texts; a text's end is what is trained, so that it is filled up in front."""
    found = from_hub(AutoProcessor)
    found.tokenizer.padding_side = "left"
    size = found.image_processor.size
    if set(dict(size)) == {"longest_edge"}:  # enlarged to it, whatever the picture has
        found.image_processor.size = {"longest_edge": plan.IMAGE_SIZE}
    return found


def as_prompt(question: str) -> str:
    """How the model is asked: by its own template of a chat, or, where it has none, picture and question."""
    if not processor().chat_template:
        return f"{getattr(processor(), 'image_token', '<image>')}{question}\n"
    said = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": question}]}
    return str(processor().apply_chat_template([said], add_generation_prompt=True))


def prepare_fold(data: Data, train_rows: np.ndarray) -> tuple[list, dict]:
    """(of each row the tokens to write, then those of no text; what a checkpoint keeps)."""
    tokenizer = processor().tokenizer
    texts = tokenizer([*data.targets, ""], add_special_tokens=False)["input_ids"]
    labels = [[*text, tokenizer.eos_token_id] for text in texts]
    kept = {"prior": plan.prior_of(data.targets[train_rows], 0).tolist()}
    return labels, kept | {"tokens": max(len(labels[row]) for row in train_rows)}


def build_model(checkpoint: dict, pretrained: bool) -> nn.Module:
    """Its public weights, whatever `pretrained` says: a checkpoint holds what is trained."""
    gc.collect()  # the model of the fold before
    how: dict[str, Any] = {"dtype": torch.float32 if plan.METHOD == "full" else frozen_type()}
    if plan.METHOD == "qlora":
        how |= in_four_bits("lm_head", "visual", "vision_tower", "vision_model", "multi_modal_projector")
    network = from_hub(AutoModelForImageTextToText, **how)
    if plan.GRADIENT_CHECKPOINTING:
        network.gradient_checkpointing_enable({"use_reentrant": False})
    model = network if plan.METHOD == "full" else with_adapters(network, "CAUSAL_LM", SEES)
    return model.to(device)


class Asked(Samples):
    """A picture, at most IMAGE_SIZE pixels a side, and what is asked of it."""

    def __init__(self, part: str, data: Data, rows, checkpoint: dict) -> None:
        paths, before = (data.test_inputs, len(data.inputs)) if part == "test" else (data.inputs, 0)
        super().__init__(paths, rows)
        self.questions = None if data.beside is None else data.beside["question"].to_list()[before:]

    def sample(self, row: int) -> tuple[Any, str]:
        image = read_image(self.paths[row], side=plan.IMAGE_SIZE)
        shrunk = min(1.0, plan.IMAGE_SIZE / max(image.size))
        sides = [max(SHORTEST, round(shrunk * side)) for side in image.size]
        return image.resize(sides), CAPTION if self.questions is None else str(self.questions[row])

    def unreadable(self) -> tuple[Any, str]:
        from PIL import Image

        return Image.new("RGB", (SHORTEST, SHORTEST)), CAPTION


def collate(samples: list) -> tuple[dict, torch.Tensor, torch.Tensor]:
    asked, rows, readable = zip(*samples, strict=True)
    texts = [as_prompt(question) for _, question in asked]
    pictures = [[picture] for picture, _ in asked]
    begins = processor().tokenizer.bos_token
    how = {"add_special_tokens": False} if begins and texts[0].startswith(begins) else {}  # a template's own
    inputs = processor()(text=texts, images=pictures, padding=True, return_tensors="pt", **how)
    given = {name: each for name, each in inputs.items() if name != "labels"}  # PaliGemma's has them
    return given, torch.tensor(rows), torch.tensor(readable)


def on_device(inputs: dict) -> dict:
    """Pictures as the frozen weights are."""
    pairs, frozen = to_device(inputs).items(), frozen_type()
    return {name: each.to(frozen) if each.is_floating_point() else each for name, each in pairs}


def batch_loss(model, inputs, rows: torch.Tensor, readable: torch.Tensor, targets) -> torch.Tensor:
    """Of the tokens that are written; an unreadable picture has no text."""
    known = zip(rows.tolist(), readable.tolist(), strict=True)
    written = [torch.tensor(targets[row if good else -1]) for row, good in known]
    labels = nn.utils.rnn.pad_sequence(written, batch_first=True, padding_value=-100)
    behind = {"input_ids": labels.clamp(min=0), "attention_mask": (labels >= 0).long()}
    given = dict(inputs)
    for name, each in inputs.items():
        if each.shape == inputs["input_ids"].shape:
            # types tell pictures from text; PaliGemma's, 0 for all that is given, tell what is written
            kind = int(name == "token_type_ids" and not each.any())
            given[name] = torch.hstack([each, behind.get(name, torch.full_like(labels, kind))])
    unsaid = torch.full_like(inputs["input_ids"], -100)
    with autocast():
        return model(**on_device(given), labels=torch.hstack([unsaid, labels]).to(device)).loss.float()


@torch.no_grad()
def predict_batch(model, inputs, data: Data, checkpoint: dict, views: int) -> torch.Tensor:
    """Code points of the likeliest texts, (1, pictures, CHARACTERS), token by token."""
    tokenizer, begins = processor().tokenizer, inputs["input_ids"].shape[1]
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    found = model.generate(
        **on_device(inputs), max_new_tokens=checkpoint["tokens"], do_sample=False, num_beams=1, **ends
    )
    texts = tokenizer.batch_decode(found[:, begins:], skip_special_tokens=True)
    return torch.from_numpy(as_codes([" ".join(text.split()) for text in texts]))[None]


make_dataset = Asked
plan.build_model, plan.make_dataset, plan.prepare_fold = build_model, make_dataset, prepare_fold
plan.collate, plan.batch_loss, plan.predict_batch = collate, batch_loss, predict_batch
