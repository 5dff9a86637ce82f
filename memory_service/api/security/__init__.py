"""Access control over HTTP: API keys and scopes, loopback, origins of browsers, rate limits."""
