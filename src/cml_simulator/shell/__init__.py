"""The only place with sockets, TLS, the real clock and real dice."""
