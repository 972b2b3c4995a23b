"""The outside world behind `interfaces`: EC2, CML, webhooks; none imports another.

Start at `aws.compute`, `cml.hosts` or `webhooks`.
"""
