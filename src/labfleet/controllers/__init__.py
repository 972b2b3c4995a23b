"""Controllers do the I/O around the pure decisions: observe, decide, act, record.

A controller commits the intent before it acts, acts through interfaces with an operation id,
and records the outcome with one compare-and-set. A crash between any two lines costs only time.
Start at `assembly`, which maps changes to the controllers that they wake, then `scheduler`.
"""
