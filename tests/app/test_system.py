"""The real clock, random numbers and secrets."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from labfleet.app.system import HostSecrets, SystemClock, SystemIds, SystemRng
from labfleet.kernel import errors
from labfleet.resources.meta import SecretRef

EPOCH = 1_795_000_000.0


def test_two_clocks_with_one_epoch_and_rate_share_the_time() -> None:
    """Server and simulators agree on fleet time because epoch and factor are all of it."""
    one, other = SystemClock(EPOCH, 500.0), SystemClock(EPOCH, 500.0)
    begun = time.monotonic()
    first, second = one.now(), other.now()
    took = time.monotonic() - begun
    assert -0.1 <= (second - first).total_seconds() <= 500.0 * took + 0.1
    assert one.rate == 500.0


def test_a_clock_that_stands_still_is_refused() -> None:
    """A rate of zero or less would make every wait endless."""
    for rate in (0.0, -1.0):
        with pytest.raises(errors.Invalid):
            SystemClock(0.0, rate)


def test_streams_of_a_seed_depend_on_the_name_only() -> None:
    """One more draw in one stream does not shift another."""
    first, second = SystemRng("s"), SystemRng("s")
    first.stream("a").random()
    assert first.stream("b").random() == second.stream("b").random()
    assert first.stream("a").random() != first.stream("b").random()


def test_secrets_are_read_at_the_moment_of_use(tmp_path: Path) -> None:
    """A rotated file is seen without a restart, and the newline of an editor is dropped."""
    file = tmp_path / "secret"
    file.write_text("one\n")
    secrets = HostSecrets({"NAME": "value"})
    assert secrets.resolve(SecretRef(env="NAME")) == "value"
    assert secrets.resolve(SecretRef(file=str(file))) == "one"
    file.write_text("two")
    assert secrets.resolve(SecretRef(file=str(file))) == "two"


def test_a_missing_secret_names_the_reference_only(tmp_path: Path) -> None:
    """Unset, empty and unreadable secrets are Denied, and the text holds no value."""
    empty = tmp_path / "empty"
    empty.write_text("\n")
    secrets = HostSecrets({"EMPTY": ""})
    for ref in (
        SecretRef(env="UNSET"),
        SecretRef(env="EMPTY"),
        SecretRef(file=str(empty)),
        SecretRef(file=str(tmp_path / "absent")),
    ):
        with pytest.raises(errors.Denied, match=ref.env or "secret file"):
            secrets.resolve(ref)


def test_ids_and_tokens_never_repeat() -> None:
    """A thousand draws give a thousand identities and secrets of 256 bits."""
    ids = SystemIds()
    assert len({ids.uid() for _ in range(1000)}) == 1000
    tokens = {ids.token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert min(len(token) for token in tokens) >= 43


def test_a_secret_file_that_is_none_is_denied_at_once(tmp_path: Path) -> None:
    """A pipe would hold the server up for ever; a name with a NUL is an error like any other."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for name in (str(pipe), "/dev/zero", str(tmp_path), "a\0b", str(tmp_path / "absent")):
        with pytest.raises(errors.Denied) as caught:
            HostSecrets({}).resolve(SecretRef(file=name))
        assert caught.value.reason == "NoSecret"


def test_the_servers_own_secrets_are_no_workers_secrets(tmp_path: Path) -> None:
    """An operator became admin: a worker of their own was sent the admin token as a password."""
    token = f"lf_{'0' * 16}_{'x' * 43}"
    kept = tmp_path / "admin.token"
    kept.write_text(token + "\n")
    (tmp_path / "link").symlink_to("/proc/self/environ")
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("aws_secret_access_key = x")
    env = {"AWS_SECRET_ACCESS_KEY": "a", "LABFLEET_STORE": "b", "PGPASSWORD": "c", "KEY": "d",
           "HIDDEN": token}  # fmt: skip
    refs = [SecretRef(env=name) for name in env]
    refs += [
        SecretRef(file=str(path))
        for path in (kept, tmp_path / "link", "/proc/self/environ", tmp_path / ".aws/credentials")
    ]
    for ref in refs:
        with pytest.raises(errors.Denied) as caught:
            HostSecrets(env, reserved=("KEY", "")).resolve(ref)
        assert token not in str(caught.value)
