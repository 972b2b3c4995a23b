#!/usr/bin/env bash
# Makes one environment for each client of CML or Kubernetes that we did not write, under var/clients/NAME.
# Cheap when current. Usage: scripts/official-clients.sh [NAME...]. They are never dependencies.
#
# cml-mcp needs Python 3.12 or newer: PYTHON312 names one; without it that client is left out and
# the reason is printed (exit 0), so that its test can skip loudly.
set -euo pipefail
cd "$(dirname "$0")/.."
root=var/clients
mkdir -p "$root"

newer_python() {
  if [ -n "${PYTHON312:-}" ]; then echo "$PYTHON312"; return; fi
  for name in python3.14 python3.13 python3.12; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then
      command -v "$name"; return
    fi
    for place in "$(pyenv root 2>/dev/null || true)"/versions/*/bin/"$name"; do
      if [ -x "$place" ]; then echo "$place"; return; fi
    done
  done
}

make_one() { # NAME PYTHON PACKAGE...
  local place="$root/$1" python="$2"; shift 2
  if [ -f "$place/.packages" ] && [ "$(cat "$place/.packages")" = "$*" ]; then return; fi
  echo "making $place: $*"
  rm -rf "$place"
  "$python" -m venv "$place"
  "$place/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  echo "$*" > "$place/.packages"
}

one() {
  local base="${PYTHON:-python3}" newer
  case "$1" in
    virl2-2.8) make_one "$1" "$base" virl2-client==2.8.0 aiohttp ;;
    virl2-2.9) make_one "$1" "$base" virl2-client==2.9.1 aiohttp ;;
    virl2-2.10) make_one "$1" "$base" virl2-client==2.10.1 aiohttp ;;
    cmlutils) make_one "$1" "$base" cmlutils==2.6.1 virl2-client==2.9.1 ;;
    aiobotocore) make_one "$1" "$base" aiobotocore==3.10.0 ;;
    wingpy) make_one "$1" "$base" wingpy==1.7.0 ;;
    lightkube) make_one "$1" "$base" lightkube==1.0.1 ;;
    kubernetes-asyncio) make_one "$1" "$base" kubernetes-asyncio==36.1.0 ;;
    kr8s) make_one "$1" "$base" kr8s==0.20.15 ;;
    cml-mcp)
      newer="$(newer_python)"
      if [ -z "$newer" ]; then
        echo "cml-mcp left out: it needs Python 3.12 or newer (set PYTHON312)" >&2; return
      fi
      make_one "$1" "$newer" cml-mcp==0.32.2 ;;
    *) echo "unknown client: $1" >&2; exit 2 ;;
  esac
}

if [ $# -eq 0 ]; then
  set -- virl2-2.8 virl2-2.9 virl2-2.10 cmlutils wingpy cml-mcp lightkube kubernetes-asyncio kr8s
fi
for name in "$@"; do one "$name"; done
