"""May a run start on a cluster now? By chance, by sums of bounds, or by declared costs.

Start at `chance`: the three rules. They read a cluster's resident `load`, which adds up the `draws`
of its live runs. `needs` says what a request counts for, `exploring` how far a prediction is
believed, `tightening` what realised overload changes, `judge` what a decider keeps of all that.
"""
