"""LightGBM, reported by one callback: the breast cancer table of scikit-learn."""

import lightgbm
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from memory_service.client import watch
from memory_service.client.boosting import lightgbm_callback

features, labels = load_breast_cancer(return_X_y=True)
x_train, x_valid, y_train, y_valid = train_test_split(features, labels, random_state=0, stratify=labels)

facts = {"task": "tabular", "n_train": len(features), "n_features": features.shape[1], "metric": "auc"}
with watch(**facts, model="lightgbm", epochs=100, minutes=5) as run:
    train = lightgbm.Dataset(x_train, y_train)
    booster = lightgbm.train(
        {"objective": "binary", "metric": "auc", "learning_rate": 0.1, "verbosity": -1, "num_threads": 1},
        train,
        num_boost_round=100,
        valid_sets=[lightgbm.Dataset(x_valid, y_valid, reference=train)],
        callbacks=[lightgbm_callback(run), lightgbm.early_stopping(30, verbose=False)],
    )
print(f"best round {booster.best_iteration}, AUC {booster.best_score['valid_0']['auc']:.4f}")
