"""Small faithful worlds in virtual time: EC2, CML servers, the store's machine.

Start at `ec2` and `cml`, the truth; the `_client` and `_wire` modules are ways to talk to them.
"""
