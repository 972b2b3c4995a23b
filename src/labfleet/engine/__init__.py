"""What drives every controller: queue, cache, objects, effects, election.

It knows what all resources share, not the rules of any kind. Level-triggered: losing every event
costs latency, never correctness, because caches list on start and controllers resync. Start at
`controller`, then `queue` and `effects`.
"""
