"""What is wrong with a training script, before it burns the budget? Read as a syntax tree, never run."""
