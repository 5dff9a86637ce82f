"""What a script trains and how: its loops and fits, what ends them, what made its objects, its data
loaders, whether a model is in evaluation mode and what its output went through.
"""
