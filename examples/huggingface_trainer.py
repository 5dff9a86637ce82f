"""The Hugging Face Trainer, reported by one callback: a tiny BERT made from a config, on twenty sentences.

Nothing is downloaded: the vocabulary is made of the sentences, the weights are random.
"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from memory_service.client.huggingface import WatchCallback

GOOD = ["good film", "great acting", "a fine story", "lovely music", "i liked it", "very good", "great fun",
        "a lovely film", "fine acting", "i liked the story"]  # fmt: skip
BAD = ["bad film", "poor acting", "a dull story", "awful music", "i hated it", "very bad", "no fun",
       "an awful film", "dull acting", "i hated the story"]  # fmt: skip
WORDS = {word: n for n, word in enumerate(sorted({w for text in GOOD + BAD for w in text.split()}), 1)}


class Sentences(Dataset):
    rows = [(text, 1) for text in GOOD] + [(text, 0) for text in BAD]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        text, label = self.rows[index]
        ids = [WORDS[word] for word in text.split()]
        padded = torch.tensor(ids + [0] * (6 - len(ids)))
        return {"input_ids": padded, "attention_mask": (padded > 0).long(), "labels": label}


def accuracy(told):
    return {"accuracy": float((told.predictions.argmax(-1) == told.label_ids).mean())}


shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
with tempfile.TemporaryDirectory() as folder:
    settings = TrainingArguments(
        output_dir=folder, num_train_epochs=4, per_device_train_batch_size=4, learning_rate=3e-3,
        eval_strategy="epoch", logging_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True,
    )  # fmt: skip
    trainer = Trainer(
        model=BertForSequenceClassification(BertConfig(vocab_size=len(WORDS) + 1, **shape)),
        args=settings,
        train_dataset=Sentences(),
        eval_dataset=Sentences(),
        compute_metrics=accuracy,
        callbacks=[WatchCallback(task="text", metric="accuracy", seq_len=6, minutes=5)],
    )
    trainer.train()
