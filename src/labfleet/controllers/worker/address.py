"""Where a worker's CML is reached in this boot, with which login, and which certificate is its own."""

from __future__ import annotations

from labfleet.controllers.context import Context
from labfleet.decisions import reach
from labfleet.interfaces.lab_host import HostAddress
from labfleet.resources.machine import Machine, MachineStatus, TlsSettings
from labfleet.resources.worker import Worker


def pinned(worker: Worker, boot: str) -> str | None:
    """Return the certificate that was accepted first in this boot; None before there was one."""
    known = worker.status.cml
    return known.tls_fingerprint if known.boot == boot else None


def address_of(
    context: Context, worker: Worker, machine: Machine, shown: MachineStatus
) -> HostAddress | None:
    """Return the address of the worker's CML in this boot, or None without one.

    Addresses, logins and first-seen certificates belong to one boot (facts/aws.md#boot-facts).
    """
    base = reach.cml_url(machine, shown)
    if base is None:
        return None
    boot = "external" if shown.id is None else f"{shown.id}@{shown.launched}"
    known = pinned(worker, boot)
    tls = machine.cml.tls
    return HostAddress(
        worker=worker.key.label,
        base_url=base,
        boot=boot,
        username=machine.cml.admin_username,
        password=context.secrets.resolve(machine.cml.admin_password),
        tls=TlsSettings(mode=tls.mode, fingerprint=tls.fingerprint or known, ca_file=tls.ca_file),
    )
