"""The self-test of the patch points: moto may move under us, and then we must not start."""

import pytest
from moto.ec2.models.instances import Instance, InstanceBackend

from aws_simulator import patches


def test_the_installed_moto_has_every_patch_point():
    """The version that is pinned passes the self-test."""
    patches.check()


def test_a_patch_point_that_is_gone_fails_loudly(monkeypatch):
    """A missing method is named in the error."""
    monkeypatch.delattr(Instance, "reboot")
    with pytest.raises(patches.PatchPointGoneError, match=r"Instance\.reboot is gone"):
        patches.check()


def test_a_backend_that_holds_something_else_fails_loudly():
    """What is read of a live backend is looked for when the simulator starts."""
    with pytest.raises(patches.PatchPointGoneError, match=r"lost .*volumes"):
        patches.check_backend(object())


def test_a_changed_signature_fails_loudly(monkeypatch):
    """A method that lost a parameter is named with it."""
    monkeypatch.setattr(InstanceBackend, "run_instances", lambda self, image_id: None)
    with pytest.raises(patches.PatchPointGoneError, match="run_instances lost count"):
        patches.check()
