"""Which past competitions are similar? Registering, encoding and finding them."""
