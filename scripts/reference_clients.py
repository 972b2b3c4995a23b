"""The page of what clients of Kubernetes call in tests: reference.py writes it with the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

HEAD = """# What clients call of the Kubernetes simulator

Clients that we did not write make these calls in `make test-real`, unchanged: kubectl of the machine,
lightkube 1.0.1, kubernetes_asyncio 36.1.0 and kr8s 0.20.15. helm cannot be had there, so that nothing is
claimed of it. `@name` is a file of [kubectl_calls.py](../../tests/official_clients/kubectl_calls.py).
"""
CALLS = {
    "discovery": r"api-resources|api_resources|API groups",
    "create": r"create",
    "get": r"\bget\b|\bread\b",
    "list in pages": r"chunk|list",
    "replace": r"replace",
    "patch": r"\bpatch",
    "apply by the client": r"`apply -f",
    "apply by the server": r"server-side",
    "scale": r"scale",
    "wait for a rollout or a condition": r"rollout status|Available",
    "watch": r"watch|wait",
    "watch from a compacted version (410)": r"compacted",
    "watch that is cut": r"is cut",
    "logs": r"\blogs?\b",
    "evict": r"drain",
    "cordon": r"cordon",
    "delete": r"delete",
    "metrics.k8s.io": r"metrics\.k8s\.io|`top",
    "who am I, what may I": r"whoami|Review|can-i",
    "401 and 403": r"401",
    "tables": r"`get pods",
}
"""Calls, and by which words of a test they are known to be made."""


def client_calls(root: Path) -> Iterator[tuple[str, str, str]]:
    """Yield client, group and calls of what clients of Kubernetes are made to do in tests."""
    folder = root / "tests" / "official_clients"
    tree = ast.parse((folder / "kubectl_calls.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CALLS" and node.value:
            for group, rows in ast.literal_eval(node.value).items():
                yield "kubectl 1.32", group, ", ".join(f"`{line}`" for line, _ in rows)
    for name in ("lightkube", "kubernetes_asyncio", "kr8s"):
        tree = ast.parse((folder / f"run_{name}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                ast.unparse(each) == "check" for each in node.decorator_list
            ):
                yield name, node.name.replace("_", " "), ast.get_docstring(node) or ""


def _table(*rows: tuple[str, ...]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def page_clients(root: Path) -> str:
    """Return calls by clients, and then each client's groups of calls."""
    rows = list(client_calls(root))
    clients = list(dict.fromkeys(name for name, _, _ in rows))
    texts = {each: " ".join(text for name, _, text in rows if name == each) for each in clients}
    cells = [
        (call, *("x" if re.search(form, texts[each]) else "" for each in clients))
        for call, form in CALLS.items()
    ]
    found = [HEAD, _table(("call", *clients), *cells)]
    for client in clients:
        shown = [(group, text) for name, group, text in rows if name == client]
        found.append(f"## {client}\n\n{_table(('group', 'calls'), *shown)}")
    return "\n".join(found)
