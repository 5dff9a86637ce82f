"""Profiles of networks that other packages build, traced into seeds/ so that asking needs none of them.

    python -m benchmarks.packaged_profiles [NAME ...]    those that seeds/ lacks, or these anew

A catalogue row says in `config.traced_with` which package; here is how its module is made. The loss of a
detector is dense over all logits and boxes, auxiliary ones included: matching, mosaic and denoising queries
(RT-DETR, D-FINE, DINO: 100 to 200 beside 300 to 900) are left out. Of a matcher of points the
networks are traced without the choice of points, which reads values. Rows of ultralytics, monai, effdet,
neuralforecast, pytorchvideo and kornia want these packages beside the environment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.caching_allocator import holes, simulated
from memory_service.domain.planning.model_catalogue import CatalogueModel
from memory_service.measure.dense_prediction import _backbone, _TwoStage, dense_detection_loss, mask_loss
from memory_service.measure.language import _register_unmasked_attention
from memory_service.measure.nets.series import FusedRecurrence
from memory_service.measure.trace import trace_profile
from memory_service.measure.traceable_model import BuiltModel, classification_loss, on_meta, zeros
from memory_service.resources import path as resource
from memory_service.services.knowledge.profiling import (
    SOURCE,
    _key,
    _read_raw,
    catalogue_models,
    write_profiles,
)

COCO = 80


class Boxes(nn.Module):
    """The outputs of a detector as {"logits": [...], "boxes": [...]}, whatever its package calls them."""

    def __init__(self, module: nn.Module, named: Callable[[Any], dict[str, list[Tensor]]]) -> None:
        super().__init__()
        self.module, self.named = module, named

    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        return self.named(self.module(x))


class Masks(Boxes):
    """Logits of masks at the size of the picture."""

    def forward(self, x: Tensor) -> Any:
        return functional.interpolate(
            self.module(x).logits, size=x.shape[-2:], mode="bilinear", align_corners=False
        )


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    children = value.values() if isinstance(value, Mapping) else value or ()
    return [tensor for each in children for tensor in _tensors(each)]


def _ultralytics(name: str) -> nn.Module:
    from ultralytics.nn.tasks import DetectionModel

    def named(out: Any) -> dict[str, list[Tensor]]:
        kept = {k: out[k] for k in ("boxes", "scores", "one2many", "one2one") if k in out}
        for group in [kept, *kept.values()]:
            if isinstance(group, dict):
                group.pop("feats", None)
        return {"logits": _tensors(kept)}

    module = DetectionModel(f"{name}.yaml", nc=COCO, verbose=False).float().train()
    module.model[-1].train = lambda _mode=True: module.model[-1]  # decoded boxes read values
    return Boxes(module, named)


def _detr_outputs(out: Any) -> dict[str, list[Tensor]]:
    auxiliary = {k: v for k, v in out.items() if k in ("intermediate_logits", "enc_outputs_class")}
    others = [out.get("intermediate_reference_points"), out.get("enc_outputs_coord_logits")]
    return {"logits": _tensors([out.logits, auxiliary]), "boxes": _tensors([out.pred_boxes, others])}


_HGNET: dict[str, tuple[tuple[int, ...], tuple[tuple[int, int, int, int], ...], int]] = {
    "b0": ((3, 16, 16), ((16, 16, 64, 1), (64, 32, 256, 1), (256, 64, 512, 2), (512, 128, 1024, 1)), 3),
    "b2": ((3, 24, 32), ((32, 32, 96, 1), (96, 64, 384, 1), (384, 128, 768, 3), (768, 256, 1536, 1)), 4),
    "b4": ((3, 32, 48), ((48, 48, 128, 1), (128, 96, 512, 1), (512, 192, 1024, 3), (1024, 384, 2048, 1)), 6),
    "b5": ((3, 32, 64), ((64, 64, 128, 1), (128, 128, 512, 2), (512, 256, 1024, 5), (1024, 512, 2048, 2)), 6),
}
"""HGNetV2: channels of the stem; (in, middle, out, blocks) of each stage; layers of a block."""

_DFINE: dict[str, tuple[str, dict[str, Any]]] = {
    "s": ("b0", {"decoder_layers": 3, "depth_mult": 0.34, "hidden_expansion": 0.5}),
    "m": ("b2", {"decoder_layers": 4, "depth_mult": 0.67}),
    "l": ("b4", {}),
    "x": ("b5", {"encoder_hidden_dim": 384, "encoder_ffn_dim": 2048, "decoder_in_channels": [384] * 3}),
}


def _dfine(size: str) -> nn.Module:
    import transformers

    kind, figures = _DFINE[size]
    stem, stages, layers = _HGNET[kind]
    into, middle, out, blocks = (list(each) for each in zip(*stages, strict=True))
    backbone = transformers.HGNetV2Config(
        stem_channels=list(stem), stage_in_channels=into, stage_mid_channels=middle, stage_out_channels=out,
        stage_num_blocks=blocks, stage_numb_of_layers=[layers] * 4, hidden_sizes=out, depths=blocks,
        use_learnable_affine_block=kind in ("b0", "b2"), out_indices=[2, 3, 4],
    )  # fmt: skip
    config = transformers.DFineConfig(
        backbone_config=backbone, encoder_in_channels=out[1:], num_labels=COCO, **figures
    )
    return Boxes(transformers.DFineForObjectDetection(config).train(), _detr_outputs)


_RTDETR: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "r18": ({"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"},
            {"hidden_expansion": 0.5, "decoder_layers": 3, "encoder_in_channels": [128, 256, 512]}),
    "r34": ({"depths": [3, 4, 6, 3], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"},
            {"hidden_expansion": 0.5, "decoder_layers": 4, "encoder_in_channels": [128, 256, 512]}),
    "r50": ({}, {}),
    "r101": ({"depths": [3, 4, 23, 3]},
             {"encoder_hidden_dim": 384, "encoder_ffn_dim": 2048, "decoder_in_channels": [384] * 3}),
}  # fmt: skip


def _rtdetr(size: str) -> nn.Module:
    import transformers

    backbone, figures = _RTDETR[size]
    stages = transformers.RTDetrResNetConfig(out_indices=[2, 3, 4], **backbone)
    config = transformers.RTDetrConfig(backbone_config=stages, num_labels=COCO, **figures)
    return Boxes(transformers.RTDetrForObjectDetection(config).train(), _detr_outputs)


_RFDETR = {"nano": 2, "small": 3, "medium": 4, "large": 4}
"""Layers of the decoder."""


def _rfdetr(size: str, pixels: int) -> nn.Module:
    import transformers

    base = size == "base"
    backbone = transformers.RfDetrDinov2Config(
        hidden_size=384, num_attention_heads=6, image_size=pixels, patch_size=14 if base else 16,
        num_windows=4 if base else 2, out_indices=[2, 5, 8, 11] if base else [3, 6, 9, 12],
    )  # fmt: skip
    config = transformers.RfDetrConfig(
        backbone_config=backbone, decoder_layers=_RFDETR.get(size, 3), num_labels=COCO
    )
    return Boxes(transformers.RfDetrForObjectDetection(config).train(), _detr_outputs)


def _timm(name: str, levels: list[int]) -> Any:
    import transformers

    return transformers.TimmBackboneConfig(
        backbone=name, use_pretrained_backbone=False, out_indices=levels, features_only=True
    )


def _detr(kind: str) -> nn.Module:
    """DETR; Deformable DETR; DINO as a two-stage Deformable DETR of 900 queries with refined boxes."""
    import transformers

    if kind == "detr":
        config = transformers.DetrConfig(
            backbone_config=_timm("resnet50", [1, 2, 3, 4]), num_labels=91, auxiliary_loss=True
        )
        plain = transformers.DetrForObjectDetection._from_config(
            config, attn_implementation=_register_unmasked_attention()
        )
        return Boxes(
            plain.train(),
            lambda out: {
                "logits": _tensors([out.logits, [a["logits"] for a in out.auxiliary_outputs or ()]]),
                "boxes": _tensors([out.pred_boxes, [a["pred_boxes"] for a in out.auxiliary_outputs or ()]]),
            },
        )
    dino = kind.startswith("dino")
    figures = {"two_stage": True, "with_box_refine": True, "num_queries": 900, "encoder_ffn_dim": 2048,
               "decoder_ffn_dim": 2048, "two_stage_num_proposals": 900} if dino else {}  # fmt: skip
    backbone = _swin("l", 3) if kind.endswith("swin-l") else _timm("resnet50", [2, 3, 4])
    config = transformers.DeformableDetrConfig(backbone_config=backbone, num_labels=COCO, **figures)
    module = transformers.DeformableDetrForObjectDetection(config).train()
    return Boxes(module, _detr_outputs)


_SWIN = {
    "t": (96, [2, 2, 6, 2], [3, 6, 12, 24], 7), "s": (96, [2, 2, 18, 2], [3, 6, 12, 24], 7),
    "b": (128, [2, 2, 18, 2], [4, 8, 16, 32], 12), "l": (192, [2, 2, 18, 2], [6, 12, 24, 48], 12),
}  # fmt: skip


def _swin(size: str, levels: int) -> Any:
    """Swin with its last `levels` stages as features."""
    import transformers

    width, depths, heads, window = _SWIN[size]
    return transformers.SwinConfig(
        embed_dim=width, depths=depths, num_heads=heads, window_size=window,
        out_features=["stage1", "stage2", "stage3", "stage4"][-levels:],
    )  # fmt: skip


def _mask2former(encoder: str) -> nn.Module:
    import transformers

    config = transformers.Mask2FormerConfig(
        backbone_config=_swin(encoder, 4), num_labels=150, num_queries=200 if encoder == "l" else 100,
        output_auxiliary_logits=True,
    )  # fmt: skip

    def named(out: Any) -> dict[str, list[Tensor]]:
        auxiliary = out.auxiliary_logits or []
        classes = [out.class_queries_logits, [a["class_queries_logits"] for a in auxiliary]]
        masks = [out.masks_queries_logits, [a["masks_queries_logits"] for a in auxiliary]]
        return {"logits": _tensors([classes, masks])}

    return Boxes(transformers.Mask2FormerForUniversalSegmentation(config).train(), named)


def _sam3(pixels: int) -> nn.Module:
    """The picture encoder of SAM 3 with its pyramid."""
    import transformers

    body = {"model_type": "sam3_vit_model", "image_size": pixels}
    config = transformers.Sam3VisionConfig(backbone_config=body)
    module = transformers.Sam3VisionModel._from_config(config, attn_implementation="sdpa")
    return Boxes(module.train(), lambda out: {"logits": _tensors(out.fpn_hidden_states), "boxes": []})


_MIT = {
    "b0": ([2, 2, 2, 2], [32, 64, 160, 256], 256), "b1": ([2, 2, 2, 2], [64, 128, 320, 512], 256),
    "b2": ([3, 4, 6, 3], [64, 128, 320, 512], 768), "b3": ([3, 4, 18, 3], [64, 128, 320, 512], 768),
    "b4": ([3, 8, 27, 3], [64, 128, 320, 512], 768), "b5": ([3, 6, 40, 3], [64, 128, 320, 512], 768),
}  # fmt: skip


def _segformer(size: str) -> nn.Module:
    """With q and k multiplied in full, as its authors, OpenMMLab, smp and transformers before 5 do."""
    import transformers

    depths, widths, decoder = _MIT[size]
    config = transformers.SegformerConfig(
        depths=depths, hidden_sizes=widths, decoder_hidden_size=decoder, num_labels=1
    )
    plain = transformers.SegformerForSemanticSegmentation._from_config(config, attn_implementation="eager")
    return Masks(plain.train(), _detr_outputs)


def _monai(name: str, side: int) -> nn.Module:
    from monai.networks import nets

    makers: dict[str, Callable[[], nn.Module]] = {
        "swin-unetr": lambda: nets.SwinUNETR(in_channels=1, out_channels=3, feature_size=48),
        "unetr": lambda: nets.UNETR(1, 3, (side, side, side), feature_size=16),
        "segresnet": lambda: nets.SegResNet(in_channels=1, out_channels=3, init_filters=32,
                                            blocks_down=(1, 2, 2, 4, 4), blocks_up=(1, 1, 1, 1)),
        "mednext-m": lambda: nets.MedNeXtM(spatial_dims=3, in_channels=1, out_channels=3,
                                           deep_supervision=True),
    }  # fmt: skip
    return makers[name]().train()


class _Cascade(_TwoStage):
    """Cascade R-CNN: three box heads, each on regions of its own."""

    def __init__(self, backbone: nn.Module, classes: int, *, masks: bool) -> None:
        from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead

        super().__init__(backbone, classes, masks=masks)
        self.heads = nn.ModuleList(
            nn.Sequential(TwoMLPHead(256 * 7 * 7, 1024), FastRCNNPredictor(1024, classes)) for _ in range(2)
        )
        self.later: list[Any] = []

    def _regions(self, feature: Tensor, count: int, side: int) -> Tensor:
        regions = super()._regions(feature, count, side)
        if side == 7:
            for head in self.heads:
                self.later += head(super()._regions(feature, count, side))
        return regions

    def forward(self, x: Tensor) -> dict[str, Any]:
        self.later = []
        return {**super().forward(x), "later_logits": self.later}


class _CenterNet(nn.Module):
    """Objects as points: ResNet-18, three deformable and transposed convolutions, three heads at stride 4."""

    def __init__(self, classes: int) -> None:
        import timm
        from torchvision.ops import DeformConv2d

        super().__init__()
        self.body = timm.create_model("resnet18", features_only=True, out_indices=(4,))
        self.offsets, self.deformed, self.up = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for before, after in ((512, 256), (256, 128), (128, 64)):
            self.offsets.append(nn.Conv2d(before, 27, 3, padding=1))
            self.deformed.append(DeformConv2d(before, after, 3, padding=1, bias=False))
            self.up.append(
                nn.Sequential(
                    nn.BatchNorm2d(after), nn.ReLU(inplace=True),
                    nn.ConvTranspose2d(after, after, 4, 2, 1, bias=False),
                    nn.BatchNorm2d(after), nn.ReLU(inplace=True),
                )
            )  # fmt: skip
        self.heads = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(64, out, 1))
            for out in (classes, 2, 2)
        )

    def forward(self, x: Tensor) -> dict[str, Any]:
        x = self.body(x)[0]
        for offsets, deformed, up in zip(self.offsets, self.deformed, self.up, strict=True):
            where = offsets(x)
            x = up(deformed(x, where[:, :18], where[:, 18:].sigmoid()))
        logits, *boxes = (head(x) for head in self.heads)
        return {"logits": logits, "boxes": boxes}


def _efficientdet(name: str, pixels: int) -> nn.Module:
    from effdet import EfficientDet, get_efficientdet_config

    config = get_efficientdet_config(f"tf_{name.replace('-', '_')}")
    config.image_size = (pixels, pixels)
    module = EfficientDet(config, pretrained_backbone=False).train()
    return Boxes(module, lambda out: {"logits": _tensors(out[0]), "boxes": _tensors(out[1])})


FORECASTERS = {
    "nhits": "NHITS", "nbeats": "NBEATS", "tft": "TFT", "deepar": "DeepAR", "dlinear": "DLinear",
    "tide": "TiDE",
}  # fmt: skip
"""Row -> class of neuralforecast, whose own defaults (3.3.0) are taken."""

HORIZON = 4
"""Steps read for each step forecast."""


class _Lstm(nn.Module):
    """cuDNN's LSTM as `FusedRecurrence` has it, with the interface of torch's; states are not carried on."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, **_others: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            FusedRecurrence(hidden_size if index else input_size, hidden_size, 4, 1)
            for index in range(num_layers)
        )

    def forward(self, x: Tensor, _states: Any = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        last = []
        for layer in self.layers:
            x = layer(x)
            last.append(x[:, -1])
        states = torch.stack(last)
        return x, (states, states)


class _Windows(nn.Module):
    """A network of neuralforecast over windows of one series without other columns."""

    def __init__(self, kind: str, steps: int) -> None:
        import neuralforecast.models

        super().__init__()
        with mock.patch("torch.nn.LSTM", _Lstm):
            self.module = getattr(neuralforecast.models, kind)(h=steps // HORIZON, input_size=steps)

    def forward(self, x: Tensor) -> Tensor:
        window = {"insample_y": x, "insample_mask": torch.ones_like(x)}
        out = self.module.forward({**window, **dict.fromkeys(("futr_exog", "hist_exog", "stat_exog"))})
        return torch.cat(_tensors(list(out)), dim=-1) if isinstance(out, tuple) else out


_VIDEO = {
    "x3d_s": 13, "x3d_m": 16, "x3d_l": 16, "csn_r101": 32, "i3d_r50": 8, "slow_r50": 8,
    "slowfast_r50": 32, "slowfast_r101": 32,
}  # fmt: skip
"""Frames of a clip, as trained (pytorchvideo's model zoo)."""


class _Pathways(nn.Module):
    """SlowFast of a clip: each fourth frame for the slow path."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Any:
        return self.module([x[:, :, ::4], x])


def _video(name: str) -> nn.Module:
    from pytorchvideo.models import hub

    module = getattr(hub, name)(pretrained=False)
    if name.startswith("slowfast"):
        return _Pathways(module.train())
    return module.train()  # type: ignore[no-any-return]


POINTS = 1024
"""Of each picture of a pair."""


class _SuperPoint(nn.Module):
    """Scores and descriptors of each cell of 8 pixels."""

    def __init__(self) -> None:
        import transformers

        super().__init__()
        self.module = transformers.SuperPointForKeypointDetection(transformers.SuperPointConfig()).train()

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        module = self.module
        encoded = module.encoder(x[:, :1])[0]
        points, descriptors = module.keypoint_decoder, module.descriptor_decoder
        return {
            "logits": points.conv_score_b(points.relu(points.conv_score_a(encoded))),
            "boxes": descriptors.conv_descriptor_b(descriptors.relu(descriptors.conv_descriptor_a(encoded))),
        }


class _LightGlue(nn.Module):
    """SuperPoint on both pictures, nine layers over the points of both, a score of each pair of points."""

    def __init__(self) -> None:
        import transformers
        from transformers.models.lightglue import modeling_lightglue

        super().__init__()
        config = transformers.LightGlueConfig(attn_implementation="sdpa")
        self.points = _SuperPoint()
        self.position = modeling_lightglue.LightGluePositionalEncoder(config)
        self.layers = nn.ModuleList(
            modeling_lightglue.LightGlueTransformerLayer(config, i) for i in range(config.num_hidden_layers)
        )
        self.match = nn.Linear(config.descriptor_dim, config.descriptor_dim)

    def forward(self, x: Tensor) -> dict[str, Any]:
        found = self.points(x.flatten(0, 1))
        dense = found["boxes"].flatten(2).transpose(1, 2)
        chosen = dense[:, :POINTS]
        position = self.position(chosen[..., :2])
        position = position[0] if isinstance(position[0], tuple) else position
        for layer in self.layers:
            chosen = layer(chosen, position, attention_mask=None)[0]
        one, other = self.match(chosen).unflatten(0, (-1, 2)).unbind(1)
        return {"logits": [one @ other.transpose(1, 2)], "boxes": [found["logits"]]}


class _Loftr(nn.Module):
    """LoFTR's features and coarse attention over both pictures, and the scores of all pairs of cells."""

    def __init__(self) -> None:
        import kornia.feature

        super().__init__()
        self.module = kornia.feature.LoFTR(pretrained=None).train()

    def forward(self, x: Tensor) -> dict[str, Any]:
        coarse, fine = self.module.backbone(x[:, :, :1].flatten(0, 1))
        cells = self.module.pos_encoding(coarse).flatten(2).transpose(1, 2).unflatten(0, (-1, 2))
        one, other = self.module.loftr_coarse(cells[:, 0].contiguous(), cells[:, 1].contiguous())
        return {"logits": [one @ other.transpose(1, 2)], "boxes": [fine]}


def _matcher(name: str) -> nn.Module:
    if name == "superpoint":
        return _SuperPoint()
    if name == "lightglue":
        return _LightGlue()
    if name == "loftr":
        return _Loftr()
    import kornia.feature

    if name == "disk":
        return Boxes(kornia.feature.DISK().unet.train(), lambda out: {"logits": [out], "boxes": []})
    aliked = kornia.feature.ALIKED(model_name="aliked-n16").train()
    aliked.forward = aliked.extract_dense_map
    return Boxes(aliked, lambda out: {"logits": _tensors(list(out)), "boxes": []})


MATCHERS = {"superpoint": 1, "disk": 1, "aliked": 1, "lightglue": 2, "loftr": 2}
"""Pictures of a sample."""


def _absolute_error(outputs: Any, _inputs: Any) -> Tensor:
    return outputs.abs().mean()  # type: ignore[no-any-return]


def build(name: str, pixels: int) -> tuple[nn.Module, tuple[int, ...], Any]:
    """The module, the shape of one sample and the loss."""
    picture, volume = (3, pixels, pixels), (1, pixels, pixels, pixels)
    if name in FORECASTERS:
        return _Windows(FORECASTERS[name], pixels), (pixels, 1), _absolute_error
    if name in _VIDEO:
        return _video(name), (3, _VIDEO[name], pixels, pixels), classification_loss
    if name in MATCHERS:
        pair = (2, *picture) if MATCHERS[name] == 2 else picture
        return _matcher(name), pair, dense_detection_loss
    if name.startswith("yolo"):
        return _ultralytics(name), picture, dense_detection_loss
    for prefix, maker in (("rtdetr-", _rtdetr), ("d-fine-", _dfine)):
        if name.startswith(prefix):
            return maker(name.removeprefix(prefix)), picture, dense_detection_loss
    if name == "sam3" or name.startswith("rf-detr-"):
        module = _sam3(pixels) if name == "sam3" else _rfdetr(name.removeprefix("rf-detr-"), pixels)
        return module, picture, dense_detection_loss
    if name in ("detr", "deformable-detr", "dino-4scale-r50", "dino-4scale-swin-l"):
        return _detr(name), picture, dense_detection_loss
    if name.startswith("efficientdet-"):
        return _efficientdet(name, pixels), picture, dense_detection_loss
    if name == "centernet-r18":
        return _CenterNet(COCO), picture, dense_detection_loss
    if name.startswith("cascadercnn/"):
        body = _backbone(name.partition("/")[2], pixels, two_stage=True)
        return _Cascade(body, 91, masks=False), picture, dense_detection_loss
    if name.startswith("mask2former-swin-"):
        return _mask2former(name.removeprefix("mask2former-swin-")), picture, dense_detection_loss
    if name.startswith("segformer-"):
        return _segformer(name.removeprefix("segformer-")), picture, mask_loss
    return _monai(name, pixels), volume, mask_loss


def traced(name: str, pixels: int, precision: Any, row: CatalogueModel) -> dict[str, Any]:
    made: list[Any] = []

    def construct() -> nn.Module:
        made[:] = build(name, pixels)
        return made[0]  # type: ignore[no-any-return]

    module, library, family = on_meta(construct), row.library, row.family
    inputs, loss = zeros(x=made[1]), made[2]
    built = BuiltModel(
        name, library, family, module, row.input_kind, pixels, row.default_input_size, COCO, inputs, loss
    )
    finite = mock.patch("torch.isfinite", return_value=mock.Mock(all=lambda: True))
    checks = mock.patch("transformers.models.d_fine.modeling_d_fine.torch_compilable_check")
    with finite, checks, simulated() as allocator:  # the first two read values
        profile = trace_profile(built, precision=precision)
    raw = profile.as_dict()
    if unused := holes(allocator):
        raw["extra"]["largest_conv_bytes"]["holes"] = unused
    return {**raw, "source": SOURCE, "grade": "estimated"}


def sizes_of(row: CatalogueModel) -> list[int]:
    """Its usual sizes; a larger one beside a single one, which tells how the network grows; of YOLOs with
    attention those where its maps outgrow all else."""
    sizes = list(row.input_sizes)
    if row.name.startswith(("yolo11", "yolo12", "yolo26")):
        sizes.extend([1280, 2560, 4096])
    elif len(sizes) == 1 and row.input_kind == "image_size":
        sizes.append(sizes[0] * 3 // 2 if row.library == "monai" else 2 * sizes[0])
    return sizes


def main(names: list[str]) -> None:
    folder = resource("seeds")
    path = folder / "profiles.jsonl.gz"
    have = {_key(raw): raw for raw in _read_raw(path)}
    for row in catalogue_models(folder):
        if "traced_with" not in row.config or (names and row.name not in names):
            continue
        for pixels in sizes_of(row):
            if names or (row.name, pixels, "amp", True, False, True) not in have:
                raw = traced(row.name, pixels, "amp", row)
                have[_key(raw)] = raw
                print(row.name, pixels, f"{raw['params'] / 1e6:.1f} M", flush=True)
    write_profiles(have.values(), path)


if __name__ == "__main__":
    main(sys.argv[1:])
