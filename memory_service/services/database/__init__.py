"""Read, write and bulk transactions over one database, and the caches that belong to it."""
