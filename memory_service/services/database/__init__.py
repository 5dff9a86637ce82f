"""Where does a transaction begin and end? Read, write and bulk transactions over one database."""
