"""Prometheus' text format: families of series with labels."""

from collections.abc import Mapping
from dataclasses import dataclass, field


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@dataclass(slots=True)
class Families:
    """Series by family, written in the order in which families were first named."""

    rows: dict[str, list[str]] = field(default_factory=dict)
    heads: dict[str, tuple[str, str]] = field(default_factory=dict)

    def family(self, name: str, kind: str, text: str) -> None:
        """Name a family, its type and what it is."""
        self.heads[name] = (kind, text)
        self.rows.setdefault(name, [])

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Add a series to a family that was named."""
        shown = ",".join(f'{key}="{_escaped(str(text))}"' for key, text in labels.items())
        self.rows[name].append(f"{name}{{{shown}}} {float(value)!r}")

    def text(self) -> str:
        """Return the page."""
        lines: list[str] = []
        for name, rows in self.rows.items():
            kind, text = self.heads[name]
            if rows:
                lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *rows]
        return "\n".join(lines) + "\n"
