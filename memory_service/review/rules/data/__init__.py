"""Rules on data: leaks across a division of rows, the target among the features, codes made anew."""
