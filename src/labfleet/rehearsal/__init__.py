"""Runs the product itself in virtual time, against small faithful worlds, with faults.

One seed: `seeds.run` puts a `stage` of `worlds` and replicas together, `faults` strike, and
`rules.invariants` judges every commit by what is true in the worlds. `main` plays many seeds;
`asking` answers a what-if by playing a plan in the same way. Start at `seeds.run`.
"""
