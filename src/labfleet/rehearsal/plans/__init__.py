"""What a what-if is given: plan, fleet, demand, recording. Read and checked, not played."""
