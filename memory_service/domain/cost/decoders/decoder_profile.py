"""Profile of a decoder (a language model of the GPT or Llama kind) by formula: full tuning, LoRA, QLoRA.

All layers of a decoder are alike, so what one token costs in one of them follows from half a dozen figures:
the bytes that autograd keeps of it, its products, and what its elementwise kernels move. The same accounting
as `measure.trace`, without torch, in microseconds, for any length and rank; the two are compared in
tests/domain/cost/test_decoder.py. The frozen weights of LoRA stay in half precision; of QLoRA the linear
layers are NF4 in blocks of 64 with doubly quantised scales (Dettmers et al. 2023).
"""

from typing import Literal

from memory_service.domain.cost.decoders.decoder import Decoder, Loss, Tuning
from memory_service.domain.cost.interpolation import envelope
from memory_service.domain.cost.profile import OP_CLASSES, Profile

NF4_BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Of a weight: 4 bits, a scale of 8 bits for 64 of them, and one of 32 bits for 256 scales."""

NF4_SINGLE_BYTES = 0.5 + 4 / 64
"""Without double quantisation: a scale of 32 bits."""

DEQUANTISE_PASSES = 3.0
"""How often the time of moving its bytes a layer takes to be unpacked: Llama 2 7B and 13B on an A100, steps
of QLoRA less those of LoRA (litgpt resource tables; 3.2 and 4.0 there with bitsandbytes 0.41)."""

CAUSAL_SHARE = 0.9
"""Time of causal attention against that of all its scores at the rate of products: half of them are left
out, the rest is slower (MPT of 125 M to 13 B at 16 384 to 65 536 tokens on A100, llm-foundry)."""

LOGIT_BYTES: dict[Loss, int] = {
    "plain": 12, "shifted": 24, "compiled": 4, "in_place": 2, "standing": 6, "fused": 0,
}  # fmt: skip
"""Of a logit at the peak of a language model's loss.

plain      log-softmax and two gradients in single precision
shifted    as transformers did until 4.45: logits cast, shifted into a copy, and both again as gradients
compiled   half-precision logits and their gradient: casts and softmax are recomputed
in_place   half-precision logits, overwritten by their gradient (`Fast_CrossEntropyLoss` of unsloth,
           kernels/cross_entropy_loss.py)
standing   half-precision logits and a copy in single precision, which stays while the layers go back
fused      logits never stand in memory at once
"""

STANDING_LOGIT = 4.0
"""Bytes of a logit of `standing`: of Llama 3 8B at 16 384 tokens a block of 7.83 GiB (unsloth, issue 824)."""

MEMORY_SPREAD = 0.12
"""Either way, of nine in ten public peaks of one card: what frameworks keep differs more than a trace
knows."""

EXPERTS_SPREAD = 0.2
"""The same of a mixture of experts, of which hardly any peak is published: judged."""

BACKWARD_PASSES = 2.1
"""Elementwise bytes of the backward pass in multiples of the forward pass's, as traced."""


