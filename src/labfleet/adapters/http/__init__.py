"""An HTTP/1.1 client for a few servers that are asked all the time; it knows nothing of CML.

Start at `pool.HttpTransport`: the kept connections to one server. `connection` is one of them,
`tls` its trust and encryption, `peers` which addresses it never speaks to, `transport` what callers
depend on: one request in, one bounded reply out, or `NotSent` or `ReplyLost`. The client logs nothing
and reads no environment. Why it is our own: decision 0015.
"""
