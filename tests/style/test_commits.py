"""Subjects of commits: `area: what changes`, at most 72 characters."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tidy_source import ROOT

# The rule began after this commit; older subjects stay as they are.
BEFORE = "9f921ab"
# An area may be two words, and there may be several: `api, controllers tests: what changes`.
AREA = r"[a-z][a-z0-9_/.-]*( [a-z0-9_/.-]+)?"
SUBJECT = re.compile(rf"{AREA}(, {AREA})*: \S.*\S")
BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ")


def broken(subjects: list[str]) -> list[str]:
    """Return the subjects that break the rule; those that git writes are excused."""
    return [
        each
        for each in subjects
        if not each.startswith(BY_GIT) and (len(each) > 72 or not SUBJECT.fullmatch(each))
    ]


def git(*arguments: str) -> str | None:
    """Return what git says, None when it is not there or refuses."""
    program = shutil.which("git")
    if program is None:
        return None
    done = subprocess.run(
        [program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout if done.returncode == 0 else None


def since() -> list[str]:
    """Return the subjects since the rule began.

    Without the history (a source archive, a shallow clone) nobody can tell a new commit from
    an old one, so there is nothing to judge.
    """
    if git("cat-file", "-e", f"{BEFORE}^{{commit}}") is None:
        return []
    return (git("log", "--format=%s", f"{BEFORE}..HEAD") or "").splitlines()


def test_subjects_of_commits_say_area_and_change() -> None:
    """Every commit since the rule began has a subject that can be skimmed."""
    assert broken(since()) == []


@pytest.mark.parametrize(
    "subject",
    ["Explain what a worker has room for", "api: " + "x" * 70, "Api: split", "api:split", "api: "],
)
def test_a_subject_that_breaks_the_rule_is_found(subject: str) -> None:
    """No area, no space, a capital area or too long a line is found."""
    assert broken([subject]) == [subject]


@pytest.mark.parametrize("subject", ["api: split long routes", "Merge branch 'x'", "a/b-c: do it"])
def test_a_lawful_subject_passes(subject: str) -> None:
    """An area, a colon and a sentence pass, and so does what git writes itself."""
    assert broken([subject]) == []
