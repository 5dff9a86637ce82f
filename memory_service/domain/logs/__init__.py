"""What does a training log say? Lines of text become events."""
