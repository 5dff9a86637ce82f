"""Which kinds of script are there, and which plan, cut down to seconds on a CPU, does each get?

A plan is the service's own answer over the seeds. In a copy only sizes are changed: a real but tiny model,
small inputs, few folds and epochs, and a learning rate at which so small a model learns from scratch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from memory_service.services.database.transactions import Database
from memory_service.services.planning.recommend import recommend
from tests.scripts.harness import data
from tests.scripts.harness.data import Size, Writer

__all__ = ["KINDS", "MEMBERS", "OTHERS", "Kind", "asked", "cut_down", "tiny_model", "tiny_models"]

TINY = "tiny-bert", "tiny-llama", "tiny-ear", "tiny-whisper", "tiny-qwen-vl"
TINY_BERT, TINY_LLAMA, TINY_EAR, TINY_WHISPER, TINY_QWEN_VL = TINY
"""Stand for the folders that `tiny_models` made."""


ROWS, FEW = Size(train=48, test=12), Size(train=24, test=6)
TEXTS = Size(train=96, test=20)
LONG = Size(train=480, test=56)
TABLE, SHORT_TABLE = Size(train=240, test=40), Size(train=120, test=10)


@dataclass(frozen=True)
class Kind:
    """question    of /recommend
    model, ...  what its plan is cut down to
    rows, few   samples from which it learns, and which are enough, with few_epochs, to see all of its steps
    edits       what else is smaller in its text
    workers     of its loaders, where a test wants no other number: each is a process, half a second a run
    minutes     of a run, where it goes on until they are over
    patience    epochs without a better score, where the plan's are too few
    """

    question: Mapping[str, Any]
    write: Writer
    model: str
    sizes: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 3e-3
    batch_size: int = 8
    epochs: int = 3
    rows: Size = ROWS
    few: Size = FEW
    few_epochs: int = 2
    workers: int = 0
    edits: Mapping[str, str] = field(default_factory=dict)
    minutes: float = 0.0
    patience: int = 0


IMAGE = {"image_size": 32}
HEARD = {"seq_len": 200, "pretrained": True}
SMALL_UNET = {'outputs"]), **sizes': 'outputs"]), decoder_channels=(32, 24, 16, 16, 8), **sizes'}


def _texts(task: str, write: Writer) -> Kind:
    return Kind({"task": task}, write, TINY_BERT, {"seq_len": 32}, 1e-2, 8, 4, TEXTS)


def _decoder(task: str, method: str, write: Writer) -> Kind:
    question = {"task": task, "model": "qwen2.5-0.5b", "method": method, "minutes": 240}
    sizes = {"seq_len": 32, "pretrained": True}
    return Kind(question, write, TINY_LLAMA, sizes, 1e-2, 8, 4, TEXTS)


def _frames(task: str, model: str, write: Writer, rows: Size, few: Size) -> Kind:
    """Learned by members for so many minutes."""
    return Kind({"task": task, "model": model}, write, model, rows=rows, few=few, minutes=0.5)


CLASSES, VALUES = "tabular-classification", "tabular-regression"

KINDS: dict[str, Kind] = {
    "image-classification": Kind(
        {"task": "image-classification"}, data.images_of_classes, "test_resnet", IMAGE, workers=1
    ),
    "image-multi-label": Kind({"task": "image-classification"}, data.images_of_labels, "test_vit", IMAGE),
    "image-regression": Kind({"task": "image-regression"}, data.images_of_values, "test_convnext", IMAGE),
    "image-segmentation": Kind(
        {"task": "image-segmentation"},
        data.images_with_masks,
        "unet/test_resnet",
        IMAGE,
        edits=SMALL_UNET,
    ),
    "object-detection": Kind(
        {"task": "object-detection", "model": "fcos/resnet50"},
        data.images_with_boxes,
        "fcos/test_resnet",
        {"image_size": 64},
        3e-2,
        epochs=4,
        edits={"CHANNELS = 256": "CHANNELS = 32"},
    ),
    "text-classification": _texts("text-classification", data.texts_of_classes),
    "text-regression": _texts("text-regression", data.texts_of_values),
    "text-classification-lora": _decoder("text-classification", "lora", data.texts_of_classes),
    "audio-classification": Kind(
        {"task": "audio-classification"},
        data.sounds_of_classes,
        "spec/test_convnext",
        {"seq_len": 64},
    ),
    f"{VALUES}-members": _frames(VALUES, "mlp", data.table_of_values, TABLE, SHORT_TABLE),
    f"{CLASSES}-members": _frames(CLASSES, "lightgbm", data.table_of_classes, TABLE, SHORT_TABLE),
}

SERIES = "time-series-regression"
OTHERS: dict[str, Kind] = {
    "image-retrieval": Kind(
        {"task": "image-retrieval"}, data.images_of_groups, "test_resnet", IMAGE, rows=Size(96, 24)
    ),
    "image-segmentation-kinds": Kind(
        {"task": "image-segmentation"},
        data.images_with_two_masks,
        "unet/test_resnet",
        IMAGE,
        edits=SMALL_UNET,
    ),
    "image-keypoints": Kind(
        {"task": "image-keypoints"},
        data.images_with_points,
        "test_resnet",
        IMAGE,
        5e-3,
        epochs=12,
        rows=Size(96, 16),
    ),
    "speech-recognition": Kind(
        {"task": "speech-recognition", "model": "w2v-bert-2.0"},
        data.sounds_of_texts,
        TINY_EAR,
        HEARD,
        2e-2,
        epochs=12,
        rows=Size(160, 16),
        patience=12,
    ),
    "speech-recognition-whisper": Kind(
        {"task": "speech-recognition", "model": "whisper-small"},
        data.sounds_of_words,
        TINY_WHISPER,
        HEARD,
        2e-3,
        epochs=14,
        rows=Size(160, 16),
        patience=14,
    ),
    "visual-question-answering": Kind(
        {"task": "visual-question-answering", "model": "qwen3-vl-2b", "minutes": 240},
        data.pictures_with_questions,
        TINY_QWEN_VL,
        {"image_size": 64, "pretrained": True},
        1e-2,
        epochs=12,
        rows=Size(160, 16),
        patience=12,
    ),
    "text-pair-similarity": _texts("text-pair-similarity", data.pairs_of_values),
    "token-classification": _texts("token-classification", data.words_of_classes),
    "text-regression-members": _frames("text-regression", "tfidf-linear", data.texts_of_values, TEXTS, FEW),
    "time-series-classification-members": _frames(
        "time-series-classification", "lightgbm", data.signals_of_classes, Size(120, 40), Size(60, 12)
    ),
    "recommendation-members": replace(
        _frames("recommendation", "lightgbm", data.items_of_users, Size(200, 0), Size(60, 0)),
        question={"task": "recommendation", "model": "lightgbm", "metric": "recall@5"},
    ),
    "multimodal-members": replace(
        _frames("multimodal", "lightgbm", data.pictures_with_words, Size(120, 40), Size(60, 12)),
        question={"task": "multimodal", "model": "lightgbm", "metric": "RMSE"},
    ),
    "video-classification-members": _frames(
        "video-classification", "frames/resnet50", data.videos_of_classes, Size(60, 20), Size(30, 8)
    ),
    f"{SERIES}-members": _frames(SERIES, "lightgbm", data.series_of_values, LONG, LONG),
}
"""Read their data in another way, and are then trained and written as one of KINDS is."""

MEMBERS = tuple(name for name in (*KINDS, *OTHERS) if name.endswith("-members"))


def asked(database: Database, kind: Kind) -> dict[str, Any]:
    """The service's plan for it."""
    return dict(recommend(database, {"size": "small", "gpu": "a100", "minutes": 30, **kind.question}))


