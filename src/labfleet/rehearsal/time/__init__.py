"""The seeded event loop in virtual time, its clock and its random numbers. Start at `loop`."""
