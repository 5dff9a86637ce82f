"""What is asked of the dependencies before a change is kept? Is any known to be vulnerable; what are they?"""
