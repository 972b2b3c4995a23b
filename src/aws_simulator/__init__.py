"""A stand-in for AWS: moto's EC2 in a launcher of its own, mended, with faults on demand.

It knows nothing of labfleet. What it does not do: IAM enforcement, billing, real networking.
"""

FOR_TESTS = "aws_simulator.fixture"
