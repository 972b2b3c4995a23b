"""A session's next step. Start at `decide`; `phases` is the table of phases, `start` its boot."""
