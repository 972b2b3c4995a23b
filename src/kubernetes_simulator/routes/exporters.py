"""The exporters as text: cAdvisor of a node's kubelet, and kube-state-metrics."""

from kubernetes_simulator.core import writing
from kubernetes_simulator.core.cadvisor import cadvisor
from kubernetes_simulator.core.errors import no_such_path
from kubernetes_simulator.core.kube_state import kube_state
from kubernetes_simulator.core.world import World
from kubernetes_simulator.routes.objects import Call
from kubernetes_simulator.routes.web import Reply, text_reply

KIND = "text/plain; version=0.0.4"


def scraped(world: World, kind: str, node: str) -> Reply:
    """Return a page of figures; with a node only of that one, without a label for it."""
    match kind:
        case "cadvisor":
            return text_reply(cadvisor(world, node), kind=KIND)
        case "kube-state":
            return text_reply(kube_state(world), kind=KIND)
    raise no_such_path()


def proxied(call: Call) -> Reply:
    """Return a node's page as the API server's proxy to its kubelet does."""
    node = writing.found(call.world, call.place)
    if call.place.sub != "proxy/metrics/cadvisor":
        raise no_such_path()
    return text_reply(cadvisor(call.world, node["metadata"]["name"]), kind=KIND)
