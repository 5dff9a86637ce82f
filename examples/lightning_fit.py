"""Lightning, reported by one callback: handwritten digits of scikit-learn, a small network, three epochs."""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from memory_service.client.lightning import WatchCallback


class SmallCnn(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, index):
        guessed = self.net(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(guessed, batch[1]))
        self.log("val_accuracy", (guessed.argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 3e-3)


digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
train, valid = random_split(TensorDataset(images, torch.tensor(digits.target)), [1400, 397])

trainer = lightning.Trainer(
    max_epochs=3,
    accelerator="cpu",
    callbacks=[WatchCallback(task="image", image_size=8, n_classes=10, minutes=5)],
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
trainer.fit(SmallCnn(), DataLoader(train, 64, shuffle=True), DataLoader(valid, 256))
print({name: round(float(value), 3) for name, value in trainer.callback_metrics.items()})
