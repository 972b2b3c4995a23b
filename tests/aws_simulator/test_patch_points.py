"""The self-test of the patch points: moto may move under us, and then we must not start.

Each runs in an interpreter of its own, because other tests patch moto in this one.
"""

import subprocess
import sys

import pytest

from aws_simulator import patches

START = "from moto.ec2.models.instances import Instance, InstanceBackend\n"
CHECK = "from aws_simulator import patches\npatches.check()\n"


def said(before=""):
    """Return (exit code, last line) of the self-test after something was done to moto."""
    code = f"{START}{before}\n{CHECK}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def test_the_installed_moto_has_every_patch_point():
    """The version that is pinned passes the self-test."""
    assert said() == (0, "")


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("del Instance.reboot", "Instance.reboot is gone"),
        (
            "InstanceBackend.run_instances = lambda self, image_id: None",
            "run_instances lost count",
        ),
    ],
)
def test_a_patch_point_that_moved_fails_loudly(before, told):
    """A missing method, or one that lost a parameter, is named in the error."""
    code, line = said(before)
    assert code == 1
    assert "PatchPointGoneError" in line
    assert told in line


def test_a_backend_that_holds_something_else_fails_loudly():
    """What is read of a live backend is looked for when the simulator starts."""
    with pytest.raises(patches.PatchPointGoneError, match=r"lost .*volumes"):
        patches.check_backend(object())
