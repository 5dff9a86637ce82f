"""Several texts in one row of tokens (packing), so that no token of a row is padding.

Position ids begin anew with each text, and a text attends to itself alone: what transformers makes of them is
`DataCollatorWithFlattening`. A row is full, so memory and time of a step are a full row's; attention over
whole rows is counted, as with a mask, and FlashAttention's variable lengths take less. What becomes fewer are
rows: all tokens over the row's length.
"""

from memory_service.errors import wrong_value

PAYS_FROM = 2.0
"""Texts a row from which a plan packs them by itself."""


def texts_per_row(seq_len: int, text_tokens: int | None, packing: bool | None) -> float:
    """1.0 where each text has its row: so asked, of unknown length, or too long to share one.

    text_tokens   of a text in the mean, its answer included"""
    if packing is False or text_tokens is None:
        return 1.0
    texts = max(1.0, seq_len / text_tokens)
    return texts if packing or texts >= PAYS_FROM else 1.0


def check_packing(packing: bool | None, text_tokens: int | None, *, writes: bool) -> None:
    """InvalidInput for packed texts of which each has one answer, or of unknown length.

    writes   a language model learns every next token"""
    asked = ("packing", packing) if packing else ("text_tokens", text_tokens)
    if asked[1] and not writes:
        why = "applies to training a language model on every token (seq2seq): a text with one label needs"
        raise wrong_value(asked[0], f"{why} a row of its own", asked[1])
    if packing and text_tokens is None:
        raise wrong_value("text_tokens", "needed with packing: how many texts a row holds follows", None)
