"""The exam that is booked ahead: who is let in starts on time, and who is not is told what helps."""

from __future__ import annotations

from typing import Any

import pytest

from labfleet.rehearsal import main
from labfleet.rehearsal.seeds import playing
from labfleet.rehearsal.seeds.booked_exam import Exam
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.service.kinds import session_claims

SMALL = Options(book=Exam(asked=20, callers=10, workers=2, labs=8, days=1))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_small_exam_holds(seed: int) -> None:
    """Of 20 that ask at once for room for 16, the server killed meanwhile, 16 start on time."""
    report = rehearse(seed, SMALL)
    assert report.violations == []
    assert report.booked == {"accepted": 16, "refused": 4, "on time": 16}


@pytest.mark.timeout(120)
def test_a_refusal_that_does_not_help_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule bites: a refusal that names no slot that fits breaks it."""
    # private _refused: the product is broken at exactly this step
    before = session_claims._refused

    def bare(new: Any, lacks: Any, told: str, fits: Any) -> Any:
        del fits
        return before(new, lacks, told, ())

    monkeypatch.setattr(session_claims, "_refused", bare)
    assert {each.rule for each in rehearse(1, SMALL).violations} == {"booked"}


def test_the_command_plays_the_exam_alone(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """With --book no fleet is drawn, so options of one are wrong; a violation is replayed by it."""
    played: list[Options] = []

    def none(*_: Any, **__: Any) -> Any:
        played.append(_[1])
        return iter(())

    monkeypatch.setattr(playing, "played", none)
    assert main.main(["--book", "--seeds", "7"]) == 2
    assert played == [Options(book=Exam())]
    assert playing.command(7, played[0]) == "labfleet rehearse --seeds 7 --book"
    with pytest.raises(SystemExit):
        main.main(["--book", "--workers", "3"])
    assert "leave fleet, day and faults out" in capsys.readouterr().err
