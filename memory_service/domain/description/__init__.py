"""What does a free text say? Task, facts in figures and metric, read without a model."""
