"""A stand-in for AWS: moto's EC2 in a launcher of its own, mended, with faults on demand.

Start at `server`, then `gate` (every call passes it: throttling, faults, journal), `patches`
(what is mended of moto) and `control` (how tests break things). It knows nothing of labfleet.
What it does not do: IAM enforcement, billing, real networking.
"""

FOR_TESTS = "aws_simulator.fixture"
