"""The REST faces over the core: one module for each part of the API, routes in tables.

Start at `dispatch`, which finds a route and checks its token; `control` is the side channel
by which tests break things.
"""
