"""May a run start on a cluster now? By chance, by sums of bounds, or by declared costs.

Start at `chance`: the three rules. `load` is what the live runs take, `needs` what a request counts
for, `judge` what a decider keeps of both.
"""
