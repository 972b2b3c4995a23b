"""The REST APIs over the core: one module for each part, routes in tables.

Start at `dispatch`, which finds a route and checks the token; `control` is the side channel
through which tests inject faults.
"""
