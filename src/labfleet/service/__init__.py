"""Verbs for people, programs and controllers: what may be asked, by whom, with which result.

Knows no HTTP. Every function takes `Parts` (what the service stands on) and a `Caller` (who
asks), reads fresh state, and writes with one commit. Start at `verbs.objects`; the rules that are
one kind's own are in `kinds.rules`, the roles in `core.access`.
"""
