"""A worker's next step. Start at `decide`; `phases` is the table of phases.

`up`, `hosting` and `down` have the rules of our machines, `observed` and `external` those of
others' machines, `alerts` and `health` what is reported on the way.
"""
