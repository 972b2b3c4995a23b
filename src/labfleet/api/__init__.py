"""The HTTP face: REST generated from the table of kinds, the event stream, problem documents.

Start at `application.build`. `front` is the bare ASGI function before Litestar: identity,
bounds, headers and the hot paths. Handlers translate; what is allowed is the service's.
"""
