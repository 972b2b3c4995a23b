"""The control endpoint `/_fake`: settings, rules, journal, state, and the hand from outside.

JSON in and out; an objection is 400 with `{"error": ...}`. Paths and bodies are listed in ROUTES.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from aws_simulator import faults, images, invariants, views
from aws_simulator.calls import Environ, Reply, json_reply
from aws_simulator.world import World

BODY_LIMIT = 1 << 20
PAGE = 1000
VERBS = ("start", "stop", "terminate", "tag", "untag", "impair", "recover", "fail")
Answer = Callable[["Control", dict[str, Any], dict[str, str]], Any]


class Control:
    """Answers `/_fake/...` for one world; `after_reset` puts the image and network back."""

    def __init__(self, world: World, after_reset: Callable[[], dict[str, Any]]) -> None:
        """Serve a world."""
        self.world = world
        self.after_reset = after_reset

    def __call__(self, environ: Environ) -> Reply:
        """Answer one control request."""
        path = environ["PATH_INFO"].removeprefix("/_fake").strip("/")
        answer = ROUTES.get((environ["REQUEST_METHOD"], path))
        if answer is None:
            known = sorted(f"{method} /_fake/{name}" for method, name in ROUTES)
            return json_reply({"error": "no such route", "routes": known}, 404)
        query = {key: value[-1] for key, value in parse_qs(environ["QUERY_STRING"]).items()}
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > BODY_LIMIT:
            return json_reply({"error": "the body is too large"}, 413)
        try:
            body = json.loads(environ["wsgi.input"].read(length) or b"{}") if length else {}
            return json_reply(answer(self, body, query))
        except (ValueError, TypeError, KeyError, LookupError) as error:
            return json_reply({"error": f"{type(error).__name__}: {error}"}, 400)

    def config(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Return the configuration after merging the body into it."""
        with self.world.lock:
            self.world.config.merge(body)
            return self.world.config.as_dict()

    def rules(self, body: Any, _query: dict[str, str]) -> Any:
        """Return the rules after appending those of the body (one or a list)."""
        with self.world.lock:
            added = []
            for data in body if isinstance(body, list) else [body] if body else []:
                self.world.rule_number += 1
                added.append(faults.parse_rule(data, self.world.rule_number))
            self.world.rules += added
            return [dataclasses.asdict(rule) for rule in self.world.rules]

    def drop_rules(self, _body: Any, _query: dict[str, str]) -> Any:
        """Forget all rules."""
        with self.world.lock:
            self.world.rules.clear()
        return []

    def journal(self, _body: Any, query: dict[str, str]) -> Any:
        """Return journal entries after a number, at most `limit`."""
        limit = min(int(query.get("limit", PAGE)), PAGE)
        with self.world.lock:
            entries = self.world.journal.after(int(query.get("after", 0)), limit)
            return {"entries": entries, "counts": dict(self.world.journal.counts)}

    def state(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return instances and volumes as they truly are."""
        self.world.settle()
        with self.world.lock:
            return views.state(self.world)

    def summary(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return the numbers a run is judged by."""
        self.world.settle()
        with self.world.lock:
            return views.summary(self.world)

    def invariants(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return the violations of the cloud-side invariants."""
        self.world.settle()
        with self.world.lock:
            state = views.state(self.world)
            return invariants.check(
                self.world.journal.entries,
                state["instances"],
                state["volumes"],
                list(self.world.doubles),
            )

    def hand(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Do something from the console: verb, ids, tags or keys; returns the true states."""
        verb, ids = body["verb"], body["ids"]
        if verb not in VERBS:
            raise ValueError(f"verb: one of {', '.join(VERBS)}")
        self.world.settle()
        with self.world.lock:
            instances = [self.world.instances[instance_id] for instance_id in ids]
            for instance in instances:
                _deed(self.world, instance, verb, body)
            self._note(verb, ids)
        self.world.settle()
        with self.world.lock:
            return {item: self.world.machines[item].state for item in ids}

    def _note(self, verb: str, ids: list[str]) -> None:
        self.world.journal.add(
            time=self.world.clock.now(),
            source="hand",
            service="ec2",
            action=verb,
            region=self.world.region,
            account="",
            token="",
            ids=tuple(ids),
            result=(),
            status=0,
            error="",
            fault="",
        )

    def clock(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Return the simulated time after advancing it by `advance` seconds."""
        advance = float(body.get("advance", 0))
        if advance < 0:
            raise ValueError("advance: time runs forward only")
        self.world.clock.advance(advance)
        self.world.settle()
        return {"now": self.world.clock.now(), "speed": self.world.clock.speed}

    def reset(self, _body: Any, _query: dict[str, str]) -> Any:
        """Begin anew: no instances, no rules, an empty journal; returns the new image and nets."""
        servers = list(self.world.machines)
        if self.world.cml is not None:
            for server in servers:
                self.world.cml.call(server, "destroy")
        return self.after_reset()

    def seed(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Seed the dice of faults and jitter."""
        self.world.dice.seed(int(body["seed"]))
        return {"seed": int(body["seed"])}

    def image(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Register an image: name, owner (account id or alias), created, region."""
        return images.register(self.world, body)

    def drop_image(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Deregister an image by `ami_id`."""
        return images.deregister(self.world, body["ami_id"])


def _deed(world: World, instance: Any, verb: str, body: dict[str, Any]) -> None:
    machine = world.machines[instance.id]
    if verb in ("start", "stop", "terminate"):
        getattr(instance, verb)()
    elif verb == "tag":
        instance.ec2_backend.create_tags([instance.id], dict(body["tags"]))
    elif verb == "untag":
        for key in body["keys"]:
            instance.ec2_backend.tags[instance.id].pop(key, None)
    elif verb == "fail":
        instance.terminate()
        machine.due = world.clock.now()
        instance.state_reason.code = body.get("code", "Server.InternalError")
        instance.state_reason.message = f"{instance.state_reason.code}: launch failed"
    else:
        machine.impaired = verb == "impair"


ROUTES: dict[tuple[str, str], Answer] = {
    ("GET", "config"): Control.config,
    ("POST", "config"): Control.config,
    ("GET", "rules"): Control.rules,
    ("POST", "rules"): Control.rules,
    ("DELETE", "rules"): Control.drop_rules,
    ("GET", "journal"): Control.journal,
    ("GET", "state"): Control.state,
    ("GET", "summary"): Control.summary,
    ("GET", "invariants"): Control.invariants,
    ("POST", "hand"): Control.hand,
    ("GET", "clock"): Control.clock,
    ("POST", "clock"): Control.clock,
    ("POST", "reset"): Control.reset,
    ("POST", "seed"): Control.seed,
    ("POST", "images"): Control.image,
    ("DELETE", "images"): Control.drop_image,
}
