"""A way to run command lines against a stub of the API."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from api_stub import Stub, serving

from labfleet.cli import main
from labfleet.cli.kit import environment

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
TOKEN = "lf_stub_verysecretverysecret"


@pytest.fixture
def stub():
    """A server of the API's contract on a free port."""
    made = Stub()
    with serving(made):
        yield made


@dataclass
class Result:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the object on the last line of stdout."""
        return json.loads(self.out.splitlines()[-1])


@pytest.fixture
def run(stub, capsys, monkeypatch, tmp_path):
    """Run a command line against the stub, without real time, and give what it did."""

    def go(*argv: str, stdin: str = "", tty: bool = False, env: dict[str, str] | None = None,
           sleep: Any = None, out_tty: bool = False, columns: int = 1000) -> Result:  # fmt: skip
        elapsed = [0.0]

        def rest(seconds: float) -> None:
            elapsed[0] += seconds
            if sleep is not None:
                sleep(seconds)

        keys = iter(f"key-{number}" for number in range(1000))
        base = environment.CommandEnvironment(
            env={"LABFLEET_URL": stub.url, "LABFLEET_TOKEN": TOKEN, **(env or {})},
            home=tmp_path / "home",
            now=lambda: NOW,
            monotonic=lambda: elapsed[0],
            sleep=rest,
            rng=lambda: 0.5,
            key=lambda: next(keys),
            terminal_in=lambda: tty,
            terminal_out=lambda: out_tty,
            columns=lambda: columns,
        )
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main.run(argv, base=base)
        said = capsys.readouterr()
        assert TOKEN not in said.out + said.err
        return Result(code, said.out, said.err)

    return go
