"""The text of a script as a syntax tree, indexed by node, name and scope. Nothing is executed."""
