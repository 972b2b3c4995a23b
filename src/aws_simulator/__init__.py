"""A stand-in for EC2: moto in our own launcher, with its faults mended."""
