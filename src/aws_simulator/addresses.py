"""Addresses over an instance's life: a stop and start keeps elastic ones and renews the others.

Also releases what a terminated instance had: interfaces, private addresses, volumes, profile.
"""

from collections.abc import Callable, Container
from typing import Any

TRIES = 10_000


def elastic(nic: Any) -> Any:
    """Return the elastic address of an interface, or None."""
    found = (each for each in nic.ec2_backend.addresses if each.eni is nic)
    return next(found, None)


def unused(given: Callable[[], str], taken: Container[str]) -> str:
    """Return an unused public address: moto draws from 65,000 without remembering which are used.

    Of 600 launches about two would share an address, and callers could not tell them apart.
    """
    for _ in range(TRIES):
        address = given()
        if address not in taken:
            return address
    raise RuntimeError("no public address is left")


def rest(instance: Any) -> None:
    """Drop the public addresses of a stopped instance, but for elastic ones."""
    for nic in instance.nics.values():
        if elastic(nic) is None:
            nic.stop()


def wake(instance: Any) -> None:
    """Give a starting instance new public addresses where it has no elastic one."""
    for nic in instance.nics.values():
        if elastic(nic) is None:
            nic.start()


def booted(instance: Any, address: str) -> None:
    """Give an instance the loopback address on which its CML server answers."""
    primary = instance.nics[0]
    primary.private_ip_address = address
    primary.private_ip_addresses = [{"Primary": True, "PrivateIpAddress": address}]
    if primary.public_ip_auto_assign and elastic(primary) is None:
        primary.public_ip = address


def release(instance: Any) -> None:
    """Give back what a terminated instance had; an elastic address stays with the account."""
    backend = instance.ec2_backend
    for nic in instance.nics.values():
        held = elastic(nic)
        if held is not None:
            held.eni = held.instance = held.association_id = None
            nic.public_ip = None
        nic.stop()
        if nic.delete_on_termination and nic.id in backend.enis:
            backend.enis.pop(nic.id)
            backend.tags.pop(nic.id, None)
    instance.teardown_defaults()
    free(instance)
    association = backend.iam_instance_profile_associations.get(instance.id)
    if association is not None:
        backend.disassociate_iam_instance_profile(association_id=association.association_id)


class Freed(dict[str, None]):
    """Free private addresses, reused in the order of their release: moto's order varies by run."""

    def add(self, address: str) -> None:
        """Take an address back."""
        self[address] = None

    def remove(self, address: str) -> None:
        """Give a certain address out; KeyError when it is not free."""
        del self[address]

    def pop(self, *_: Any) -> str:  # type: ignore[override]
        """Give the oldest address out; KeyError when there is none."""
        for address in self:
            del self[address]
            return address
        raise KeyError


def free(instance: Any) -> None:
    """Return an instance's private addresses to its subnet."""
    if not instance._private_ips:
        return
    subnet = instance.ec2_backend.get_subnet(instance.subnet_id)
    if not isinstance(subnet._unused_ips, Freed):
        subnet._unused_ips = Freed.fromkeys(sorted(subnet._unused_ips))
    for address in sorted(instance._private_ips):
        subnet.del_subnet_ip(address)
    instance._private_ips = set()
