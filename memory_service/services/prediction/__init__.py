"""Largest batch, memory and speed of a model on a card: predictions, and their check against tables."""
