"""The lowest layer: protocols of clock and random numbers, ids, quantities, errors, back-off.

Pure, and imports no other package of the product. Start at `errors` to see what can go wrong,
at `clock` to see which of the two kinds of time a value is in.
"""
