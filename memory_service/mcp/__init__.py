"""Curated tools for agents that speak the Model Context Protocol, over the services that HTTP asks too."""
