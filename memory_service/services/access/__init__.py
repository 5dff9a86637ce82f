"""Who may call? API keys, their cache, and sessions of the pages."""
