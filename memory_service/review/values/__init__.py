"""Constants of a script on demand: numbers, texts and mappings followed through names, attributes, callers,
classes of settings, command lines and `**more`, with the expression that each was written as.
"""
