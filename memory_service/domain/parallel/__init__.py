"""Which models could train side by side on one card (rule R33), and is it better than one after another?"""
