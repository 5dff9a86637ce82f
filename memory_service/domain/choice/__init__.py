"""Choice of hardware: offers with their prices and limits, jobs on them, and plans beside each other."""
