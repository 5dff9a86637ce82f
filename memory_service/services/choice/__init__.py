"""Choice of hardware among offers, trainings beside each other."""