def decoder_profile(
    name: str,
    decoder: Decoder,
    seq_len: int,
    tuning: Tuning,
    *,
    precision: Literal["fp32", "amp"] = "amp",
    n_outputs: int = 2,
    family: str = "",
) -> Profile:
    """One training step and one forward pass of texts of `seq_len` tokens.

    `params` counts trained weights alone, in units of four bytes: with half_weights and shards it is so much
    smaller. What is frozen is in `buffers_bytes`.
    """
    d, t = decoder, tuning
    element = 2 if precision == "amp" else 4
    casts_each = _casts_each_product(t)
    kept_as = element if (t.half_weights if t.method == "full" else t.adapters_half) else 4
    trained = _trained(d, t, n_outputs)
    frozen = _frozen_bytes(d, t, element) / t.shards
    if t.method == "full" and t.master:
        frozen += 2.0 * element * trained / t.shards
    weights = trained * kept_as / t.shards
    casts = d.linear_params * element if casts_each and precision == "amp" else 0.0
    linears = [*(i * o for _, i, o in d.linears), d.resting_params]
    root = d.params - d.linear_params + (d.vocab * d.hidden if t.litgpt and d.tied else 0)
    packed = _nf4_bytes(t) if t.method == "qlora" else float(element)
    gathered = 2.0 * sum(linears) * packed + root * element if t.shards > 1 else 0.0
    unpacked = 0.0
    if t.method == "qlora":
        unpacked = float(max(*linears[:-1], d.vocab * d.hidden if t.litgpt else 0) * element)
    accumulated = float(trained * kept_as) if t.accumulates and not t.master else 0.0
    if t.shards > 1:  # summed in a stream of their own: PyTorch lends their blocks to no other
        accumulated += weights
    resident = frozen + weights + gathered
    layer = _saved(d, t, seq_len, element)
    stream = seq_len * d.hidden * (4 if casts_each else element)
    transient = seq_len * (_transient(d, t, element) + (_scores(d, seq_len, element) if _eager(d, t) else 0))
    logits = float(seq_len * d.vocab * LOGIT_BYTES[t.loss]) if t.head == "lm" else 0.0
    retained = STANDING_LOGIT * seq_len * d.vocab if t.head == "lm" else 0.0
    standing = retained if t.loss == "standing" else 0.0
    recomputed = t.checkpointing or t.selective or t.offloaded
    of_layer = stream if t.checkpointing else _selected(d, seq_len, element) if t.selective else layer
    kept = (0 if t.offloaded else d.layers) * of_layer
    once = layer if recomputed else 0.0
    gradients = weights
    head_gradient = 0.0
    if t.method == "full" and t.head == "lm":  # FSDP sums what belongs to no layer last of all
        head_gradient = float(d.vocab * d.hidden * (element if t.shards > 1 else kept_as))
    before = resident + casts + accumulated + head_gradient
    moments = [
        (before, kept + logits + 2 * stream),
        (before + unpacked, kept + once + transient + 2 * stream + standing),
        (resident + gradients, 4.0 * stream),
    ]
    if t.litgpt and t.shards > 1:  # all weights are read in before they are spread
        moments.append(((frozen + weights) * (t.shards + 1), kept + logits))
    elif t.method == "qlora" and t.shards > 1:  # bitsandbytes quantises on the card, before they are spread
        moments.append((frozen * t.shards + weights, 0.0))
    peak = envelope(moments)
    whole = envelope(
        [(fixed + (0 if i == 2 or accumulated else gradients), s) for i, (fixed, s) in enumerate(moments)]
    )
    of_head = seq_len * d.vocab * (element + 4) if t.head == "lm" else 0
    forward = envelope([(resident + unpacked + casts / d.layers, transient + stream + of_head)])
    return Profile(
        model=name, library="transformers", input_kind="seq_len", input_size=seq_len, precision=precision,
        params=round(trained * kept_as / 4 / t.shards),
        buffers_bytes=round(frozen + gathered), peak=peak, forward={}, backward={}, n_outputs=n_outputs,
        fused_attention=not _eager(d, t), checkpointing=t.checkpointing, channels_last=True,
        family=family or "llama",
        largest_activation_bytes_per_sample=float(max(seq_len * d.intermediate * element, logits / 3)),
        inference_peak=forward,
        extra={
            "method": t.method, "lora_rank": t.rank if t.method != "full" else None, "head": t.head,
            "logits_bytes": retained,
            "parameter_tensors": _tensors(d, t), "sharded": t.shards > 1,
            "gathered_bytes": _gathered_bytes(d, t, trained, element),
            "memory_spread": EXPERTS_SPREAD if d.resting else MEMORY_SPREAD, "weight_bytes": kept_as,
            "roofline": _roofline(d, t, seq_len, element, n_outputs),
            "cache_bytes_per_token": 2.0 * d.layers * d.key * element, "unpacked_bytes": unpacked,
            "adapter_kernels": 0 if t.method == "full"
            else d.layers * 4 * sum(t.trains(name) for name, _, _ in d.linears),
            "peak_gradients_kept": [[p.fixed_bytes, p.per_sample_bytes] for p in whole],
        },
    )  # fmt: skip


def _trained(d: Decoder, t: Tuning, n_outputs: int) -> int:
    head = d.hidden * n_outputs if t.head == "sequence" else 0
    if t.method == "full":
        untied = d.vocab * d.hidden if t.litgpt and d.tied else 0
        return d.params - (0 if t.head == "lm" or d.tied else d.vocab * d.hidden) + head + untied
    adapters = d.layers * sum(t.rank * (i + o) for name, i, o in d.linears if t.trains(name))
    return adapters + head


def _gathered_bytes(d: Decoder, t: Tuning, trained: int, element: int) -> float:
    """What FSDP moves past each card in a step, times n / (n - 1): all weights as they are computed with, in
    the forward and the backward pass, and the gradients of full tuning."""
    if t.method == "full":
        return 3.0 * trained * element
    return 2.0 * (_frozen_bytes(d, t, element) + 4.0 * trained)


