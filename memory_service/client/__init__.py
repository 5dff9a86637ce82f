"""The client for training scripts: `watch` reports a run and never slows it or raises into it; `ask` gives a
plan.

    from memory_service.client import watch

    with watch(task="image", gpu="auto", model="resnet50", batch_size=128, epochs=8) as run:
        for epoch in range(8):
            for images, labels in run.loader(train_loader):
                ...
            verdict = run.epoch(epoch, train_loss=..., metric=...)
            if verdict.action == "stop_and_predict":
                break

Standard library and httpx2 only: importing it loads neither torch nor the service. See docs/client.md.
"""

from memory_service.client.ask import Plan, ask
from memory_service.client.begin import watch
from memory_service.client.run import Run
from memory_service.client.verdict import Verdict

__all__ = ["Plan", "Run", "Verdict", "ask", "watch"]
