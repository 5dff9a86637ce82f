"""How events reach the server: a queue, a spool on disk, and HTTP with retries."""
