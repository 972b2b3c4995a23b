"""The HTTP API: REST generated from the table of kinds, the event stream, problem documents.

Start at `application.build`. `front` is the bare ASGI function before Litestar: authentication,
limits, headers and the hot paths. Handlers only translate; the service decides what is allowed.
"""
