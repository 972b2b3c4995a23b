"""May a run start on a cluster now? By declared costs, by sums of bounds, or by chance.

Start at `sums`: the rule by sums of amounts, which is also what the other rules answer with.
"""
