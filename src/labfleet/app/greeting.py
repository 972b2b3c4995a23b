"""What a person who started the server by hand does next; programs read the line of JSON instead."""

from __future__ import annotations

from pathlib import Path

from labfleet.app.settings import Settings


def lines(settings: Settings, url: str, *, token: str, token_file: str | None) -> list[str]:
    """Return where the server answers, where its data is, and the commands that come next.

    `token` is the first admin token if it was made by this start, else empty.
    """
    place = Path(settings.data).absolute()
    if not url:
        return [f"Labfleet runs {', '.join(settings.roles)}, without the API; data in {place}."]
    said = [f"Labfleet answers at {url}/ and keeps its data in {place}.", ""]
    said += ["Next, in another terminal:", f"  export LABFLEET_URL={url}"]
    if token_file is not None:
        said.append(f"  export LABFLEET_TOKEN_FILE={Path(token_file).absolute()}")
    elif token:
        said.append(f"  export LABFLEET_TOKEN={token}")
    else:
        said.append("  export LABFLEET_TOKEN=...   # the admin token that the first start showed")
    said += [
        "  labfleet apply -f template.yaml   # where workers come from, then a pool and a lab",
        "  labfleet get all",
        "",
        "Without AWS and CML at hand: labfleet demo. Ctrl-C stops the server in order.",
    ]
    return said
