"""The HTTP surface: routes parse a request, make one service call and answer."""
