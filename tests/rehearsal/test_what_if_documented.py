"""The sample answer in the how-to is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labfleet.rehearsal import main

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
SAMPLE = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.timeout(240)
def test_the_sample_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """docs/how-to/ask-what-if.md shows the whole answer to exam-week.yaml, as it is today.

    When the product has come to answer otherwise, put the command's output into the page.
    """
    assert main.main(["--plan", str(HOW_TO / "what-if" / "exam-week.yaml")]) == 0
    printed = capsys.readouterr().out
    found = SAMPLE.search((HOW_TO / "ask-what-if.md").read_text(encoding="utf-8"))
    assert found is not None
    assert found[1] == printed
