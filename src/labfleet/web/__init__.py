"""The pages for people, rendered on the server, following the event stream."""
