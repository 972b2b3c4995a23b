"""Protocols that adapters and stores implement, and the plain values they exchange.

Named `interfaces`, not `ports`: a port here is always a TCP or UDP port of a lab. Each file
or folder has one conformance suite under tests/conformance that runs against every
implementation. Start at `store`, `compute` or `lab_host`.
"""
