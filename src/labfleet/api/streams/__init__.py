"""The event stream: the shared ring of recent events and one open connection."""
