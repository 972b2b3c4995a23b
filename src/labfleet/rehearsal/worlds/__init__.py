"""Simulated EC2, CML servers and database in virtual time.

Start at `ec2` and `cml`, which hold the state; the `_client` and `_wire` modules give access to it.
"""
