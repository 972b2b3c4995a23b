"""What a run will need, learned from past runs: a bound of stated coverage, with its evidence.

Start at `learner`, which is fed with the history and asked for predictions. `window` keeps the
recent runs of one family and finds the closest, `rules` has the guesses that may be made from
them, `series` learns one resource of a family by these guesses, `pool` lends families with few
runs what all others did at the same count, and `wording` says it in a sentence.
"""
