"""Quantities as Kubernetes writes them, read into base units and written again."""

import re
from functools import lru_cache

from kubernetes_simulator.core.errors import bad_request

_FORM = re.compile(
    r"^([+-]?[0-9]*\.?[0-9]+|[+-]?[0-9]+\.)([eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE])?$"
)
UNITS = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0,
    "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


@lru_cache(maxsize=4096)
def read(value: str | float) -> float:
    """Return a quantity in its base unit (cores, bytes, pieces); 400 if it is none."""
    if isinstance(value, (int, float)):
        return float(value)
    found = _FORM.match(value)
    if found is None:
        raise bad_request(f"quantities must match the regular expression, not {value!r}")
    number, unit = found.groups()
    if unit and unit[0] in "eE" and len(unit) > 1:
        return float(number + unit)
    return float(number) * UNITS[unit or ""]


def is_quantity(value: object) -> bool:
    """Tell whether a value can be read."""
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) or (isinstance(value, str) and bool(_FORM.match(value)))


def nano(cores: float) -> str:
    """Return cores as metrics.k8s.io writes them."""
    return f"{round(cores * 1e9)}n"


def kibi(amount: float) -> str:
    """Return bytes as metrics.k8s.io writes them."""
    return f"{round(amount / 1024)}Ki"
