"""What all routes share. Start at `endpoints`; `problems` maps errors to HTTP statuses."""
