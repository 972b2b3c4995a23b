"""The plans: pure, total functions from what was seen to what to do, with the reasons.

No I/O, no clock, no dice: time and random numbers are arguments. Each is property-tested.
"""
