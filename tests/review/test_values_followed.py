"""Is a setting found wherever people put it, and shown where it is written?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_service.review import engine
from memory_service.review.facts import Facts
from memory_service.review.findings import Finding
from memory_service.services.review.review import review_script

HEAD = """
import functools, time
from dataclasses import asdict, dataclass, field
import timm, torch
from torch.utils.data import DataLoader
from torchvision.datasets import ImageFolder
torch.manual_seed(0)
train, valid = ImageFolder("train"), ImageFolder("valid")
"""
BODY = """
model = timm.create_model("resnet50", pretrained=True, num_classes=5).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for epoch in range(3):
    model.train()
    for step, (x, y) in enumerate(tl):
        with torch.amp.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
        opt.zero_grad()
        if step == 0:
            print(torch.cuda.max_memory_allocated())
    if time.monotonic() > 3000:
        break
"""
LOADERS = {
    "renamed": """
from torch.utils.data import DataLoader as DL
tl = DL(train, 128, shuffle=True, num_workers=8, pin_memory=True, persistent_workers=True)
""",
    "partial": """
make = functools.partial(DataLoader, batch_size=128, num_workers=8, pin_memory=True, persistent_workers=True)
tl = make(train, shuffle=True)
""",
    "grown": """
kw = {"num_workers": 8, "pin_memory": True}
kw |= {"persistent_workers": True}
kw["batch_size"] = 128
tl = DataLoader(train, shuffle=True, **kw)
""",
    "helper": """
def settings():
    return dict(num_workers=8, pin_memory=True, persistent_workers=True)
tl = DataLoader(train, 128, shuffle=True, **settings())
""",
    "within": """
@dataclass
class Feed:
    batch_size: int = 128
    num_workers: int = 8
    pin_memory: bool = True
    persistent_workers: bool = True
@dataclass
class Run:
    feed: Feed = field(default_factory=Feed)
def loader(data, **more):
    return DataLoader(data, **more)
run = Run()
tl = loader(train, shuffle=True, **asdict(run.feed))
""",
    "method": """
class Data:
    def __init__(self, **kw):
        self.kw = kw
    def make(self, data, **more):
        return DataLoader(data, **self.kw, **more)
tl = Data(batch_size=128, num_workers=8, pin_memory=True, persistent_workers=True).make(train, shuffle=True)
""",
}


def found(script: str) -> dict[str, int]:
    """Rule -> line of each finding."""
    answer = review_script(None, {"script": script, "task": "image-classification"})
    return {one["rule"]: one["line"] for one in answer["findings"]}


@pytest.mark.parametrize("way", LOADERS)
def test_workers_are_read_however_a_loader_gets_them(way: str) -> None:
    script = HEAD + LOADERS[way] + BODY
    eight = {"grown": '"num_workers": 8', "within": "num_workers: int = 8"}.get(way, "num_workers=8")
    assert eight in script
    assert found(script) == {}
    assert set(found(script.replace(eight, eight.replace("8", "1")))) == {"loader-workers"}


def test_a_batch_is_shown_where_its_number_is_written() -> None:
    script = HEAD + LOADERS["within"] + BODY
    small = script.replace("batch_size: int = 128", "batch_size: int = 4")
    line = 1 + small[: small.index("batch_size: int")].count("\n")
    assert found(small) == {"batch-too-small": line}


def test_each_caller_of_a_function_that_makes_loaders_is_judged_by_itself() -> None:
    made = """
def feed(data, workers, shuffle=False):
    return DataLoader(data, 128, shuffle, num_workers=workers, pin_memory=True, persistent_workers=True)
vl = feed(valid, 8)
tl = feed(train, 1, True)
"""
    script = HEAD + made + BODY
    assert found(script) == {"loader-workers": 1 + script[: script.index("tl = feed")].count("\n")}


def test_a_rule_that_fails_costs_its_own_findings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken_rules(facts: Facts) -> Iterator[Finding]:
        nothing: list[Finding] = []
        yield nothing[len(facts.script.lines)]

    monkeypatch.setattr(engine, "_GROUPS", (broken_rules, *engine._GROUPS))
    answer = review_script(None, {"script": "from torch.cuda.amp import autocast\n"})
    assert [one["rule"] for one in answer["findings"]] == ["deprecated-amp"]
    assert f"broken rules: {engine.FAILED} (IndexError)" in answer["not_checked"]


def test_a_method_of_an_object_that_is_a_dict_is_read() -> None:
    """Its first parameter is given by nobody's parentheses."""
    script = """
import torch
class Kept(dict):
    def all(self):
        return self["loss"](1, 2)
kept = Kept(loss=torch.nn.MSELoss())
kept.all()
"""
    assert review_script(None, {"script": script})["not_checked"] == []
