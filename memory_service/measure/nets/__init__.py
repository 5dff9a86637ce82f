"""Small networks for tables, small images, series, points, molecules and clicks."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from memory_service.measure.nets.dense import CspDetector, SmallCnn, UNet3d
from memory_service.measure.nets.points import Chemprop, Dgcnn, GraphSage, PointNet, PointTransformer, UniMol
from memory_service.measure.nets.series import (
    BagOfWords,
    Gru4Rec,
    InceptionTime,
    Recurrent,
    ResNet1d,
    SelfAttentiveHistory,
    SeriesTransformer,
    TwoTower,
    WaveNet,
)
from memory_service.measure.nets.tables import FtTransformer, Mlp, RealMlp, TabM, TabNet, TabularResNet

Form = Literal["table", "image", "detector", "volume", "series", "items"]
"""table (batch, features) | image, detector (batch, channels, side, side) | volume (batch, channels, side,
side, side) | series (batch, channels, steps) | items (batch, length) of numbers"""

NETS: dict[str, tuple[Form, Callable[..., nn.Module]]] = {
    "mlp": ("table", Mlp),
    "tabular-resnet": ("table", TabularResNet),
    "ft-transformer": ("table", FtTransformer),
    "tabm": ("table", TabM),
    "realmlp": ("table", RealMlp),
    "small-cnn": ("image", SmallCnn),
    "resnet1d": ("series", ResNet1d),
    "inceptiontime": ("series", InceptionTime),
    "tabnet": ("table", TabNet),
    "yolox": ("detector", partial(CspDetector, v8=False)),
    "yolov8": ("detector", partial(CspDetector, v8=True)),
    "unet3d": ("volume", UNet3d),
    "wavenet": ("series", WaveNet),
    "graphsage": ("series", GraphSage),
    "chemprop": ("series", Chemprop),
    "uni-mol": ("series", UniMol),
    "recurrent": ("series", Recurrent),
    "series-transformer": ("series", SeriesTransformer),
    "pointnet": ("series", PointNet),
    "dgcnn": ("series", Dgcnn),
    "point-transformer": ("series", PointTransformer),
    "two-tower": ("items", TwoTower),
    "bag-of-words": ("items", BagOfWords),
    "sasrec": ("items", SelfAttentiveHistory),
    "gru4rec": ("items", Gru4Rec),
}
"""Config name -> form of the input, constructor(features | channels | history, outputs, **figures)."""
