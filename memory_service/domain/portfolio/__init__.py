"""What to do with all the minutes: a sequence of runs and their blend."""
