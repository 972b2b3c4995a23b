"""Pure, total functions that decide from observations what to do, with the reasons.

No I/O, no clock: time and random numbers are arguments. Each is property-tested. Start at
`placement`, `scaling` or `lifecycle.worker.decide`.
"""
