"""The operations offered to people, programs and controllers, with their access rules.

Knows no HTTP. Every function takes a `ServiceContext` (its dependencies) and a `Caller`, reads
fresh state, and writes with one commit. Start at `verbs.objects`; a kind declares its
rules in `kinds`, which `kinds.table` collects; roles are in `core.access`.
"""

from labfleet.service.kinds import table  # noqa: F401 - filled before anything below reads it
