"""How close were predictions to what was measured?"""
