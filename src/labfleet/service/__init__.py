"""The operations offered to people, programs and controllers, with their access rules.

Knows no HTTP. Every function takes a `ServiceContext` (its dependencies) and a `Caller`, reads
fresh state, and writes with one commit. Start at `verbs.objects`; the rules of single kinds are
in `kinds.rules`, the roles in `core.access`.
"""
