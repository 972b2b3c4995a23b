"""What drives every controller: queue, cache, objects, effects, election.

It knows resources as a shape, not any one kind's rules. Level-triggered: losing every event
costs latency, never correctness, because caches list on start and controllers resync. Start at
`controller`, then `queue` and `effects`.
"""
