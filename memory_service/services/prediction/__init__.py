"""What would this model need and do on this card? Predictions, their requests, and their check against
tables."""
