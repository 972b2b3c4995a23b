"""The figures of a period: waits, outcomes, worker-hours, cost. Start at `tally`."""
