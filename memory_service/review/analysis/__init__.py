"""Which data loaders, evaluation loops, modes and activations does a training have? Read off the facts."""
