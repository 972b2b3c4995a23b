"""The scaled clock: simulated time = epoch + (real time - epoch) * speed."""

import time


class ScaledClock:
    """Simulated seconds since 1970; several programs share it by sharing epoch and speed."""

    def __init__(self, epoch: float | None = None, speed: float = 1.0) -> None:
        self.epoch = time.time() if epoch is None else epoch
        self.speed = speed

    def __call__(self) -> float:
        return self.epoch + (time.time() - self.epoch) * self.speed
