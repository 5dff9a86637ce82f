"""How good will it get? A quality index of model, input size, epochs, folds and data."""
