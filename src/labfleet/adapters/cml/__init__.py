"""Talks to Cisco Modeling Labs servers: LabHost and LabHosts over HTTP.

`hosts.CmlHosts` is the entrance; `aiohttp_transport.connect` is the network below it. Only
that one file knows aiohttp: everything else depends on `transport`, so that a rehearsal can
put another network below. The adapter logs nothing and reads no environment.
"""
