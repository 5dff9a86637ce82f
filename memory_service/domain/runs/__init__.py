"""What came of a run that ended? Outcome, wasted minutes, effect of the advice it followed."""
