"""The answers of every route, closed: what a model does not name, no answer holds."""
