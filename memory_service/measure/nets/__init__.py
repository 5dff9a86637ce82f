"""Small networks for tables, small images, series, points, molecules and clicks."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from memory_service.measure.nets import dense, points, series, tables

Form = Literal["table", "image", "maps", "detector", "volume", "series", "items"]
"""table (batch, features) | image, maps, detector (batch, channels, side, side) | volume (batch, channels,
side, side, side) | series (batch, channels, steps) | items (batch, length) of numbers"""


def _box_network(_: int, outputs: int, width: int) -> nn.Module:
    from memory_service.train.masks import unet  # needs pandas, as scripts do

    network: nn.Module = unet(width, outputs + 4, 1)
    return network


NETS: dict[str, tuple[Form, Callable[..., nn.Module]]] = {
    "mlp": ("table", tables.mlp),
    "tabular-resnet": ("table", tables.TabularResNet),
    "ft-transformer": ("table", tables.FtTransformer),
    "tabm": ("table", tables.TabM),
    "realmlp": ("table", tables.RealMlp),
    "small-cnn": ("image", dense.small_cnn),
    "box-network": ("maps", _box_network),
    "resnet1d": ("series", series.ResNet1d),
    "inceptiontime": ("series", series.InceptionTime),
    "tabnet": ("table", tables.TabNet),
    "yolox": ("detector", partial(dense.CspDetector, v8=False)),
    "yolov8": ("detector", partial(dense.CspDetector, v8=True)),
    "unet3d": ("volume", dense.unet_3d),
    "wavenet": ("series", series.WaveNet),
    "graphsage": ("series", points.GraphSage),
    "chemprop": ("series", points.Chemprop),
    "uni-mol": ("series", points.UniMol),
    "recurrent": ("series", series.Recurrent),
    "series-transformer": ("series", series.SeriesTransformer),
    "pointnet": ("series", points.PointNet),
    "dgcnn": ("series", points.Dgcnn),
    "point-transformer": ("series", points.PointTransformer),
    "two-tower": ("items", series.TwoTower),
    "bag-of-words": ("items", series.BagOfWords),
    "sasrec": ("items", series.SelfAttentiveHistory),
    "gru4rec": ("items", series.Gru4Rec),
}
"""Config name -> form of the input, constructor(features | channels | history, outputs, **figures)."""
