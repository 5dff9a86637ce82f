"""The closed lists of a winning solution: families of models, losses, splits and techniques.

Their names are those of the facts that the seeds were made from (../shared/facts/README.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from memory_service.errors import unknown_name

Basis = Literal["read", "second-hand", "recalled"]
"""read: the write-up or the winners' code; second-hand: somebody's notes; recalled: general knowledge."""

Split = Literal["stratified", "group", "stratified-group", "time", "random", "nested", "public-lb", "unknown"]
"""How a solution was validated; public-lb: by the public leaderboard alone."""

BASES: tuple[str, ...] = get_args(Basis)
SPLITS: tuple[str, ...] = get_args(Split)

FAMILIES = (
    "lightgbm", "xgboost", "catboost", "random-forest", "linear", "svm", "knn", "mlp", "tabnet", "realmlp",
    "tabm", "tabular-transformer", "denoising-autoencoder", "gru-lstm", "transformer-scratch", "cnn-1d",
    "wavenet", "cnn-small", "unet", "unet++", "fpn", "deeplab", "maskrcnn", "fasterrcnn", "cascade-rcnn",
    "htc", "yolo", "efficientdet", "retinanet", "centernet", "detr", "vgg", "resnet", "resnext", "seresnext",
    "senet", "densenet", "inception", "xception", "efficientnet", "efficientnetv2", "convnext", "nfnet",
    "regnet", "resnest", "hrnet", "vit", "deit", "swin", "beit", "maxvit", "coat", "eva", "dinov2", "clip",
    "siglip", "bert", "roberta", "xlm-roberta", "deberta", "deberta-v3", "xlnet", "electra", "longformer",
    "bigbird", "bart-t5", "llm-decoder", "sentence-encoder", "wav2vec2", "whisper", "panns", "sed", "ast",
    "gnn", "gaussian-process", "arima-prophet", "exponential-smoothing", "metric-learning",
    "matrix-factorization", "covisitation", "nnue", "3d-cnn", "2.5d-cnn", "lstm-on-features", "rules",
    "other",
)  # fmt: skip

LOSSES = (
    "cross-entropy", "bce", "focal", "dice", "lovasz", "tversky", "mse", "mae", "huber", "smooth-l1", "rmse",
    "arcface", "triplet", "contrastive", "kl", "ordinal", "pairwise", "quantile", "custom-metric-proxy",
    "label-smoothing", "ctc", "poisson", "tweedie", "other",
)  # fmt: skip

TECHNIQUES: Mapping[str, str] = {
    "pseudo-labels": "Train again with confident predictions for unlabelled or test data as labels.",
    "external-data": "Add training data from outside the competition, where its rules allow it.",
    "pretraining-on-domain": "Pretrain on data of the same field before fine-tuning on the labels.",
    "two-stage": "Let a first model find or filter what a second one decides on.",
    "multi-task-aux": "Predict further targets beside the asked one, so that features get better.",
    "mixup": "Train on weighted sums of two samples and of their labels.",
    "cutmix": "Paste a patch of one image into another and mix the labels by area.",
    "cutout": "Hide random patches of the input during training.",
    "specaugment": "Hide random bands of time and frequency of a spectrogram during training.",
    "heavy-augmentation": "Change training samples strongly and in many ways.",
    "light-augmentation": "Change training samples little: flips, small shifts and rotations.",
    "tta": "Average predictions over several changed copies of each test sample.",
    "ema-swa": "Predict with weights averaged over the last steps or epochs of training.",
    "multi-sample-dropout": "Average the loss over several dropout masks of the same features.",
    "layerwise-lr": "Give layers near the input a smaller learning rate than the head.",
    "awp": "Train also on slightly perturbed weights that raise the loss.",
    "class-weights": "Weigh classes in the loss, rare ones more.",
    "oversampling": "Draw rare classes or samples more often.",
    "undersampling": "Draw frequent classes or easy negatives less often.",
    "hard-negative-mining": "Train on the negatives that the model confuses most.",
    "metric-learning-head": "Train embeddings with a margin loss, so that distances tell classes apart.",
    "ordinal-as-regression": "Predict ordered classes as one number and round it.",
    "threshold-search": "Choose decision thresholds on out-of-fold predictions for the metric.",
    "rank-averaging": "Average the ranks of predictions, for metrics that see only order.",
    "mean-blend": "Average the predictions of several models with equal weights.",
    "weighted-blend": "Average predictions with weights chosen on out-of-fold predictions.",
    "stacking": "Train a second model on the out-of-fold predictions of the first ones.",
    "hill-climbing": "Add models to an ensemble one by one while the validation score rises.",
    "target-encoding": "Replace categories by their mean target, computed out of fold.",
    "frequency-encoding": "Replace categories by how often they occur.",
    "aggregations": "Summarise the rows of a group (mean, spread, counts) as features.",
    "lag-features": "Use earlier values of a series as features.",
    "rolling-features": "Use statistics over moving windows of a series as features.",
    "knn-features": "Use distances to nearest neighbours, or their targets, as features.",
    "interaction-features": "Combine columns by ratios, differences, products or joined categories.",
    "feature-selection": "Drop features that do not help on validation.",
    "adversarial-validation": "Train a model to tell training from test rows, and act on what it finds.",
    "data-cleaning": "Remove or repair broken, wrong or useless samples.",
    "deduplication": "Remove duplicates, or keep them in the same fold.",
    "relabeling": "Correct wrong labels by hand or by model agreement.",
    "tiles-crops": "Cut large inputs into tiles or crops and join their predictions.",
    "multi-scale": "Train or predict at several input sizes.",
    "high-resolution": "Use larger inputs than usual, because small details decide.",
    "2.5d": "Give neighbouring slices or frames as channels of a two-dimensional network.",
    "3d": "Use volumes or clips whole, with three-dimensional convolutions.",
    "frame-attention": "Pool features of slices, frames or tiles by learned attention.",
    "bidirectional-context": "Let each step see what comes before and after it.",
    "sliding-window": "Predict overlapping windows and average where they overlap.",
    "retrieval-rerank": "Find candidates by a fast search and order them by a stronger model.",
    "candidate-generation": "Make a short list of possible answers for a ranking model.",
    "distillation": "Train a smaller model on the predictions of larger ones.",
    "lora": "Fine-tune a large model by small low-rank matrices beside its weights.",
    "quantization": "Keep weights in fewer bits, to fit memory or time.",
    "long-context": "Read inputs longer than usual whole instead of cutting them.",
    "leak-exploit": "Used information that leaked into the data: a fact of the past, never advice.",
    "post-processing-rules": "Correct predictions by rules that the data or the metric imply.",
    "smoothing": "Smooth predictions over time or space.",
    "seed-averaging": "Average the same model trained with several random seeds.",
    "snapshot-ensemble": "Average several checkpoints of one training.",
    "denoising": "Remove noise from inputs, or train with noise to be removed.",
    "log-transform-target": "Train on the logarithm of the target, for relative errors or long tails.",
    "residual-modelling": "Model what a simpler model or a physical law leaves over.",
    "simulation-synthetic-data": "Train on simulated or generated samples too.",
    "llm-generated-data": "Train on texts that a language model wrote.",
    "back-translation": "Augment texts by translating them to another language and back.",
    "class-merging": "Treat similar or rare classes as one, wholly or in a first stage.",
    "heng-style-crop": "Crop the subject by a detector or landmarks before the main model sees it.",
    "query-expansion": "Average an embedding with those of its nearest neighbours and search again.",
    "reranking": "Order a list of results again by a stronger or local criterion.",
    "knowledge-graph": "Use relations between entities as features or constraints.",
    "other": "Something that no name of this list says.",
}
"""Technique -> what is done, in one sentence."""

STAGES: Mapping[str, tuple[str, ...]] = {
    "data": (
        "external-data", "mixup", "cutmix", "cutout", "specaugment", "heavy-augmentation",
        "light-augmentation", "oversampling", "undersampling", "target-encoding", "frequency-encoding",
        "aggregations", "lag-features", "rolling-features", "knn-features", "interaction-features",
        "feature-selection", "data-cleaning", "deduplication", "relabeling", "tiles-crops",
        "high-resolution", "2.5d", "3d", "long-context", "denoising", "log-transform-target",
        "simulation-synthetic-data", "llm-generated-data", "back-translation", "class-merging",
        "heng-style-crop", "candidate-generation", "knowledge-graph", "leak-exploit",
    ),
    "training": (
        "pseudo-labels", "pretraining-on-domain", "two-stage", "multi-task-aux", "ema-swa",
        "multi-sample-dropout", "layerwise-lr", "awp", "class-weights", "hard-negative-mining",
        "metric-learning-head", "ordinal-as-regression", "multi-scale", "frame-attention",
        "bidirectional-context", "distillation", "lora", "quantization", "residual-modelling", "other",
    ),
    "validation": ("adversarial-validation",),
    "ensemble": (
        "rank-averaging", "mean-blend", "weighted-blend", "stacking", "hill-climbing", "seed-averaging",
        "snapshot-ensemble",
    ),
    "after": (
        "tta", "threshold-search", "sliding-window", "retrieval-rerank", "post-processing-rules",
        "smoothing", "query-expansion", "reranking",
    ),
}  # fmt: skip
"""When a technique is done: to the data, in training, in validation, in the ensemble, or after predicting."""

STAGE_OF = {technique: stage for stage, names in STAGES.items() for technique in names}


def parse_family(raw: str) -> str:
    """A family of models by its name (case does not matter); InvalidInput names the nearest."""
    return _parse("family", raw, FAMILIES)


def parse_loss(raw: str) -> str:
    """A loss by its name; InvalidInput names the nearest."""
    return _parse("loss", raw, LOSSES)


def parse_technique(raw: str) -> str:
    """A technique by its name; InvalidInput names the nearest."""
    return _parse("technique", raw, tuple(TECHNIQUES))


def _parse(field: str, raw: str, known: Sequence[str]) -> str:
    name = raw.strip().lower().replace("_", "-").replace(" ", "-")
    if name in known:
        return name
    raise unknown_name(field, raw, known)
