"""Talks to EC2: the Compute interface over boto3 in a small thread pool.

`compute.Ec2` is the entrance. No caller of this package sees a botocore exception, and the AWS
tools' environment variables and files have no effect unless the composition root asks for the
SDK's default chain of credentials.
"""
