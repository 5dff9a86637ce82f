"""Values that every room shares: estimates with grade and interval, vocabulary, metrics, differences of
rows."""
