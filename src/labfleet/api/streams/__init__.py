"""The event stream. Start at `stream`; `ring` has the recent events, `open_stream` a connection."""
