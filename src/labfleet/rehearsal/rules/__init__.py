"""What must hold, whatever goes wrong. Start at `invariants`; `truth` is what they judge by."""
