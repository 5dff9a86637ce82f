"""Models that competitions name and nobody gave a cost here, with what is nearest in kind and priced."""

import re

KIN: dict[str, tuple[str, ...]] = {
    "chronos timesfm moirai lag_llama timegpt moment ttm": ("patchtst", "tft"),
    "itransformer timesnet informer autoformer fedformer timemixer timexer tsmixer": ("patchtst", "tft"),
    "nlinear bitcn lstnet": ("dlinear", "nhits"),
    "schnet dimenet painn egnn mace pna mpnn gatedgcn graphormer gps": ("graphsage",),
    "embeddinggemma sentence_t5 instructor": ("nomic-embed-text-v1.5", "e5-base-v2"),
    "neobert": ("modernbert-base", "eurobert-210m"),
    "slowfast slowonly x3d i3d tsm tsn": ("r2plus1d_18", "s3d"),
    "videomae timesformer uniformer vivit": ("mvit_v2_s", "swin3d_t"),
    "whisper xls_r xlsr data2vec": ("wav2vec2-base", "hubert-base"),
    "birdnet perch": ("spec/efficientnet_b0",),
    "yolov6 yolov7 yolov9 yolov10 yolo_nas": ("yolo11m", "yolov8m"),
    "atss vfnet gfl paa": ("retinanet/resnet50", "fcos/resnet50"),
    "htc detectors": ("cascadercnn/resnet50",),
    "deim co_dino co_detr conditional_detr dab_detr": ("dino-4scale-r50", "rtdetr-r50"),
    "oneformer": ("mask2former-swin-b",),
    "segnext transunet": ("segformer-b2", "unet/resnet50"),
    "saint node deepfm modernnca autoint dcn": ("ft-transformer", "tabm"),
    "dlrm ncf neumf bpr item2vec": ("two-tower", "als"),
    "naive_bayes": ("tfidf-linear",),
    "blip blip2 blip_2 deplot matcha pix2struct": ("caption/vit_base_patch16_224",),
    "vnet v_net u_mamba umamba": ("unet3d", "segresnet"),
}
"""Names as `normal_model_name` writes them -> rows of the catalogue."""

_KIN = {name: kin for names, kin in KIN.items() for name in names.split()}
_NAME = re.compile(rf"^(?:.*/)?({'|'.join(sorted(_KIN, key=len, reverse=True))})(?:[a-z]?$|[\W_\d].*)")


def kin_of(name: str) -> tuple[str, ...]:
    """The rows nearest in kind to a model that is known and not priced; none for any other name."""
    found = _NAME.fullmatch(name)
    return _KIN[found[1]] if found else ()
