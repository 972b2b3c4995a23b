"""A simulator of AWS: moto's EC2 in a server of its own, patched, with faults on demand.

Start at `server`, then `gate` (every call passes it: throttling, faults, journal), `patches`
(the corrections to moto) and `control` (how tests inject faults). It knows nothing of labfleet.
It does not simulate IAM enforcement, billing or real networking.
"""

FOR_TESTS = "aws_simulator.fixture"
