"""Talks to EC2: the Compute interface over boto3 in a small thread pool.

`compute.Ec2` is the entrance. Nobody above this package sees a botocore exception, and no
environment variable or file of the AWS tools has a say unless the composition root asks for the SDK's
default chain of credentials.
"""
