"""Which data loaders, evaluation loops, model modes and activations does a training have? Read off the facts
for the rules."""
