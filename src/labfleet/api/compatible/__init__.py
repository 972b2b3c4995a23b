"""Routes and streams under the names, fields and values of the systems that this one replaces.

Thin: they call the same verbs as our own routes. Start at `compat_routes`; `compat_worker_routes`
has the workers' routes, `run_routes` those of simulations, `compat_stream` and `status_stream` the streams.
"""
