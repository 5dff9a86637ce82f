"""What is this card? Data sheets of GPUs, and the names that people and drivers use."""
