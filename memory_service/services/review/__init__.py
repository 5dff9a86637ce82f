"""What should change in a training script before it is launched."""
