"""Keras 3, reported by one callback: handwritten digits of scikit-learn, a small network, four epochs."""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # before keras is imported; jax and tensorflow work too

import keras
from sklearn.datasets import load_digits

from memory_service.client.keras import WatchCallback

BATCH_SIZE = 64

digits = load_digits()
images, labels = digits.images[..., None].astype("float32") / 16.0, digits.target
train, valid = (images[:1400], labels[:1400]), (images[1400:], labels[1400:])

model = keras.Sequential(
    [
        keras.layers.Input((8, 8, 1)),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(keras.optimizers.AdamW(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
watching = WatchCallback(
    task="image", image_size=8, n_classes=10, minutes=5, batch_size=BATCH_SIZE, n_train=len(train[0])
)
model.fit(*train, validation_data=valid, batch_size=BATCH_SIZE, epochs=4, callbacks=[watching], verbose=2)
