"""Choice of hardware: offers with their prices and limits, and plans beside each other."""
