"""Which pages are there? Every page of the service, for the tests that look at all of them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PAGES", "Page"]


@dataclass(frozen=True)
class Page:
    """One page.

    path   its URL; of a page about a thing that has another name in every database: where it is linked from
    via    how that link's address begins; "" means `path` is the page. An empty database has no such link.
    again  another question of a page above: it is loaded, but not looked at in both schemes and as on a phone
    needs_seeds   an empty database refuses it: it is about what is shipped; refused: with this status
    """

    path: str
    via: str = ""
    needs_seeds: bool = False
    refused: int = 404
    again: bool = False

    def __str__(self) -> str:
        return f"{self.path} {self.via}".strip()


_COMPARED = ("dog-breed-identification", "cassava-leaf-disease-classification")

PAGES = (
    Page("/browse/runs"),
    Page("/browse/runs?status=completed&sort=-wasted_minutes", again=True),
    Page("/browse/runs", via="/browse/runs/"),
    Page("/browse/runs?by=gpu"),
    Page("/browse/find?q=efficientnet+a100"),
    Page("/browse/techniques"),
    Page("/browse/settings"),
    Page("/browse/operate"),
    Page("/browse/choose"),
    Page("/browse/choose?task=image&n_train=20000&deadline_minutes=120", needs_seeds=True, refused=422),
    Page("/browse/strategies"),
    Page("/browse/strategies?rule=R03&sort=-id", again=True),
    Page("/browse/strategies?table=batch_defaults&view=matrix"),
    Page("/browse/strategies/R03-a100-image-224", needs_seeds=True),
    Page("/browse/edit/strategies/R03-a100-image-224", needs_seeds=True),
    Page("/browse/import/strategies"),
    Page("/browse/sources/001_f1a8d03531b4f492.txt"),
    Page("/browse/devices"),
    Page("/browse/devices/a100", needs_seeds=True),
    Page("/browse/devices", via="/browse/devices/lab"),
    Page("/browse/devices", via="/browse/calibrations/"),
    Page("/"),
    Page("/?task=image&size=medium&gpu=a100&minutes=30", needs_seeds=True, refused=422),
    Page("/?task=image&size=medium&gpu=a100&minutes=30", via="/browse/plans/", needs_seeds=True, refused=422),
    Page("/browse/models"),
    Page("/browse/models?task=image-classification&sort=-quality_score", again=True),
    Page("/browse/models/resnet50.a1_in1k", needs_seeds=True),
    Page("/browse/patterns"),
    Page("/browse/patterns/image-classification-small-model", needs_seeds=True),
    Page("/browse/solutions"),
    Page("/browse/solutions?technique=tta&task=image-classification&sort=-rank", again=True),
    Page("/browse/solutions/LANL-Earthquake-Prediction%231", needs_seeds=True),
    Page("/browse/edit/solutions/LANL-Earthquake-Prediction%231", needs_seeds=True),
    Page("/browse/competitions/LANL-Earthquake-Prediction", needs_seeds=True),
    Page("/browse/competitions"),
    Page("/browse/competitions?q=photos+of+plants&task=image-classification"),
    Page("/browse/competitions/map"),
    Page("/browse/competitions/dog-breed-identification", needs_seeds=True),
    Page(f"/browse/competitions/compare?slug={'&slug='.join(_COMPARED)}", needs_seeds=True),
    Page("/browse/models?group=task&q=efficientnet&columns=family&columns=aliases", again=True),
    Page("/browse/strategies?table=batch_defaults&edit=R03-a100-image-384", needs_seeds=True),
    Page("/browse/sizing"),
    Page("/browse/sizing?q=convnext&image_size=384&show=epoch&gpu=t4,a100", needs_seeds=True, refused=422),
    Page("/browse/sizing/a100/efficientnet_b4.ra2_in1k?image_size=224&batch_size=512", needs_seeds=True),
    Page("/browse/sizing/cpu/lightgbm", needs_seeds=True),
    Page("/browse/accuracy"),
    Page("/browse/accuracy?quantity=peak_memory_gib&by=device", again=True),
    Page("/browse/conflicts"),
    Page("/browse/conflicts/C29", needs_seeds=True),
    Page("/browse/conflicts/C28", needs_seeds=True, again=True),
)
"""Each page helper adds those of their pages; one of every kind is enough."""
