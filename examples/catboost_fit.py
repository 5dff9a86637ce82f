"""CatBoost, reported by one callback: the breast cancer table of scikit-learn."""

from catboost import CatBoostClassifier
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from memory_service.client import watch
from memory_service.client.boosting import CatBoostCallback

features, labels = load_breast_cancer(return_X_y=True)
x_train, x_valid, y_train, y_valid = train_test_split(features, labels, random_state=0, stratify=labels)

facts = {"task": "tabular", "n_train": len(features), "n_features": features.shape[1], "metric": "auc"}
with watch(**facts, model="catboost", epochs=100, minutes=5) as run:
    model = CatBoostClassifier(
        iterations=100, learning_rate=0.1, eval_metric="AUC", verbose=False, thread_count=1,
        allow_writing_files=False,
    )  # fmt: skip
    model.fit(x_train, y_train, eval_set=(x_valid, y_valid), callbacks=[CatBoostCallback(run, metric="AUC")])
print(f"best round {model.best_iteration_}, AUC {model.best_score_['validation']['AUC']:.4f}")
