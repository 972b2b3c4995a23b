"""The shell around the decisions: observe, decide, act, record; one controller per concern.

A controller commits the intent before it acts, acts through interfaces with an operation id,
and records the outcome with one compare-and-set. Losing the process between any two lines
costs time only. Start at `assembly`, which says which change wakes whom, then `scheduler`.
"""