def _frozen_bytes(d: Decoder, t: Tuning, element: int) -> float:
    if t.method == "full":
        return 0.0
    rest = d.params - d.linear_params - (0 if t.head == "lm" or d.tied else d.vocab * d.hidden)
    rest += d.vocab * d.hidden if t.litgpt and d.tied else 0
    if t.method == "lora":
        return (d.linear_params + rest) * float(element)
    return d.linear_params * _nf4_bytes(t) + rest * float(element)


def _nf4_bytes(t: Tuning) -> float:
    return NF4_BYTES if t.double else NF4_SINGLE_BYTES


def _tensors(d: Decoder, t: Tuning) -> int:
    if t.method == "full":
        return d.layers * (len(d.linears) + d.norms) + 3
    return d.layers * 2 * sum(t.trains(name) for name, _, _ in d.linears) + 1


def _casts_each_product(t: Tuning) -> bool:
    """Whether fp32 weights are cast by autocast, product by product, and the stream between them stays in
    fp32. FSDP casts a layer's weights while it gathers them, and its inputs (`MixedPrecision`)."""
    return t.method == "full" and not t.half_weights and not t.master and t.shards == 1


def _eager(d: Decoder, t: Tuning) -> bool:
    return t.eager or d.capped


def _scores(d: Decoder, seq_len: int, element: int) -> float:
    """Bytes a token of the scores of unfused attention: of their softmax in fp32, and its half copy."""
    return d.heads * seq_len * (4.0 + element + (2 * element if d.capped else 0))


def _saved(d: Decoder, t: Tuning, seq_len: int, element: int) -> float:
    """Bytes of one layer that a text keeps for the backward pass."""
    full, casts_each = t.method == "full", _casts_each_product(t)
    stream = 4 if casts_each else element
    normed = 4.0 if d.rms and not t.compiled else stream  # RMSNorm works on a single-precision copy
    token = d.norms * d.hidden * (normed + (stream if full and d.rms else 0))
    token += (d.query + d.key) * (4.0 + (element if full else 0)) if d.qk_norm else 0.0
    token += element * 4 * d.query  # queries, keys and values of every head, output
    token += _scores(d, seq_len, element) if _eager(d, t) else 0.0
    copied = not full and (t.dropout or t.adapters_single)  # adapters keep their own, not the shared input
    if any(t.trains(name) for name in ("q", "k", "v")) and not copied:
        token += element * d.hidden
    if t.trains("up") and not copied:
        token += element * (d.hidden if d.norms > 1 else 0)
    if casts_each and d.gated:  # autocast casts the same input for each product of it
        token += element * 3 * d.hidden
    if t.trains("down") and not copied:
        token += element * d.intermediate
    token += element * d.intermediate * ((2 if t.compiled else 3) if d.gated else 1)
    if t.method != "full":
        extra = (4.0 if t.adapters_single else element if t.dropout else 0.0) + (1.0 if t.dropout else 0.0)
        if t.method == "qlora" and t.litgpt:
            token += 1.5 * element * sum(into for name, into, _ in d.linears if name not in ("k", "v"))
        own = [name for name, _, _ in d.linears if not (t.litgpt and name in ("k", "v"))]
        tuned = (into for name, into, _ in d.linears if name in own and t.trains(name))
        token += sum(4.0 * t.rank + extra * into for into in tuned)
    return seq_len * token


def _selected(d: Decoder, seq_len: int, element: int) -> float:
    """Bytes of one layer that a text keeps under selective checkpointing: its input, what attention gives and
    every second product (torchtitan, models/llama/parallelize_llama.py, `_get_custom_policy`)."""
    products = sum(out for _, _, out in d.linears[::2])
    return seq_len * (element * (d.hidden + d.query + products) + 4.0 * d.heads)


def _transient(d: Decoder, t: Tuning, element: int) -> float:
    """Bytes a token of gradients alive in the backward pass of one layer."""
    gates = 1.5 if t.gates_in_place else 3.0
    return element * (gates if d.gated else 2.0) * d.intermediate + 4.0 * d.hidden


