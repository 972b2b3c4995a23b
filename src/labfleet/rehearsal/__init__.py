"""Runs the product itself in virtual time, against simulated EC2 and CML, with faults injected.

One seed: `seeds.run` builds a `stage` of `worlds` (the simulated EC2, CML and database) and
replicas of the product, `faults` injects failures, and `rules.invariants` checks every commit
against the state of the worlds. `main` runs many seeds; `plan_command` answers a what-if by
running a plan in the same way. Start at `seeds.run`.
"""
