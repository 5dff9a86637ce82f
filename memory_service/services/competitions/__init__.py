"""Which past competitions are similar: registering, encoding and finding them."""