def _roofline(d: Decoder, t: Tuning, seq_len: int, element: int, n_outputs: int) -> list[list[float]]:
    """Rows as of `measure.roofline`: products by layer, attention, elementwise, unpacking."""
    rows: list[list[float]] = []
    full = t.method == "full"
    own_copy = full and not t.half_weights and not t.master
    stream = 4 if own_copy else element

    def add(phase: int, kind: str, flops: float, moved: float, fixed: float, kernels: float) -> None:
        rows.append([phase, OP_CLASSES.index(kind), 0, 0, flops, moved, 0, fixed, kernels])

    def products(phase: int, backward: bool, recomputed: bool = False) -> None:
        for name, into, out in d.linears[:-1] if recomputed else d.linears:  # nobody needs the last one again
            passes = (2 if full else 1) if backward else 1
            flops, moved = 2.0 * seq_len * into * out, seq_len * (into + out) * float(element)
            add(phase, "matmul", d.layers * passes * flops, d.layers * passes * moved,
                d.layers * passes * into * out * float(element), d.layers * passes)  # fmt: skip
            if not full and t.trains(name):
                passes = 2 if backward else 1
                add(phase, "matmul", d.layers * passes * 2.0 * seq_len * t.rank * (into + out),
                    d.layers * passes * seq_len * (into + out + 2 * t.rank) * float(element), 0,
                    d.layers * passes * 2)  # fmt: skip
                add(phase, "elementwise", 0, d.layers * seq_len * 5.0 * out * element, 0, d.layers * 2)
            if t.method == "qlora":
                unpacked = into * out * (NF4_BYTES + element) * DEQUANTISE_PASSES
                add(phase, "elementwise", 0, 0, d.layers * unpacked, d.layers * 2)
        if d.resting:  # a batch visits every expert: its weights are read, and those in 4 bits unpacked
            read = NF4_BYTES + element if t.method == "qlora" else element
            add(
                phase,
                "elementwise",
                0,
                0,
                d.layers * d.resting_params * read * (2 if backward and full else 1),
                0,
            )
        if own_copy and element == 2:  # weights to half precision, their gradients back
            add(phase, "elementwise", 0, 0, d.linear_params * 6.0, d.layers * len(d.linears))

    def rest(phase: int, backward: bool) -> None:
        scores = CAUSAL_SHARE * 4.0 * seq_len * seq_len * d.query * (2.5 if backward else 1.0)
        if _eager(d, t):
            square = 2.0 * d.heads * seq_len * seq_len * (_scores(d, 1, element) / d.heads)
            add(phase, "matmul", d.layers * scores / CAUSAL_SHARE * (0.8 if backward else 1.0),
                d.layers * square, 0, d.layers * (4 if backward else 2))  # fmt: skip
            add(phase, "elementwise", 0, d.layers * 2 * square, 0, d.layers * 5)
        else:
            add(phase, "attention", d.layers * scores,
                d.layers * seq_len * 4.0 * d.query * element * (2 if backward else 1), 0,
                d.layers)  # fmt: skip
        norm = (36.0 if element == 2 else 32.0) if d.rms else 3.0 * stream
        token = d.norms * d.hidden * norm + 2 * d.hidden * 3.0 * stream
        token += 11.0 * (stream if d.qk_norm else element) * (d.query + d.key) if d.rotary else 0.0
        token += (5 if d.gated else 2) * d.hidden * 6.0 if own_copy and element == 2 else 0.0
        token += norm * (d.query + d.key) if d.qk_norm else 0.0
        token += d.intermediate * element * (5.0 if d.gated else 2.0)
        kernels = d.norms * (6 if d.rms else 1) + 2 + (10 if d.rotary else 0) + 2 + (12 if d.qk_norm else 0)
        times = BACKWARD_PASSES if backward else 1.0
        add(phase, "elementwise", 0, d.layers * seq_len * token * times, 0, d.layers * kernels * times)

    def head(phase: int, backward: bool) -> None:
        outputs = d.vocab if t.head == "lm" else n_outputs
        positions = seq_len if t.head == "lm" else 1
        passes = (2 if full else 1) if backward else 1
        add(phase, "matmul", passes * 2.0 * positions * d.hidden * outputs,
            positions * (d.hidden + outputs) * float(element), outputs * d.hidden * float(element),
            passes)  # fmt: skip
        add(phase, "elementwise", 0, positions * outputs * (26.0 if backward else 20.0), 0, 4)
        if full and backward:
            add(phase, "elementwise", 0, seq_len * d.hidden * 8.0, d.vocab * d.hidden * float(stream), 2)

    for phase, backward in ((0, False), (1, True)):
        products(phase, backward)
        rest(phase, backward)
        head(phase, backward)
    if t.checkpointing:
        products(1, False, recomputed=True)
        rest(1, False)
    products(2, False)
    rest(2, False)
    head(2, False)
    return rows
