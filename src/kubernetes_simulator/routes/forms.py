"""In which form objects are sent: whole, as rows of a table, or their metadata alone."""

from dataclasses import dataclass
from typing import Literal

from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import Resource
from kubernetes_simulator.core.watching import Event
from kubernetes_simulator.routes.tables import partial, table
from kubernetes_simulator.routes.web import Request, encoded

Kind = Literal["object", "table", "partial"]
GROUPS = frozenset({"", "meta.k8s.io"})


def wants(accept: str) -> list[dict[str, str]]:
    """Return the media types that a caller takes, with their parameters, best first."""
    found = []
    for part in accept.split(",")[:20]:
        name, *rest = (each.strip() for each in part.split(";"))
        row = {"type": name.lower()}
        for each in rest:
            key, _, value = each.partition("=")
            row[key.strip()] = value.strip().strip('"')
        found.append(row)
    return found


@dataclass(frozen=True, slots=True)
class Form:
    """A form, and how much of each object the rows of a table carry."""

    kind: Kind = "object"
    include: str = "Metadata"

    def one(self, resource: Resource, obj: Json, now: float) -> Json:
        """Return one object."""
        if self.kind == "table":
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            return table(resource, [obj], meta, now, self.include)
        return partial(obj) if self.kind == "partial" else obj

    def many(self, resource: Resource, items: list[Json], meta: Json, now: float) -> Json:
        """Return a list."""
        if self.kind == "table":
            return table(resource, items, meta, now, self.include)
        if self.kind == "partial":
            return {
                "kind": "PartialObjectMetadataList",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": meta,
                "items": [partial(obj) for obj in items],
            }
        # Entries of a list do not say their kind again.
        rows = [{k: v for k, v in obj.items() if k not in {"kind", "apiVersion"}} for obj in items]
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": meta,
            "items": rows,
        }

    def event(self, resource: Resource, event: Event, now: float, *, first: bool) -> bytes:
        """Return one line of a watch."""
        kind, obj = event
        if kind == "ERROR" or (kind == "BOOKMARK" and self.kind == "object"):
            shown = obj
        elif self.kind == "table":
            meta = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            rows = [] if kind == "BOOKMARK" else [obj]
            shown = table(resource, rows, meta, now, self.include, head=first)
            if kind == "BOOKMARK":
                shown["rows"] = [{"cells": [], "object": partial(obj)}]
        else:
            shown = partial(obj) if self.kind == "partial" else obj
        return encoded({"type": kind, "object": shown}) + b"\n"


def form_of(request: Request) -> Form:
    """Return the form that a caller takes; 406 if it takes none that there is."""
    accept = request.headers.get("accept", "") or "*/*"
    for row in wants(accept):
        if row["type"] not in {"application/json", "application/*", "*/*"}:
            continue
        if row.get("g", "") not in GROUPS and "as" in row:
            continue
        match row.get("as", ""):
            case "Table":
                return Form("table", request.query.get("includeObject", "Metadata"))
            case "PartialObjectMetadata" | "PartialObjectMetadataList":
                return Form("partial")
            case "":
                return Form()
    raise ApiError(
        406, "NotAcceptable",
        "only the following media types are accepted: application/json, "
        "application/json;stream=watch",
    )  # fmt: skip
