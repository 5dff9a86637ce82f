"""How is a plan told? Its reasons, its warnings, and the whole of it as a text of 700 tokens."""
