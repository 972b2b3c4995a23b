"""The simulator's world: pure state machines that take time, random numbers and ids as arguments.

Start at `fleet` (all servers), then `world` (one server) and `model` (labs and nodes).
"""
