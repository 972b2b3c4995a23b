"""The outside world: EC2 and CML, behind the interfaces; each a stranger to the other."""
