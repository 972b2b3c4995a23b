"""SecretRefs obey an allow-list: which variables and files they may lead to, and what is said."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from labfleet.app import aliases
from labfleet.app.host_secrets import NOT_ALLOWED, SECRET_LIMIT, HostSecrets
from labfleet.app.settings import load
from labfleet.app.wiring import secrets_of
from labfleet.kernel import errors
from labfleet.resources.meta import SecretRef

CONTENT = "hunter2-of-the-other-program"


class Place:
    """A folder of secrets, and a file of somebody else beside it."""

    def __init__(self, root: Path) -> None:
        self.folder, self.other = root / "secrets", root / "pgpass"
        self.folder.mkdir()
        self.other.write_text(CONTENT)
        self.secrets = HostSecrets({}, folder=str(self.folder))

    def put(self, name: str, text: str = "good\n") -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def read(self, path: Path | str) -> str:
        return self.secrets.resolve(SecretRef(file=str(path)))

    def refusal(self, path: Path | str) -> errors.Denied:
        """Return how a file is refused; with `outside` the same is said and nothing is left open."""
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(errors.Denied) as caught:
            self.read(path)
        found = caught.value
        told = self.secrets.outside(SecretRef(file=str(path)))
        assert told == (found.message if found.reason == NOT_ALLOWED else None)
        assert len(os.listdir("/proc/self/fd")) == before
        assert CONTENT not in found.message
        return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_file_in_the_folder_is_read_at_the_moment_of_use(place: Place) -> None:
    """A rotated file is seen without a restart, and the newline of an editor is dropped."""
    path = place.put("cml", "one\n")
    assert place.read(path) == "one"
    path.write_text("two")
    assert place.read(path) == place.read("cml") == "two"
    assert place.secrets.outside(SecretRef(file=str(path))) is None


def test_a_mounted_secret_of_kubernetes_works_and_its_rotation_too(place: Place) -> None:
    """`password -> ..data/password`, `..data -> ..2026_11_29`: all inside the folder."""
    mount = place.folder / "cml"
    for day in ("..2026_11_28", "..2026_11_29"):
        (mount / day).mkdir(parents=True)
        (mount / day / "password").write_text(day)
    (mount / "..data").symlink_to("..2026_11_28")
    (mount / "password").symlink_to("..data/password")
    assert place.read(mount / "password") == "..2026_11_28"
    (mount / "..data_tmp").symlink_to("..2026_11_29")
    (mount / "..data_tmp").rename(mount / "..data")
    assert place.read(mount / "password") == "..2026_11_29"


def test_a_folder_that_is_itself_a_link_is_the_folder(place: Place, tmp_path: Path) -> None:
    """The installation may link /etc/labfleet/secrets to where its secrets are mounted."""
    place.put("cml")
    link = tmp_path / "link"
    link.symlink_to(place.folder)
    secrets = HostSecrets({}, folder=str(link))
    assert secrets.resolve(SecretRef(file=str(link / "cml"))) == "good"
    assert secrets.resolve(SecretRef(file=str(place.folder / "cml"))) == "good"


def test_what_lies_outside_is_refused_with_what_to_do(place: Place, tmp_path: Path) -> None:
    """By its path, by `..`, by a link to a file or a folder: each was read before."""
    (place.folder / "link").symlink_to(place.other)
    (place.folder / "up").symlink_to(tmp_path)
    beside = tmp_path / "secrets-of-others"
    beside.mkdir()
    (beside / "x").write_text(CONTENT)
    outside = [place.other, place.folder / "link", place.folder / "up" / "pgpass",
               place.folder / ".." / "pgpass", beside / "x", "../pgpass", place.folder,
               "/proc/self/environ", "/dev/zero", tmp_path / "absent"]  # fmt: skip
    for path in outside:
        found = place.refusal(path)
        assert found.reason == NOT_ALLOWED, path
        assert str(path) in found.message
        assert str(place.folder) in found.message
        assert "move it there" in found.message
        assert "secrets_folder" in found.message


def test_a_file_with_two_names_is_refused(place: Place) -> None:
    """A hard link in the folder gave out a file that was denied by its path."""
    os.link(place.other, place.folder / "hard")
    found = place.refusal(place.folder / "hard")
    assert (found.reason, "2 names (hard links)" in found.message) == (NOT_ALLOWED, True)
    os.unlink(place.other)
    assert place.read(place.folder / "hard") == CONTENT


def test_what_is_no_file_is_refused_at_once(place: Place) -> None:
    """A pipe would hold the server up for ever; sockets and folders are nothing to read."""
    os.mkfifo(place.folder / "pipe")
    (place.folder / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place.folder / "socket"))
        for name in ("pipe", "folder", "socket"):
            found = place.refusal(place.folder / name)
            assert (found.reason, "no regular file" in found.message) == (NOT_ALLOWED, True)


def test_an_over_long_file_is_refused_and_not_cut(place: Place) -> None:
    """64 KiB are read whole; one more byte was silently left out before."""
    path = place.put("long", "x" * SECRET_LIMIT)
    assert len(place.read(path)) == SECRET_LIMIT
    path.write_text("x" * (SECRET_LIMIT + 1))
    found = place.refusal(path)
    assert (found.reason, "longer than 65536 bytes" in found.message) == (NOT_ALLOWED, True)


def test_what_is_allowed_and_cannot_be_read_is_missing_and_not_outside(place: Place) -> None:
    """Absent, empty, no text, an impossible name: another reason, and no alert at start."""
    (place.folder / "loop").symlink_to("loop")
    place.put("empty", "\n")
    (place.folder / "binary").write_bytes(b"\xff\xfe" + CONTENT.encode())
    for name in ("absent", "empty", "binary", "loop", "a\0b", "x" * 5000, "no/such/folder"):
        found = place.refusal(place.folder / name)
        assert (found.reason, "secret file" in found.message) == ("NoSecret", True), name
    missing = HostSecrets({}, folder=str(place.folder / "gone"))
    assert missing.outside(SecretRef(file=str(place.folder / "gone" / "x"))) is None


def test_the_servers_own_files_in_the_folder_are_not_given_out(place: Place) -> None:
    """The TLS key, files that variables of AWS and PostgreSQL name, and tokens of labfleet."""
    key, pgpass = place.put("key.pem", CONTENT), place.put("pgpass", CONTENT)
    token = place.put("admin.token", f"lf_{'0' * 16}_{'x' * 43}\n")
    settings = load(
        {"secrets_folder": str(place.folder), "tls_key": str(key), "tls_cert": "c.pem"},
        environment={},
    )
    place.secrets = secrets_of(settings, {"PGPASSFILE": str(pgpass)})
    for path in (key, pgpass):
        found = place.refusal(path)
        assert (found.reason, "the server's own" in found.message) == (NOT_ALLOWED, True)
    with pytest.raises(errors.Denied, match="holds a token of labfleet") as caught:
        place.read(token)
    assert "xxxx" not in str(caught.value)


def test_variables_need_a_name_of_the_list() -> None:
    """Before, any variable but the server's own was given out, DATABASE_URL too."""
    env = dict.fromkeys(
        ("LABFLEET_SECRET_CML", "CML_ADMIN_PASSWORD", "CML_WORKER_API_PASSWORD", "HOOKS",
         "CML_LICENSE_TOKEN", "EXAM_A", "DATABASE_URL", "EXAMPLE", "AWS_SECRET_ACCESS_KEY",
         "PGPASSWORD", "LABFLEET_TOKEN", "KEY", "LABFLEET_SECRETS_FOLDER"),
        CONTENT,
    )  # fmt: skip
    settings = load(
        {"secrets_variables": ("HOOKS", "EXAM_*", "AWS_*", "KEY"), "aws_access_key_env": "KEY"},
        environment={},
    )
    secrets = secrets_of(settings, env)
    refused = {name: secrets.outside(SecretRef(env=name)) for name in env}
    read = [name for name, told in refused.items() if told is None]
    assert {secrets.resolve(SecretRef(env=name)) for name in read} == {CONTENT}
    for name, told in refused.items():
        if told is not None:
            with pytest.raises(errors.Denied) as caught:
                secrets.resolve(SecretRef(env=name))
            assert (caught.value.reason, caught.value.message) == (NOT_ALLOWED, told)
            assert (name in told, CONTENT in told) == (True, False)
    assert read == ["LABFLEET_SECRET_CML", "CML_ADMIN_PASSWORD", "CML_WORKER_API_PASSWORD", "HOOKS",
                    "CML_LICENSE_TOKEN", "EXAM_A"]  # fmt: skip


