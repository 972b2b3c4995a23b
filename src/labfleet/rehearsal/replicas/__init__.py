"""Processes of the product in virtual time, and the clients that call one. Start at `replica`."""
