"""What a cluster's times, bounds and defaults are."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """Times in simulated seconds: divided by `speed` they are real ones.

    speed: The clock factor; it shortens waits and runs, never what a counter counts per second.
    seed: What the use of pods is drawn from.
    pull_seconds: How long a node takes for an image that it has not.
    start_seconds: How long containers take to start.
    stop_seconds: How long containers take to stop when asked; never longer than their grace.
    job_seconds: How long a pod that shall end runs when no annotation says it.
    backoff_seconds: The first wait before a restart; it doubles.
    backoff_most: The longest wait before a restart.
    lost_seconds: How long a node is silent before it counts as not ready.
    most_objects: How many objects the cluster holds.
    most_changes: How many changes watches can go back.
    most_runs: Of how many ended pods the true use is still known.
    most_faults: How many rules of faults there may be.
    """

    speed: float = 1.0
    seed: int = 0
    pull_seconds: float = 2.0
    start_seconds: float = 1.0
    stop_seconds: float = 1.0
    job_seconds: float = 30.0
    backoff_seconds: float = 10.0
    backoff_most: float = 300.0
    lost_seconds: float = 40.0
    most_objects: int = 50_000
    most_changes: int = 10_000
    most_runs: int = 5_000
    most_faults: int = 200