def cut_down(plan: Mapping[str, Any], kind: Kind, folders: Path, **changes: Any) -> dict[str, Any]:
    """A copy of the plan with a tiny model, small inputs and little to do; `changes` go last."""
    small = copy.deepcopy(dict(plan))
    made = kind.model in TINY
    name = str(folders / kind.model) if made else kind.model
    small["model"] |= {"name": name, "pretrained": False, **kind.sizes}
    small |= {
        "batch_size": kind.batch_size,
        "grad_accumulation": 1,
        "effective_batch_size": kind.batch_size,
        "folds": 2,
        "seeds": 1,
        "epochs": kind.epochs,
        "learning_rate": kind.learning_rate,
        "warmup_epochs": 0,
    }
    small |= {"early_stopping_patience": kind.patience} if kind.patience else {}
    small["data_loader"] |= {"num_workers": kind.workers}
    if told := (changes.get("recipe") or {}).get("validation"):
        small |= {"split": told["split"], "group_by": told["by"]}
    return small | changes


def tiny_models(folder: Path) -> None:
    """A BERT and a Llama of 8 000 weights that know the words of the data, with their tokenizer."""
    tiny_model("Bert", folder / TINY_BERT, data.WORDS)
    tiny_model("Llama", folder / TINY_LLAMA, data.WORDS)
    tiny_ear(folder / TINY_EAR)
    tiny_whisper(folder / TINY_WHISPER)
    tiny_qwen_vl(folder / TINY_QWEN_VL)


