"""Processes of the product in virtual time, and how people reach one. Start at `replica`."""
