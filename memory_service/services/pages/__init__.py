"""What each page for people shows, as plain values; templates and charts are in `web`."""
