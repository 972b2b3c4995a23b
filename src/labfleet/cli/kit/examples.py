"""Examples of every command and program, for help and reference; each is parsed by a test."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "get": (
        "labfleet get sessions",
        "labfleet get session/ccnp-4711 -o yaml",
        "labfleet get workers -l site=eu --sort-by phase",
        "labfleet get workers --tag course=ccnp --tag owner",
        "labfleet get sessions -A -o csv",
    ),
    "describe": (
        "labfleet describe worker/w-1",
        "labfleet describe pools",
    ),
    "explain": (
        "labfleet explain session/ccnp-4711",
        "labfleet explain worker/w-1 --idle",
    ),
    "events": (
        "labfleet events session/ccnp-4711",
        "labfleet events pool/exam --limit 200 -o wide",
        "labfleet events -w",
    ),
    "calendar": (
        "labfleet calendar",
        "labfleet calendar --pool exam --from 14d --zone Europe/Warsaw",
        "labfleet calendar --to 1d -o wide",
    ),
    "plan": (
        "labfleet plan pool exam --at 14d --sessions 200 --definition ccnp",
        "labfleet plan pool exam --at 2027-03-01T09:00Z --sessions 9 --definition l1",
    ),
    "cost": (
        "labfleet cost",
        "labfleet cost --by person --month 2026-10",
        "labfleet cost --statement -o csv",
        "labfleet cost --prices",
    ),
    "top": (
        "labfleet top",
        "labfleet top pools",
        "labfleet top worker w-1 --since 3d --metric cpu,memory",
        "labfleet top clusters",
        "labfleet top simulation sim-1",
    ),
    "recommend": (
        "labfleet recommend definition campus",
        "labfleet recommend definition/campus --apply bound -m 'November'",
        "labfleet recommend campus --propose custom --memory 4Gi",
        "labfleet recommend campus-v2 --undo",
    ),
    "calendar-file": (
        "labfleet calendar-file --write labs.ics",
        "labfleet calendar-file -l exam=ccnp --write exam.ics",
    ),
    "calendar-feed": ("labfleet calendar-feed create", "labfleet calendar-feed end"),
    "calendar-feed create": ("labfleet calendar-feed create",),
    "calendar-feed show": ("labfleet calendar-feed show",),
    "calendar-feed end": ("labfleet calendar-feed end",),
    "leaders": ("labfleet leaders",),
    "alerts": ("labfleet alerts",),
    "labs": (
        "labfleet labs worker/w-1",
        "labfleet labs w-1 -o wide",
    ),
    "lab": (
        "labfleet lab stop ada-1",
        "labfleet lab restart ada-1 --node r1 --wait",
        "labfleet lab wipe ada-1 --yes",
    ),
    "lab start": ("labfleet lab start ada-1 --wait",),
    "lab stop": (
        "labfleet lab stop session/ada-1 --node r1",
        "labfleet lab stop worker/w-1 --lab 1c9e7f7a",
    ),
    "lab restart": ("labfleet lab restart ada-1 --wait --timeout 30m",),
    "lab wipe": ("labfleet lab wipe ada-1 --node r1 --yes",),
    "consoles": ("labfleet consoles ada-1",),
    "ignore-lab": (
        "labfleet ignore-lab w-1 1c9e7f7a -m 'the course needs it'",
        "labfleet ignore-lab w-1 1c9e7f7a --undo",
    ),
    "ports": (
        "labfleet ports",
        "labfleet ports worker/w-1",
        "labfleet ports worker/w-1 --release tcp/5041 -m 'that lab is switched off'",
    ),
    "logs": ("labfleet logs w-1",),
    "watch": (
        "labfleet watch sessions -l exam=ccnp",
        "labfleet watch workers -o json",
    ),
    "wait": (
        "labfleet wait session/ccnp-4711 --for phase=READY",
        "labfleet wait worker/w-1 --for condition=Drained --timeout 2h",
        "labfleet wait session/ccnp-4711 --for delete",
    ),
    "admit": (
        "labfleet admit --param chart=waku --param nodecount=50 -- ./run-waku.sh {id}",
        "labfleet admit --cost cpu=4,memory=8Gi --queue --timeout 2h -- make bench",
        "labfleet admit --param chart=waku --hold 30m -- helm install waku-{id} waku",
    ),
    "apply": (
        "labfleet apply -f exam.yaml",
        "labfleet apply -f exam/ --dry-run=server",
        "labfleet apply -f session.yaml --wait",
        "labfleet get session/ccnp-4711 -o yaml | labfleet apply -f -",
    ),
    "diff": ("labfleet diff -f exam/",),
    "book": (
        "labfleet book exam.yaml --csv roster.csv --dry-run",
        "labfleet book exam.yaml --some --yes",
        "labfleet book course.yaml --dry-run",
    ),
    "delete": (
        "labfleet delete session/ccnp-4711",
        "labfleet delete sessions -l exam=ccnp --dry-run client",
        "labfleet delete pool exam --wait",
    ),
    "cancel": (
        "labfleet cancel ccnp-4711 -m 'wrong lab'",
        "labfleet cancel -l exam=ccnp --dry-run client",
    ),
    "extend": (
        "labfleet extend ccnp-4711 --by 30m",
        "labfleet extend group/ccnp-monday --by 30m",
        "labfleet extend -l exam=ccnp --to 2026-11-27T18:00:00+01:00",
    ),
    "shorten": (
        "labfleet shorten ccnp-4711 --by 30m",
        "labfleet shorten group/ccnp-monday --by 30m",
        "labfleet shorten -l exam=ccnp --to 2026-11-27T18:00:00+01:00",
    ),
    "check-in": ("labfleet check-in ccnp-4711", "labfleet check-in -l room=b12 --yes"),
    "hand-over": (
        "labfleet hand-over ccnp-4711 --to bo",
        "labfleet hand-over ccnp-4711 --to bo --email bo@example.org --set POD=7",
    ),
    "take": ("labfleet take ccnp-4711", "labfleet take ccnp-4711 --email bo@example.org"),
    "move": (
        "labfleet move ccnp-4711 --to 2026-11-27T14:00:00+01:00",
        "labfleet move group/ccnp-monday --later 1h",
        "labfleet move -l exam=ccnp --later 1h",
    ),
    "observe": ("labfleet observe ccnp-4711", "labfleet observe ccnp-4711 --no-wait"),
    "retry": (
        "labfleet retry ccnp-4711 -m 'the server was down'",
        "labfleet retry ccnp-4711 --now",
        "labfleet retry -l exam=ccnp --dry-run client",
    ),
    "kept": (
        "labfleet kept ccnp-4711 --write ccnp-4711.yaml",
        "labfleet kept ccnp-4711 --delete",
    ),
    "continue": ("labfleet continue ccnp-4711", "labfleet continue ccnp-4711 --as ccnp-evening"),
    "drain": (
        "labfleet drain w-1 --deadline 2h -m 'kernel update'",
        "labfleet drain w-1 --deadline 2026-11-27T22:00:00Z --force",
        "labfleet drain w-1 --undo",
    ),
    "cordon": ("labfleet cordon w-1",),
    "uncordon": ("labfleet uncordon w-1",),
    "license": (
        "labfleet license status w-1",
        "labfleet license register w-1 --token env=LABFLEET_SECRET_TOKEN --wait",
        "labfleet license register w-1 --product CML_Personal40 --force",
        "labfleet license deregister w-1",
        "labfleet license renew w-1 w-2",
    ),
    "license status": ("labfleet license status w-1",),
    "license register": (
        "labfleet license register w-1 --token env=LABFLEET_SECRET_TOKEN --wait",
        "labfleet license register w-1 --product CML_Personal40 --force",
    ),
    "license deregister": ("labfleet license deregister w-1 --wait --timeout 30m",),
    "license renew": ("labfleet license renew w-1 w-2",),
    "console": ("labfleet console w-1",),
    "stop": ("labfleet stop w-1",),
    "start": ("labfleet start w-1",),
    "adopt": (
        "labfleet adopt worker/alices-cml",
        "labfleet adopt i-0abc1234def567890 --region us-east-1 --template metal",
    ),
    "discovery": ("labfleet discovery",),
    "garbage": ("labfleet garbage",),
    "resolve": ("labfleet resolve w-1-leak -m 'freed by hand'",),
    "settings": (
        "labfleet settings",
        "labfleet settings set idle.enabled=true idle.timeoutMinutes=30 -m 'save money'",
        "labfleet settings unset idle.timeoutMinutes",
    ),
    "settings set": (
        "labfleet settings set idle.enabled=true idle.timeoutMinutes=30 -m 'save money'",
        "labfleet settings set discovery.regions=us-east-1,us-west-2",
    ),
    "settings unset": ("labfleet settings unset idle.timeoutMinutes -m 'as before'",),
    "pause": ("labfleet pause -m 'AWS is ill'", "labfleet pause --pool exam"),
    "resume": ("labfleet resume", "labfleet resume --pool exam"),
    "confirm-clock": ("labfleet confirm-clock -m 'NTP was wrong'",),
    "idle": ("labfleet idle", "labfleet idle disable w-1"),
    "idle enable": ("labfleet idle enable w-1 w-2",),
    "idle disable": ("labfleet idle disable w-1",),
    "history": (
        "labfleet history --family waku",
        "labfleet history --kind WorkerBoot --limit 200 -o csv",
    ),
    "history export": ("labfleet history export --write runs.csv",),
    "history import": ("labfleet history import runs.csv",),
    "token": (
        "labfleet token create --role user --owner ada --expires 30d --write ada.token",
        "labfleet token list",
    ),
    "token create": (
        "labfleet token create --role user --owner ada --expires 30d --write ada.token",
        "labfleet token create --role runner --owner ci --expires 2026-12-31T18:00:00Z",
    ),
    "token list": ("labfleet token list", "labfleet token list -o csv"),
    "token revoke": ("labfleet token revoke 7c2f",),
    "context": (
        "labfleet context set prod --url https://lab.example.org --token-file ops.token",
        "labfleet context use prod",
        "labfleet --context prod get sessions",
    ),
    "context set": (
        "labfleet context set prod --url https://lab.example.org --token-file ops.token",
        "labfleet context set prod -n exams",
    ),
    "context list": ("labfleet context list",),
    "context use": ("labfleet context use prod",),
    "context delete": ("labfleet context delete prod",),
    "version": ("labfleet version",),
    "server": (
        "labfleet server --data /var/lib/labfleet",
        "labfleet server --host 0.0.0.0 --tls-cert fleet.pem --tls-key fleet.key",
        "labfleet server --roles api --store postgresql://labfleet@db/labfleet",
    ),
    "demo": (
        "labfleet demo",
        "labfleet demo --once --json",
        "labfleet demo --labs my-topologies --minutes 60 --port 8470",
    ),
    "backup": ("labfleet backup fleet.backup --data var",),
    "restore": ("labfleet restore fleet.backup --data restored",),
    "rehearse": (
        "labfleet rehearse --seeds 1..5 --hours 24",
        "labfleet rehearse --plan bookings.yaml --csv figures.csv",
    ),
    "completion": ('eval "$(labfleet completion bash)"',),
}


def lines(command: str) -> str:
    """Return the end of a program's help, for a parser that keeps lines as they are."""
    return "examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES[command])


def epilog(command: str) -> str | None:
    """Return the end of a command's help, its lines kept; None when it has no examples."""
    found = EXAMPLES.get(command)
    if not found:
        return None
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in found)
