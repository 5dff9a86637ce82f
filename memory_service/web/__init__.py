"""Pages for people: templates, charts and routes over the services."""
