"""What single trainers print otherwise than all: one entry each, a line's own spelling and the usual one.

Most trainers need no entry: `lines` reads a tag, a position and named figures in any of the usual forms.
"""

import re
from typing import NamedTuple


class Spelling(NamedTuple):
    """A line of `trainer` with `word` in it is read as if `usual` stood in place of `own`."""

    trainer: str
    word: str
    own: re.Pattern[str]
    usual: str


_BAR = r"(\d{1,9})/(\d{1,9}) (\d[\d:]{1,12})"

SPELLINGS: tuple[Spelling, ...] = tuple(
    Spelling(trainer, word, re.compile(own), usual)
    for trainer, word, own, usual in (
        ("ESPnet", "epoch results", r"\b(\d{1,6})epoch results:", r"epoch \1"),
        ("PaddleSeg", "[TRAIN]", r"\[TRAIN\]\s{0,3}epoch(?:=|: )\d{1,6}, iter(?:=|: )", "[TRAIN] iter: "),
        ("MONAI", "consuming", r"consuming of epoch (\d{1,6}) is: ([\d.]{1,12})", r"epoch \1 time: \2s"),
        ("transformers", "Epoch", rf"\[\s{{0,8}}{_BAR} < ([\d:?]{{1,12}})", r"\1/\2 [\3<\4"),
        ("transformers", "Epoch", rf"\[{_BAR}, Epoch [\d.]{{1,8}}/\d{{1,6}}\]", r"\1/\2 [\3<00:00]"),
        ("detectron2", "copypaste: ", r"^.{0,80}(?<!_)copypaste: (\d{1,3}\.\d{1,6}),.*$", r"test: [1] ap=\1"),
        ("COCO", "(AP) @", r"^.{0,80}\(AP\) @\[ IoU=0.50:0.95 \| area= {1,3}all.{0,40}= ", "test: [1] ap="),
        ("COCO", "@[ IoU=", r"^.{0,80}\(A[PR]\) @\[ IoU=.{0,60}$", ""),
        ("AutoGluon", "= V", r"^\s?([\d.-]{1,9})\s{1,3}= \w{10} score {1,4}\((\w{1,40})\)", r"CV \2: \1"),
    )
)  # fmt: skip


def usual_spelling(line: str) -> str:
    """The line as most trainers would print it."""
    for entry in SPELLINGS:
        if entry.word in line:
            line = entry.own.sub(entry.usual, line, count=1)
    return line
