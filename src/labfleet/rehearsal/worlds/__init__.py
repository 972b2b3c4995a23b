"""Small faithful worlds: EC2, CML servers, the store's machine, people. All in virtual time."""
