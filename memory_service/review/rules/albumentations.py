"""Which traps of albumentations does the script walk into?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from memory_service.review.facts import Facts
from memory_service.review.findings import Finding, finding
from memory_service.review.outputs import last_assigned
from memory_service.review.script import Function, last_name, words

__all__ = ["albumentations_rules"]

_GONE = {
    "Cutout": "A.CoarseDropout(p=0.5)",
    "Flip": "A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)",
    "JpegCompression": "A.ImageCompression(quality_range=(80, 100))",
    "RandomBrightness": "A.RandomBrightnessContrast(p=0.5)",
    "RandomContrast": "A.RandomBrightnessContrast(p=0.5)",
    "Lambda_": "",
    "IAAPiecewiseAffine": "A.PiecewiseAffine()",
    "IAAAdditiveGaussianNoise": "A.GaussNoise()",
    "IAASharpen": "A.Sharpen()",
    "IAAEmboss": "A.Emboss()",
    "IAAFliplr": "A.HorizontalFlip()",
    "IAAPerspective": "A.Perspective()",
    "IAAAffine": "A.Affine()",
    "IAAFlipud": "A.VerticalFlip()",
    "IAASuperpixels": "A.Superpixels()",
    "MaskDropout_": "",
    "GlassBlur_": "",
}
_RENAMED = {
    ("GaussNoise", "var_limit"): "std_range=(0.1, 0.2)",
    ("CoarseDropout", "max_holes"): "num_holes_range=(1, 8)",
    ("CoarseDropout", "max_height"): "hole_height_range=(0.1, 0.2)",
    ("CoarseDropout", "max_width"): "hole_width_range=(0.1, 0.2)",
    ("CoarseDropout", "min_holes"): "num_holes_range=(1, 8)",
    ("ImageCompression", "quality_lower"): "quality_range=(80, 100)",
    ("ImageCompression", "quality_upper"): "quality_range=(80, 100)",
    ("Downscale", "scale_min"): "scale_range=(0.25, 0.5)",
    ("RandomResizedCrop", "height"): "size=(height, width)",
    ("RandomResizedCrop", "width"): "size=(height, width)",
    ("RandomSizedCrop", "height"): "size=(height, width)",
    ("RandomFog", "fog_coef_lower"): "fog_coef_range=(0.1, 0.3)",
    ("PadIfNeeded", "value"): "fill=0",
    ("Rotate", "value"): "fill=0",
    ("ShiftScaleRotate", "value"): "fill=0",
    ("ElasticTransform", "alpha_affine"): "alpha=1, sigma=50 (alpha_affine is gone)",
}
_RANDOM = words(
    "HorizontalFlip VerticalFlip RandomCrop RandomResizedCrop ShiftScaleRotate Rotate ColorJitter "
    "RandomBrightnessContrast CoarseDropout RandomRotate90 Affine HueSaturationValue GaussNoise "
    "Transpose ElasticTransform GridDistortion RandomScale RandomSizedCrop Perspective"
)
_MOVES = _RANDOM - {"ColorJitter", "RandomBrightnessContrast", "HueSaturationValue", "GaussNoise"} | {
    "Resize",
    "CenterCrop",
    "LongestMaxSize",
    "PadIfNeeded",
}


def albumentations_rules(facts: Facts) -> Iterator[Finding]:
    """albumentations-trap."""
    if facts.script.uses("albumentations"):
        yield from _removed(facts)
        yield from _calls(facts)
        yield from _order(facts)
        yield from _normalised(facts)
        yield from _images_of_pil(facts)
    yield from _versions(facts)


def _of_library(facts: Facts, call: ast.AST) -> bool:
    return facts.script.qualified(call).startswith("albumentations.")


def _removed(facts: Facts) -> Iterator[Finding]:
    script = facts.script
    for node in script.all(ast.ImportFrom):
        if (node.module or "").startswith("albumentations.pytorch") and any(
            a.name == "ToTensor" for a in node.names
        ):
            yield finding(
                "albumentations-trap",
                node,
                "ToTensor is gone from albumentations.pytorch.",
                "from albumentations.pytorch import ToTensorV2",
            )
    for call in script.calls:
        if not _of_library(facts, call.func):
            continue
        name = last_name(call.func)
        if _GONE.get(name):
            yield finding("albumentations-trap", call, f"{name} is gone from albumentations.", _GONE[name])
        for keyword in call.keywords:
            if (name, keyword.arg) in _RENAMED:
                yield finding(
                    "albumentations-trap",
                    call,
                    f"{name} has no {keyword.arg} any more: it is refused, or warned of and ignored.",
                    _RENAMED[name, str(keyword.arg)],
                )
                break
        if name in ("RandomResizedCrop", "RandomSizedCrop") and call.args:
            positional = call.args[:2]
            if (
                name == "RandomResizedCrop"
                and len(positional) == 2
                and all(isinstance(facts.values.one(a), int) for a in positional)
            ):
                yield finding(
                    "albumentations-trap",
                    call,
                    f"{name} takes size=(height, width) now.",
                    f"A.{name}(size=(IMAGE_SIZE, IMAGE_SIZE))",
                )


def _calls(facts: Facts) -> Iterator[Finding]:
    """Called with the image as a positional argument, or without the mask that must move with it."""
    script = facts.script
    moves = any(_of_library(facts, c.func) for c in script.called(*sorted(_MOVES)))
    left_behind: dict[Function | None, bool] = {}
    for call in script.calls:
        name = last_name(call.func)
        made = facts.training.made_by(call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ""
        ours = made == "Compose" or _transform_attribute(facts, call)
        if not ours:
            continue
        if (
            call.args
            and not call.keywords
            and not isinstance(call.args[0], ast.Starred)
            and not script.uses("torchvision.transforms")
        ):
            yield finding(
                "albumentations-trap",
                call,
                f"{name}(image) fails: albumentations takes named arguments and returns a dict.",
                f'{name}(image=image)["image"]',
            )
        given = {k.arg for k in call.keywords}
        if "image" in given and _kept_as_dict(facts, call):
            yield finding(
                "albumentations-trap",
                call,
                f"{name}(image=...) returns a dict; the image in it is not taken out.",
                f'{name}(image=image)["image"]',
            )
        if "image" not in given or given & {"mask", "masks", None} or not moves:
            continue
        function = script.function(call)
        if function not in left_behind:
            left_behind[function] = _has_mask(facts, call)
        if left_behind[function]:
            yield finding(
                "albumentations-trap",
                call,
                "The image is moved and the mask is not: they do not lie on each other any more.",
                f'out = {name}(image=image, mask=mask); image, mask = out["image"], out["mask"]',
            )


def _kept_as_dict(facts: Facts, call: ast.Call) -> bool:
    """What a transform returns is handed on as it is, in a file that never takes `["image"]` of anything."""
    up = facts.script.parents.get(call)
    direct = isinstance(up, ast.Return) or (
        isinstance(up, ast.Tuple) and isinstance(facts.script.parents.get(up), ast.Return)
    )
    return (
        direct
        and not any(
            isinstance(n.slice, ast.Constant) and n.slice.value in ("image", "mask", "image0")
            for n in facts.script.all(ast.Subscript)
        )
        and not any(
            c.args and facts.values.text(c.args[0]) == "image" for c in facts.script.called("get", "pop")
        )
    )


def _transform_attribute(facts: Facts, call: ast.Call) -> bool:
    """`self.transform(...)` of a dataset, in a file whose transforms are albumentations'."""
    name = last_name(call.func)
    if (
        not re.fullmatch(r"(\w+_)?(transforms?|augs?|augment(ation)?s?|tfms?|tf|aug_?fn|albu)", name)
        or name in facts.script.functions
    ):
        return False
    if isinstance(call.func, ast.Attribute) and last_name(call.func.value) not in ("self", _own(facts, call)):
        return False
    if isinstance(call.func, ast.Name) and facts.script.imports.get(name):
        return False
    return bool(facts.script.called("Compose"))


