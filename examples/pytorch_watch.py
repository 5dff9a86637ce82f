"""Plain PyTorch, reported by `watch`: handwritten digits of scikit-learn, a small network, five epochs."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memory_service.client import watch

EPOCHS, BATCH_SIZE = 5, 64

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
labels = torch.tensor(digits.target)
order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
train, valid = order[:1400], order[1400:]
loader = DataLoader(TensorDataset(images[train], labels[train]), BATCH_SIZE, shuffle=True)

net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
optimizer = torch.optim.AdamW(net.parameters(), 3e-3)

facts = {"task": "image", "model": "custom/small-cnn", "image_size": 8, "n_classes": 10, "metric": "accuracy"}
with watch(**facts, batch_size=BATCH_SIZE, epochs=EPOCHS, n_train=len(train), minutes=5) as run:
    for epoch in range(EPOCHS):
        for batch, answers in run.loader(loader):
            loss = nn.functional.cross_entropy(net(batch), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (net(images[valid]).argmax(1) == labels[valid]).float().mean().item()
        verdict = run.epoch(epoch, train_loss=loss, metric=accuracy)
        print(f"epoch {epoch}: accuracy {accuracy:.3f}; {verdict.action}")
        if verdict.action == "stop_and_predict":
            break
