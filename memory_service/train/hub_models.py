"""Tokenizers of transformers, from the hub or the folder WEIGHTS; LoRA and QLoRA, small matrices that are
trained beside frozen weights of 16 or 4 bits."""

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from memory_service.train.budget import plan
from memory_service.train.torch_loop import device, half_type, mixed_precision, pretrained_or_exit

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the loader's workers are parallel already


@cache
def load_tokenizer() -> Any:
    with pretrained_or_exit(True):
        tokenizer = AutoTokenizer.from_pretrained(source())
        if len(tokenizer) < 10:  # what transformers makes of special tokens alone where the files are missing
            raise FileNotFoundError(f"no vocabulary in {source()}")
        if tokenizer("a b")["input_ids"] == tokenizer("ab")["input_ids"]:  # taken for Llama's, as some 5.x do
            return PreTrainedTokenizerFast.from_pretrained(source())
        return tokenizer


def source() -> str:
    """The hub's repository, or its folder in WEIGHTS or WEIGHTS itself."""
    if plan.WEIGHTS == "hub":
        return plan.HUB_NAME
    inner = os.path.join(plan.WEIGHTS, os.path.basename(plan.HUB_NAME))
    return inner if os.path.isdir(inner) else plan.WEIGHTS


def from_hub(kind: Any, **how: Any) -> Any:
    """What a class of transformers loads of the model; the run ends where that is not there."""
    with pretrained_or_exit(True):
        return kind.from_pretrained(source(), **how)


def between() -> str:
    """The model's own mark between two texts."""
    return f" {load_tokenizer().sep_token or '|'} "


def padding() -> int:
    tokenizer = load_tokenizer()
    return tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id


def padded(texts: list[list[int]]) -> dict[str, torch.Tensor]:
    """A batch as wide as its longest text."""
    filler, widest = padding(), max(map(len, texts))
    return {
        "input_ids": torch.tensor([[*text, *[filler] * (widest - len(text))] for text in texts]),
        "attention_mask": torch.tensor([[1] * len(text) + [0] * (widest - len(text)) for text in texts]),
    }


def frozen_type() -> torch.dtype:
    """Of weights that are not trained."""
    return half_type() if mixed_precision() else torch.float32


def in_four_bits(*wide: str) -> dict[str, Any]:
    """How frozen weights are loaded by QLoRA; the parts named `wide` are not cut to four bits."""
    if device != "cuda" or find_spec("bitsandbytes") is None:
        raise SystemExit(
            f"{plan.MODEL} by QLoRA needs a CUDA card and the package bitsandbytes: run it where both are, "
            "or ask for a plan with method=lora."
        )
    from transformers import BitsAndBytesConfig

    config = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=half_type(), llm_int8_skip_modules=[*wide],
    )  # fmt: skip
    return {"device_map": {"": torch.cuda.current_device()}, "quantization_config": config}


def with_adapters(network: nn.Module, task: str, frozen: str = "") -> nn.Module:
    """Beside every linear layer but those whose names match `frozen`; `task` is one of peft's."""
    from peft import LoraConfig, get_peft_model

    adapters = LoraConfig(
        task_type=task, target_modules="all-linear", exclude_modules=frozen or None, r=plan.LORA_RANK,
        lora_alpha=plan.LORA_ALPHA, lora_dropout=plan.LORA_DROPOUT,
    )  # fmt: skip
    adapted = get_peft_model(network, adapters)
    for weight in adapted.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()
    return adapted


plan.between = between