def tiny_ear(folder: Path) -> None:
    """An encoder of sounds without a vocabulary, as w2v-BERT is published."""
    import transformers

    quiet = dict.fromkeys(("mask_time_prob", "layerdrop", "hidden_dropout", "feat_proj_dropout"), 0.0)
    config = transformers.Wav2Vec2BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, **quiet
    )
    transformers.Wav2Vec2BertModel(config).save_pretrained(folder)
    transformers.SeamlessM4TFeatureExtractor().save_pretrained(folder)


def tiny_whisper(folder: Path) -> None:
    """One that hears two seconds, with letters for tokens."""
    import transformers

    marks = ("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    numbers = {word: number for number, word in enumerate((*data.LETTERS, "Ġ", *marks))}
    tokenizer = transformers.WhisperTokenizer(vocab=numbers, merges=[])
    tokenizer.add_tokens([*marks], special_tokens=True)
    tokenizer.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(chunk_length=2).save_pretrained(folder)
    ends = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), numbers[marks[0]])
    config = transformers.WhisperConfig(
        vocab_size=len(numbers), d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=100,
        max_target_positions=32, decoder_start_token_id=numbers[marks[1]], begin_suppress_tokens=[], **ends,
    )  # fmt: skip
    network = transformers.WhisperForConditionalGeneration(config)
    network.generation_config.update(
        is_multilingual=True,
        lang_to_id={marks[2]: numbers[marks[2]]},
        task_to_id={"transcribe": numbers[marks[3]]},
        no_timestamps_token_id=numbers[marks[4]],
    )
    network.save_pretrained(folder)


def tiny_model(name: str, folder: Path, known: Iterable[str], layers: int = 1) -> None:
    """Random weights, and a tokenizer of these words."""
    import transformers

    words = dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ",", '"', *known])
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    getattr(transformers, f"{name}Model")(config).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(words)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(folder)


def tiny_qwen_vl(folder: Path) -> None:
    """A language model and what sees before it, with a processor of pictures of 32 to 64 pixels."""
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    marks = (
        "<pad>",
        "<unk>",
        "<|im_end|>",
        "<|vision_start|>",
        "<|vision_end|>",
        "<|image_pad|>",
        "<|video_pad|>",
    )
    numbers = {word: number for number, word in enumerate((*marks, "user", "assistant", *data.ASKED))}
    words = Tokenizer(models.WordLevel(numbers, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<|im_end|>",
        additional_special_tokens=[*marks[3:]],
    )  # fmt: skip
    template = (
        "{% for m in messages %}user {% for c in m['content'] %}{% if c['type'] == 'image' %}<|vision_start|>"
        "<|image_pad|><|vision_end|>{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}"
    )
    pictures = transformers.Qwen2VLImageProcessor(
        patch_size=16, merge_size=2, size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64}
    )
    films = transformers.Qwen3VLVideoProcessor()
    transformers.Qwen3VLProcessor(pictures, tokenizer, films, chat_template=template).save_pretrained(folder)
    turns = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [4, 2, 2], "mrope_interleaved": True}
    config = transformers.Qwen3VLConfig(
        text_config={
            "vocab_size": len(numbers), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rope_parameters": turns,
        },
        vision_config={
            "depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "patch_size": 16,
            "out_hidden_size": 64, "deepstack_visual_indexes": [0], "num_position_embeddings": 64,
        },
        image_token_id=numbers["<|image_pad|>"], video_token_id=numbers["<|video_pad|>"],
        vision_start_token_id=numbers["<|vision_start|>"], vision_end_token_id=numbers["<|vision_end|>"],
    )  # fmt: skip
    transformers.Qwen3VLForConditionalGeneration(config).save_pretrained(folder)
