"""What is this card? Data sheets of GPUs, names that people and drivers use, where a figure came from."""
