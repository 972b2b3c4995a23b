"""Talks to Cisco Modeling Labs servers: LabHost and LabHosts over HTTP.

`hosts.CmlHosts` is the entrance; `http_transport.connect` is the network below it, and
`aiohttp_transport.connect` the fallback. Everything else depends on `transport` only, so that a
rehearsal can put another network below. The adapter logs nothing and reads no environment.
"""
