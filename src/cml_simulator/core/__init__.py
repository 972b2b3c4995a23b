"""The simulator's world: pure state machines that take time, dice and ids as arguments."""
