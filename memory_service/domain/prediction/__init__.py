"""What will a training step take on this device? Memory, time, batch; calibrations and runs included."""
