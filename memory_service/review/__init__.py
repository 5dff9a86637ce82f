"""Static review of training scripts: what is wrong with a script, read as a syntax tree and never run."""
