"""Family of an architecture. Models of one family share kernels, so they share residuals.

The name alone decides (the longest known prefix), so that a model nobody listed still finds its kin.
"""

from __future__ import annotations

import re

_OWN_NAMES = (
    "cait coat convmixer crossvit davit dla dpn edgenext efficientformer efficientvit fastvit focalnet "
    "gcvit hgnet hrnet levit mobilevit nextvit pvt regnet regnetz resnest resnetv2 rexnet sequencer "
    "squeezenet swin tnt twins volo xcit"
)
"""Families whose one prefix is their own name."""

_PREFIXES_OF = {
    **{name: name for name in _OWN_NAMES.split()},
    "botnet": (
        "bat_resnext botnet eca_botnext eca_halonext halo2botnet halonet haloregnetz lambda_resnet "
        "lamhalobotnet sebotnet sehalonet"
    ),
    "coatnet": "coatnet coatnext",
    "convnext": "convnext mambaout",
    "cspnet": "cs3 csp darknet sedarknet",
    "densenet": "densenet rdnet tv_densenet",
    "efficientnet": "efficientnet gc_efficientnet tf_efficientnet",
    "efficientnetv2": "efficientnet_v2 efficientnetv2 tf_efficientnetv2",
    "ghostnet": "ghostnet repghostnet",
    "hiera": "hiera sam2_hiera",
    "inception": "adv_inception gluon_inception googlenet inception",
    "maxvit": "maxvit maxxvit",
    "metaformer": "caformer convformer inception_next poolformer",
    "mlpmixer": "gmixer gmlp mixer resmlp",
    "mobilenet": (
        "fasternet fbnet hardcorenas lcnet mixnet mnasnet mobilenet mobileone repvit semnasnet "
        "shufflenet spnasnet starnet tf_mixnet tf_mobilenet tinynet"
    ),
    "mvit": "mvitv2",
    "nasnet": "nasnet pnasnet",
    "nest": "jx_nest nest",
    "nfnet": "dm_nfnet eca_nfnet nf_ nfnet",
    "res2net": "res2net res2next",
    "resnet": "gernet gluon_resnet resnet ssl_resnet swsl_resnet tresnet tv_resnet wide_resnet",
    "resnext": (
        "eca_resnext ecaresnext gcresnext gluon_resnext gluon_seresnext ig_resnext legacy_seresnext "
        "resnext seresnext skresnext ssl_resnext swsl_resnext tv_resnext"
    ),
    "seresnet": (
        "eca_resnet ecaresnet gcresnet gluon_senet gluon_seresnet legacy_senet legacy_seresnet resnetrs "
        "senet seresnet skresnet"
    ),
    "tinyvit": "tiny_vit",
    "vgg": "alexnet repvgg vgg",
    "vit": "aimv2 beit convit deit eva flexivit naflexvit pit samvit test_vit visformer vit",
    "vovnet": "ese_vovnet selecsls vovnet",
    "xception": "gluon_xception legacy_xception xception",
}
"""Family -> prefixes of architecture names, separated by spaces."""

_FAMILY = {prefix: family for family, prefixes in _PREFIXES_OF.items() for prefix in prefixes.split()}
_LONGEST_FIRST = sorted(_FAMILY, key=len, reverse=True)


def family_of(architecture: str) -> str:
    """The family of an architecture name; the name's own first word where no prefix of it is known.

    `tf_efficientnet_b4.ns_jft_in1k` -> "efficientnet", `convnext_base` -> "convnext".
    """
    name = architecture.split(".", 1)[0].lower()
    for prefix in _LONGEST_FIRST:
        if name.startswith(prefix):
            return _FAMILY[prefix]
    return re.split(r"[_\d]", name, maxsplit=1)[0] or name
