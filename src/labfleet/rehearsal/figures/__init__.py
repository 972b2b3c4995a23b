"""What a period came to: waits, outcomes, worker-hours, cost. Start at `tally`."""