def _own(facts: Facts, node: ast.AST) -> str:
    """What a method calls its object: `self`, or another first parameter."""
    function = facts.script.function(node)
    if function is None or facts.script.class_of(function) is None or not function.args.args:
        return "self"
    return function.args.args[0].arg


def _has_mask(facts: Facts, call: ast.Call) -> bool:
    function = facts.script.function(call)
    if function is None:
        return False
    names = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    masks = {
        n
        for n in names
        if re.fullmatch(r"(\w+_)?masks?(_\w+)?|seg(mentation)?|msk|gt|annotation", n, re.IGNORECASE)
    }
    read = [
        a.value for a in ast.walk(function) if isinstance(a, ast.Assign) and isinstance(a.value, ast.Call)
    ]
    if not masks and not any(_reads_mask(call) for call in read) and not _returns_layers(facts, function):
        return False
    others = [
        c
        for c in ast.walk(function)
        if isinstance(c, ast.Call) and any(k.arg in ("mask", "masks") for k in c.keywords)
    ]
    return not others


def _returns_layers(facts: Facts, function: Function) -> bool:
    """In a script of segmentation, an item whose second part is an array made a tensor: a mask."""
    if facts.asked.task != "image-segmentation" and not facts.script.uses("segmentation_models_pytorch"):
        return False
    return function.name == "__getitem__" and any(
        isinstance(n, ast.Return)
        and isinstance(n.value, ast.Tuple)
        and len(n.value.elts) > 1
        and any(
            isinstance(c, ast.Call) and last_name(c.func) in ("from_numpy", "as_tensor")
            for c in ast.walk(n.value.elts[1])
        )
        for n in ast.walk(function)
    )


