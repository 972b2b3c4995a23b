"""Routes and streams under the names, fields and words of the systems that this one replaces.

Thin: they call the verbs of our own routes. Start at `seed_routes`; `worker_seed_routes` has the
workers' routes, `seed_stream` and `status_stream` the streams.
"""
