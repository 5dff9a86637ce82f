"""What won: the words in which solutions of competitions are told."""
