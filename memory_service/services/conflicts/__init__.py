"""Where do claims, estimates and measurements disagree?"""
