"""HTTP routes by capability: parse, one service call, answer."""
