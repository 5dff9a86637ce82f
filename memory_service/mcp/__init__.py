"""Tools, resources and a prompt for agents, by the Model Context Protocol."""
