"""Who may pass? Keys and scopes, loopback, origins of browsers, and rate limits."""
