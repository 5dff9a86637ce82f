"""Choice of hardware among offers, several jobs on it, trainings beside each other."""
