"""The text of a script as a syntax tree: decoded, measured and parsed without harm, indexed by node, name
and scope; its comments and the settings written within it. Nothing is executed or imported.
"""
