"""The control endpoint `/_control`: settings, rules, journal, state, and acts from outside the API.

`/_fake` is its older name. JSON in and out; an error is 400 with `{"error": ...}`. Paths and
bodies are listed in ROUTES and described in docs/reference/aws-simulator.md.
"""

import dataclasses
import datetime as dt
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from moto.ec2.exceptions import EC2ClientError
from moto.moto_api._internal import mock_random

from aws_simulator import faults, images, invariants, meter, outside_acts, views
from aws_simulator.calls import Environ, Refusal, Reply, json_reply
from aws_simulator.snapshots import Snapshots
from aws_simulator.world import OutsideAct, World

BODY_LIMIT = 16 << 20
PAGE = 1000
RULES_LIMIT = 1000
JOURNAL_FIELDS = ("source", "service", "action", "region", "account", "key", "error", "fault")
Answer = Callable[["Control", Any, dict[str, str]], Any]


class Control:
    """Answers `/_control/...` for one world; `after_reset` puts the image and network back."""

    def __init__(self, world: World, after_reset: Callable[[], dict[str, Any]]) -> None:
        """Serve a world."""
        self.world = world
        self.after_reset = after_reset
        self.snapshots = Snapshots()

    def __call__(self, environ: Environ) -> Reply:
        """Answer one control request."""
        path = environ["PATH_INFO"].split("/", 2)[2] if environ["PATH_INFO"].count("/") > 1 else ""
        answer = ROUTES.get((environ["REQUEST_METHOD"], path.strip("/")))
        if answer is None:
            known = sorted(f"{method} /_control/{name}" for method, name in ROUTES)
            return json_reply({"error": "no such route", "routes": known}, 404)
        query = {key: value[-1] for key, value in parse_qs(environ["QUERY_STRING"]).items()}
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > BODY_LIMIT:
            return json_reply({"error": "the body is too large"}, 413)
        try:
            body = json.loads(environ["wsgi.input"].read(length) or b"{}") if length else {}
            return json_reply(answer(self, body, query))
        except (Refusal, EC2ClientError) as no:
            return json_reply({"error": f"{no.code}: {no.message}"}, 400)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            return json_reply({"error": f"{type(error).__name__}: {error}"}, 400)

    def config(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Return the configuration after merging the body into it."""
        with self.world.lock:
            self.world.config.merge(body)
            return self.world.config.as_dict()

    def rules(self, body: Any, _query: dict[str, str]) -> Any:
        """Return the rules after appending those of the body (one or a list), all or none."""
        wanted = body if isinstance(body, list) else [body] if body else []
        with self.world.lock:
            if len(self.world.rules) + len(wanted) > RULES_LIMIT:
                raise ValueError(f"more than {RULES_LIMIT} rules")
            first = self.world.rule_number + 1
            added = [faults.parse_rule(data, first + index) for index, data in enumerate(wanted)]
            self.world.rule_number += len(added)
            self.world.rules += added
            return [dataclasses.asdict(rule) for rule in self.world.rules]

    def drop_rules(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Forget all rules, or those whose ids the body lists."""
        with self.world.lock:
            ids = set(body.get("ids", [rule.id for rule in self.world.rules]))
            self.world.rules[:] = [rule for rule in self.world.rules if rule.id not in ids]
            return [dataclasses.asdict(rule) for rule in self.world.rules]

    def journal(self, _body: Any, query: dict[str, str]) -> Any:
        """Return journal entries after a number, at most `limit`, that equal the given fields."""
        limit = min(int(query.get("limit", PAGE)), PAGE)
        wanted = {name: query[name] for name in JOURNAL_FIELDS if name in query}
        with self.world.lock:
            entries = self.world.journal.after(int(query.get("after", 0)), limit, **wanted)
            return {"entries": entries, "counts": dict(self.world.journal.counts)}

    def state(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return the real state of instances, volumes and addresses, without lags."""
        self.world.settle()
        with self.world.lock:
            return views.state(self.world)

    def summary(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return the numbers by which a run is judged."""
        self.world.settle()
        with self.world.lock:
            return views.summary(self.world)

    def bill(self, body: dict[str, Any], query: dict[str, str]) -> Any:
        """Return what a month (`2026-11`) has cost so far, by prices of the body or the usual ones."""
        self.world.settle()
        with self.world.lock:
            now = self.world.clock.now()
            wanted = body.get("month") or query.get("month") or ""
            month = wanted or dt.datetime.fromtimestamp(now, tz=dt.UTC).strftime("%Y-%m")
            prices = body.get("prices", meter.PRICES)
            return meter.bill(views.metered(self.world), month, prices, now)

    def notices(self, _body: Any, _query: dict[str, str]) -> Any:
        """Return what EventBridge would have carried: spot warnings and scheduled events."""
        self.world.settle()
        with self.world.lock:
            return list(self.world.notices)

    def invariants(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Return the violations of those invariants that can be judged by the given facts."""
        facts = invariants.parse(body)
        self.world.settle()
        with self.world.lock:
            state = views.state(self.world)
            books = invariants.Books(
                entries=self.world.journal.entries,
                instances=state["instances"],
                volumes=state["volumes"],
                addresses=state["addresses"],
                doubles=list(self.world.doubles),
                minutes=self.world.journal.minutes,
                now=self.world.clock.now(),
                owner_tag=self.world.config.owner_tag,
                worker_tag=self.world.config.worker_tag,
            )
            return invariants.check(books, facts)

    def hand(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Act as a user of the AWS console, now or in `after` seconds; returns the real states."""
        verb, ids = body["verb"], list(body["ids"])
        fields = {key: value for key, value in body.items() if key not in ("verb", "ids", "at")}
        outside_acts.check(verb, fields)
        self.world.settle()
        with self.world.lock:
            unknown = [item for item in ids if item not in self.world.instances]
            if unknown:
                raise LookupError(f"unknown instances: {', '.join(unknown)}")
            now = self.world.clock.now()
            at = now + float(fields.get("after", 0))
            for item in ids:
                if at > now:
                    self.world.plan(at, item, verb, {**fields, "at": at})
                else:
                    outside_acts.perform(self.world, OutsideAct(now, 0, item, verb, fields))
        self.world.settle()
        with self.world.lock:
            return {item: self.world.machines[item].state for item in ids}

    def clock(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Return the simulated time after `advance`, a new `speed`, or a new wire `offset`."""
        advance, clock = float(body.get("advance", 0)), self.world.clock
        if advance < 0:
            raise ValueError("advance: time runs forward only")
        if float(body.get("speed", 1)) < 0:
            raise ValueError("speed: not below 0")
        with self.world.lock:
            if "speed" in body:
                clock.rescale(float(body["speed"]))
            if "offset" in body:
                self.world.config.clock_offset = float(body["offset"])
            clock.advance(advance)
        self.world.settle()
        offset = self.world.config.clock_offset
        return {"now": clock.now(), "speed": clock.speed, "offset": offset}

    def reset(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Begin anew: no instances, no rules, an empty journal; returns the new image and nets.

        With `seed` the random numbers and the ids begin anew too; with `config` true the defaults come back.
        """
        servers = list(self.world.machines)
        if self.world.cml is not None:
            for server in servers:
                self.world.cml.call(server, "destroy")
        if body.get("config"):
            self.world.config = type(self.world.config)()
        if "seed" in body:
            self._reseed(int(body["seed"]))
        return self.after_reset()

    def seed(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Seed the random numbers of faults, jitter and ids."""
        with self.world.lock:
            self._reseed(int(body["seed"]))
        return {"seed": int(body["seed"])}

    def _reseed(self, seed: int) -> None:
        self.world.seed = seed
        self.world.rng.seed(seed)
        mock_random.seed(seed)

    def snapshot(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Keep the whole state under `name`."""
        self.world.settle()
        with self.world.lock:
            return self.snapshots.take(self.world, str(body.get("name", "")))

    def restore(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Put the state kept under `name` back; the simulated time goes back with it."""
        with self.world.lock:
            return self.snapshots.restore(self.world, str(body.get("name", "")))

    def image(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Register an image: name, owner (account id or alias), created, region."""
        return images.register(self.world, body)

    def drop_image(self, body: dict[str, Any], _query: dict[str, str]) -> Any:
        """Deregister an image by `ami_id`."""
        return images.deregister(self.world, body["ami_id"], body.get("region"))


ROUTES: dict[tuple[str, str], Answer] = {
    ("GET", "config"): Control.config,
    ("POST", "config"): Control.config,
    ("GET", "rules"): Control.rules,
    ("POST", "rules"): Control.rules,
    ("DELETE", "rules"): Control.drop_rules,
    ("GET", "journal"): Control.journal,
    ("GET", "state"): Control.state,
    ("GET", "summary"): Control.summary,
    ("GET", "bill"): Control.bill,
    ("POST", "bill"): Control.bill,
    ("GET", "notices"): Control.notices,
    ("GET", "invariants"): Control.invariants,
    ("POST", "invariants"): Control.invariants,
    ("POST", "hand"): Control.hand,
    ("GET", "clock"): Control.clock,
    ("POST", "clock"): Control.clock,
    ("POST", "reset"): Control.reset,
    ("POST", "seed"): Control.seed,
    ("POST", "snapshot"): Control.snapshot,
    ("POST", "restore"): Control.restore,
    ("POST", "images"): Control.image,
    ("DELETE", "images"): Control.drop_image,
}
