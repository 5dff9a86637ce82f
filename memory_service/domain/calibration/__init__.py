"""What did a device measure of itself? Probes, fitted rates, drift, and the rates corrected by them."""