def test_the_refusal_of_a_variable_says_what_to_do() -> None:
    """Another name, or the setting."""
    told = HostSecrets({}).outside(SecretRef(env="CML_PASSWORD"))
    assert told == (
        "variable CML_PASSWORD is not for secrets: rename it to LABFLEET_SECRET_CML_PASSWORD, or "
        "name it in the server's setting secrets_variables"
    )
    with pytest.raises(errors.Denied, match="LABFLEET_SECRET_X is not set"):
        HostSecrets({}).resolve(SecretRef(env="LABFLEET_SECRET_X"))


def test_each_variable_that_becomes_a_reference_is_allowed() -> None:
    """Upstream's variables that make a secretRef of a template may be read by it."""
    names = {
        value["env"]
        for row in aliases.TABLE
        if row.place == "Template"
        and isinstance(value := _read(row), dict)
        and value.keys() == {"env"}
    }
    assert names == aliases.SECRET_VARIABLES
    assert len(names) == 3


def _read(row: aliases.Alias) -> object:
    try:
        return row.read("10")
    except ValueError:
        return None


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"secrets_folder": "secrets"}, "full path"),
        ({"secrets_folder": "/"}, "holds the data folder"),
        ({"secrets_folder": "/srv/fleet", "data": "/srv/fleet/data"}, "holds the data folder"),
        ({"secrets_folder": "/srv/fleet", "data": "/srv/fleet"}, "holds the data folder"),
        ({"secrets_variables": ("*",)}, r"'\*' is neither NAME nor PREFIX"),
        ({"secrets_variables": ("A*B",)}, "neither NAME nor PREFIX"),
    ],
)
def test_a_setting_that_would_allow_everything_is_refused(given: dict, what: str) -> None:
    """An allow-list that holds the store, or all variables, is none."""
    with pytest.raises(errors.Invalid, match=what):
        load(given, environment={})


def test_the_settings_are_variables_too() -> None:
    """Lists are written with commas."""
    env = {"LABFLEET_SECRETS_FOLDER": "/run/secrets", "LABFLEET_SECRETS_VARIABLES": "A, B_*"}
    found = load({}, environment=env)
    assert (found.secrets_folder, found.secrets_variables) == ("/run/secrets", ("A", "B_*"))
    assert load({}, environment={}).secrets_folder == "/etc/labfleet/secrets"
