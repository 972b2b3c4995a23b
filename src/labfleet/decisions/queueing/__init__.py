"""Which waiting requests start now, in which order, and when the others may: pure.

Start at `line`: the resident state of one cluster, and the decision. `requests` has the order,
`quotas` the shares, `holding` what is kept free for whom, `starts` positions and start ranges. Of
sessions, which wait for workers: `session_starts`, on the records of `fleet` and `durations`.
"""
