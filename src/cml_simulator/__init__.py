"""A faithful stand-in for CML servers: API, states, licensing, ports, boot times, faults.

Start at `core.fleet` for what happens, at `routes.dispatch` for what is answered, and at
`shell.main` for the program. It knows nothing of labfleet.
"""
