"""Runs of the product itself in virtual time, with faults, or for a what-if. Begin at `main`."""
