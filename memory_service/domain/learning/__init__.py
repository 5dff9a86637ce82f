"""What do observed runs teach? Residuals of time and memory, shrunk through a hierarchy of devices."""
