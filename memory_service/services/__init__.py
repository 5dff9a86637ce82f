"""Use cases of the service, one per function; each opens the one transaction it needs."""
