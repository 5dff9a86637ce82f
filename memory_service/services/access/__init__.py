"""API keys, their cache, and sessions of the pages: who may call."""
