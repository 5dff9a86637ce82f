"""Rules on data: leaks across a division of rows, groups and time, the target among the features, codes
made anew.
"""
