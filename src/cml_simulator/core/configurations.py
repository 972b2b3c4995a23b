"""What is configured in running nodes, which the lab has only once it is extracted."""

from cml_simulator.core import builder
from cml_simulator.core.errors import refused
from cml_simulator.core.model import Node, State
from cml_simulator.core.server import Server


def type_in(node: Node, text: str, now: float) -> None:
    """Configure a booted node, as somebody at its console does; the lab's own text stays."""
    _demand_booted(node, now)
    node.running = text


def extract(server: Server, node: Node, now: float) -> None:
    """Write what a booted node is configured with into the lab, in place of its main file."""
    _demand_booted(node, now)
    if not node.kind.has_vm:
        raise refused(f"Node has no configuration to extract: {node.id}")
    text = node.running
    if text is None and not node.configuration:
        text = f"hostname {node.label}\n"
    if text is not None:
        node.configuration = builder.named_files(node, text) + node.configuration[1:]
        server.revision += 1


def _demand_booted(node: Node, now: float) -> None:
    if node.state(now) is not State.BOOTED:
        raise refused(f"Node is not booted: {node.id}")
