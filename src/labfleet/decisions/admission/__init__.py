"""May a run start on a cluster now? By declared costs, by sums of bounds, or by chance.

Start at `sums`: the rule by sums of amounts that the service asks today. `chance` has the rules
that read a cluster's resident `load`, which adds up the `draws` of its live runs; `exploring` says
how far a prediction is believed, `tightening` what realised overload changes.
"""
