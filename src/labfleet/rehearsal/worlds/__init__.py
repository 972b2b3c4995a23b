"""Simulated EC2, CML servers, clusters and database in virtual time.

Start at `ec2`, `cml` and `clusters`, which hold the state; the `_client` and `_wire` modules give access to it.
`wire` carries and loses the calls of most seeds; those over HTTP lose theirs in `ec2_wire` and
`cml_wire`.
"""
