"""Talks to Cisco Modeling Labs servers: LabHost and LabHosts over HTTP.

`hosts.CmlHosts` is the entrance; `transport.connect` is the network below it (adapters/http), and
a rehearsal puts another one there. The adapter logs nothing and reads no environment.
"""
