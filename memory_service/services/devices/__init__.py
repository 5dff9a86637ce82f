"""Which hardware is registered, and what did its calibrations measure?"""
