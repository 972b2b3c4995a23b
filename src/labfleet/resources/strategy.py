"""By what a pool's worker is chosen for a session, and which kinds of labs there are."""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How the worker is chosen among those of a pool that fit (docs/how-to/choose-a-strategy.md).

    BEST_FIT is upstream 001's, which prefers the emptiest; PACKED fills workers, so that others
    can go.
    """

    BEST_FIT = "BEST_FIT"
    LEAST_UTILIZED = "LEAST_UTILIZED"
    LEAST_LABS = "LEAST_LABS"
    ROUND_ROBIN = "ROUND_ROBIN"
    RANDOM = "RANDOM"
    PACKED = "PACKED"


class LabType(StrEnum):
    """What a lab is made of (upstream 001's four)."""

    CML = "CML"
    CONTAINER = "CONTAINER"
    VM = "VM"
    HYBRID = "HYBRID"


OFFERED = frozenset({LabType.CML})
"""The kinds of labs that an adapter can run."""


def not_offered(kind: LabType) -> str:
    """Return why no session is made of a definition of this kind."""
    offered = " and ".join(sorted(OFFERED))
    return f"labs of type {kind} have no worker: this version runs those of type {offered} only"
