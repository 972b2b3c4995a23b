"""The outside world behind `interfaces`: EC2, CML, webhooks; none knows another.

`http.pool` is the client that `cml` speaks with. Start at `aws.compute`, `cml.hosts` or `webhooks`.
"""
