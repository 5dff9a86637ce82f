"""XGBoost, reported by one callback: the breast cancer table of scikit-learn."""

import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from memory_service.client import watch
from memory_service.client.boosting import xgboost_callback

features, labels = load_breast_cancer(return_X_y=True)
x_train, x_valid, y_train, y_valid = train_test_split(features, labels, random_state=0, stratify=labels)

facts = {"task": "tabular", "n_train": len(features), "n_features": features.shape[1], "metric": "auc"}
with watch(**facts, model="xgboost", epochs=100, minutes=5) as run:
    model = xgboost.XGBClassifier(
        n_estimators=100,
        learning_rate=0.1,
        eval_metric="auc",
        early_stopping_rounds=30,
        n_jobs=1,
        callbacks=[xgboost_callback(run)],
    )
    model.fit(x_train, y_train, eval_set=[(x_valid, y_valid)], verbose=False)
print(f"best round {model.best_iteration}, AUC {model.best_score:.4f}")
