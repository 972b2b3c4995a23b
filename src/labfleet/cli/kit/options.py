"""The options that every command has; click only, so that help stays quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

FORMATS = "table, wide, json, yaml, name, csv, jsonpath=PATH, custom-columns=TITLE:PATH,..."
SHARED = ("url", "token_file", "ca_file", "context", "namespace", "output", "quiet", "color")


def shared(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every command; they may stand before or after the verb."""
    for option in reversed(
        (
            click.option("--url", metavar="URL", help="Server (env LABFLEET_URL)."),
            click.option(
                "--token-file",
                metavar="FILE",
                help="File with the bearer token (env LABFLEET_TOKEN_FILE or LABFLEET_TOKEN).",
            ),
            click.option("--ca-file", metavar="FILE", help="Certificate authority for https."),
            click.option("--context", metavar="NAME", help="Context (env LABFLEET_CONTEXT)."),
            click.option("-n", "--namespace", metavar="NAME", help="Namespace."),
            click.option("-o", "--output", metavar="FORMAT", help=FORMATS),
            click.option("--json", "output", flag_value="json", help="The same as -o json."),
            click.option("-q", "--quiet", is_flag=True, default=None, help="Names only, no notes."),
            click.option(
                "--color",
                type=click.Choice(["auto", "always", "never"]),
                help="Colours; auto means on a terminal, unless NO_COLOR is set.",
            ),
        )
    ):
        command = option(command)
    return command


def wants_json(argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Tell whether errors are to be JSON too; known before the line is parsed.

    What stands after `--` is another program's.
    """
    argv = list(argv)[: list(argv).index("--")] if "--" in argv else argv
    for at, word in enumerate(argv):
        if word in {"--json", "-ojson", "-o=json", "--output=json"}:
            return True
        if word in {"-o", "--output"} and list(argv[at + 1 : at + 2]) == ["json"]:
            return True
    named = any(word.startswith(("-o", "--output")) for word in argv)
    return not named and env.get("LABFLEET_OUTPUT") == "json"
