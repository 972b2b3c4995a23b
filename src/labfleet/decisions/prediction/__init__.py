"""What a run will need, learned from past runs: a bound of stated coverage, with its evidence.

Start at `learner`, which is fed with the history and asked for predictions. `window` keeps the
recent runs of one family and finds the closest, `rules` has the guesses that may be made of them,
`series` makes bounds of one resource by what its guesses were worth (`ratios`, `quantiles`,
`conformal`), and `pool` lends young families what all others did at the same count. `sizing` is about cost instead
of promises, `forecasts` has the limits that always hold, `wording` says it in a sentence.
"""
