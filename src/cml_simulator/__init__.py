"""A simulator of CML servers: API, states, licensing, ports, boot times, faults.

Start at `core.fleet` for the servers' behaviour, at `routes.dispatch` for the API, and at
`shell.main` for the program. It knows nothing of labfleet.
"""
