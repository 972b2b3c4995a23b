"""The outside world behind `interfaces`: EC2, CML, webhooks; each a stranger to the others.

Start at `aws.compute`, `cml.hosts` or `webhooks`.
"""
