"""A faithful stand-in for one or many CML servers."""
