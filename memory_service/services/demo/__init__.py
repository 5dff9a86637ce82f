"""What does the service look like with runs in it? Made-up ones, in a database of their own."""