def _reads_mask(call: ast.Call) -> bool:
    """`cv2.imread(path.replace("/img/", "/mask/"), 0)`, whatever the result is called."""
    if last_name(call.func) not in ("imread", "open", "load", "read_image", "decode_png"):
        return False
    said = [n.value for n in ast.walk(call) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return any(re.search(r"(^|[^a-z])masks?([^a-z]|$)|annotation", text.lower()) for text in said)


def _order(facts: Facts) -> Iterator[Finding]:
    for call in facts.script.called("Compose"):
        if (
            not _of_library(facts, call.func)
            or not call.args
            or not isinstance(call.args[0], ast.List | ast.Tuple)
        ):
            continue
        steps = call.args[0].elts
        names = [last_name(s.func) if isinstance(s, ast.Call) else "" for s in steps]
        if "ToTensorV2" in names:
            behind = (
                [
                    s
                    for s, n in zip(steps, names, strict=True)
                    if names.index("ToTensorV2") < names.index(n) and n
                ]
                if names
                else []
            )
            if behind:
                yield finding(
                    "albumentations-trap",
                    behind[0],
                    f"{last_name(behind[0].func) if isinstance(behind[0], ast.Call) else 'A step'} comes "
                    "behind ToTensorV2, which hands on a tensor that it cannot read.",
                    "A.Normalize(), ToTensorV2()  # in this order, last",
                )
        if names.count("Normalize") > 1:
            yield finding("albumentations-trap", call, "The image is normalised twice.", "one A.Normalize()")
        if any(
            re.search(r"(^|_)(val|valid|validation|test)(_|$|tf)", name.lower())
            for name in _names_of(facts, call)
        ):
            random = [
                s
                for s, n in zip(steps, names, strict=True)
                if n in _RANDOM
                and isinstance(s, ast.Call)
                and facts.values.one(facts.values.argument(s, "p")) not in (1, 0)
            ]
            if random and not re.search(r"tta", facts.script.text):
                yield finding(
                    "albumentations-trap",
                    random[0],
                    "Validation images are changed at random: the score is not of the images, and "
                    "differs each time.",
                    "A.Compose([A.Resize(IMAGE_SIZE, IMAGE_SIZE), A.Normalize(), ToTensorV2()])",
                )


def _names_of(facts: Facts, call: ast.Call) -> list[str]:
    """What a transform is called: its own key of a dict of transforms, else the names that it is given to."""
    held = facts.script.parents.get(call)
    if isinstance(held, ast.Dict) and len(held.values) <= 50:
        keys = (k for k, v in zip(held.keys, held.values, strict=True) if v is call and k is not None)
        return [text for key in keys if (text := facts.values.text(key))]
    target = facts.script.statement(call)
    return [last_name(t) for t in target.targets] if isinstance(target, ast.Assign) else []


def _normalised(facts: Facts) -> Iterator[Finding]:
    """Normalize divides by max_pixel_value = 255 itself: mean and std are shares of it."""
    for call in facts.script.called("Normalize"):
        if not _of_library(facts, call.func):
            continue
        values = facts.values
        mean, most = values.one(values.argument(call, "mean", 0)), values.argument(call, "max_pixel_value", 2)
        largest = values.number(most) if most is not None else 255.0
        if not isinstance(mean, list) or not mean or not all(isinstance(m, int | float) for m in mean):
            continue
        if max(mean) > 1 and largest is not None and largest > 1:
            yield finding(
                "albumentations-trap",
                call,
                "Normalize divides by 255 itself: a mean over 1 is of pixels that were not divided.",
                "A.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))",
            )


_DATASETS = words(
    "ImageFolder DatasetFolder CIFAR10 CIFAR100 MNIST FashionMNIST SVHN STL10 Food101 OxfordIIITPet"
)


def _images_of_pil(facts: Facts) -> Iterator[Finding]:
    """A picture of PIL where an array is wanted, or a transform given to a data set that calls it plainly."""
    script, values = facts.script, facts.values
    for call in script.called(*sorted(_DATASETS)):
        given = values.argument(call, "transform", 1 if last_name(call.func).endswith("Folder") else None)
        if (
            script.qualified(call.func).startswith("torchvision.")
            and given is not None
            and _composed(facts, given)
        ):
            yield finding(
                "albumentations-trap",
                call,
                f"{last_name(call.func)} calls transform(picture); albumentations wants image=array and "
                "returns a dict.",
                'transform=lambda picture: tfm(image=np.array(picture))["image"]',
            )
    for call in script.calls:
        image = next((k.value for k in call.keywords if k.arg == "image"), None)
        if image is None or not (
            _transform_attribute(facts, call) or facts.training.made_by(call.func) == "Compose"
        ):
            continue
        source = last_assigned(facts, image) if isinstance(image, ast.Name) else image
        while (
            isinstance(source, ast.Call)
            and isinstance(source.func, ast.Attribute)
            and source.func.attr in ("convert", "resize", "crop")
        ):
            source = source.func.value
        if isinstance(source, ast.Call) and script.qualified(source.func) == "PIL.Image.open":
            yield finding(
                "albumentations-trap",
                call,
                "albumentations takes arrays; this is a picture of PIL.",
                f"{last_name(call.func)}(image=np.array(image))",
            )


def _composed(facts: Facts, node: ast.AST) -> bool:
    sources = facts.values.assigned(node.id, node) if isinstance(node, ast.Name) else [node]
    return bool(sources) and all(
        isinstance(s, ast.Call) and last_name(s.func) == "Compose" and _of_library(facts, s.func)
        for s in sources
    )


def _versions(facts: Facts) -> Iterator[Finding]:
    """albucore is pinned by albumentations itself; another one beside it does not import."""
    for number, line in enumerate(facts.script.lines, 1):
        if "pip" in line and "install" in line and re.search(r"\balbucore\b", line):
            yield finding(
                "albumentations-trap",
                number,
                "Each albumentations works with one albucore only, and brings it; another one beside it "
                "does not import.",
                "pip install albumentations==2.0.8  # and nothing about albucore",
            )
