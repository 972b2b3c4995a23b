#!/usr/bin/env bash
# Runs what needs more than `make test` has: PostgreSQL, Prometheus, VictoriaMetrics, a browser,
# clients of CML that we did not write (tests/official_clients makes their environments), and once more
# under Python 3.13 the tests that could prove something new there. `make test-real` calls it; it installs what is missing
# (Debian packages as root or with sudo; Python packages into environments under var/).
#
# PYTHON313=... names a Python 3.13 where none is found by itself.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV="${VENV:-.venv}"
ROOT="$PWD"
VAR="$ROOT/var"
failed=()
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

say() { echo "== $*"; }

# --- Debian packages ----------------------------------------------------------------------------

missing_packages() {
  compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || echo postgresql
  # A browser is large: only when some test asks for one.
  if grep -rqs --include='*.py' 'chromium' tests; then
    command -v chromium >/dev/null || echo chromium
  fi
}

install_packages() {
  local packages
  mapfile -t packages < <(missing_packages)
  [ "${#packages[@]}" = 0 ] && return
  bash scripts/debian-packages.sh "${packages[@]}"
}

# Only unpacked: installed, each would start a service of its own, and Prometheus brings pages.
unpack_packages() {
  local name
  mkdir -p "$VAR/debian"
  for name in prometheus victoria-metrics; do
    if command -v "$name" >/dev/null || [ -x "$VAR/debian/usr/bin/$name" ]; then continue; fi
    say "unpacking $name"
    (
      cd "$VAR/debian"
      # The lists of packages may be older than the archive.
      apt-get download -qq "$name" 2>/dev/null || {
        bash "$ROOT/scripts/debian-packages.sh"
        apt-get download -qq "$name"
      }
      dpkg-deb -x "$name"_*.deb .
      dpkg-deb -W "$name"_*.deb
      rm "$name"_*.deb
    )
  done
}

# --- Python environments ------------------------------------------------------------------------

# environment PYTHON FOLDER STAMPED-FILE PACKAGES...: cheap when the stamped file is older.
environment() {
  local python="$1" folder="$2" watched="$3"
  shift 3
  if [ "$folder/.current" -nt "$watched" ]; then return; fi
  say "environment ${folder#"$ROOT/"}"
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
  "$folder/bin/python" -m pip install --quiet --no-compile "$@"
  touch "$folder/.current"
}

python313() {
  local candidate pyenv_root
  pyenv_root="$(pyenv root 2>/dev/null || echo "${PYENV_ROOT:-$HOME/.pyenv}")"
  for candidate in "${PYTHON313:-}" python3.13 "$pyenv_root"/versions/3.13*/bin/python3.13; do
    [ -n "$candidate" ] || continue
    # A pyenv shim exists for versions that are not active: only running it tells.
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 13))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

# --- the parts ----------------------------------------------------------------------------------

# Before real_services: a rehearsal has to give the same log under both Pythons.
other_environment() {
  local python
  if ! python="$(python313)"; then
    echo "no Python 3.13 found: set PYTHON313" >&2
    return 1
  fi
  environment "$python" "$VAR/venv313" pyproject.toml -e '.[dev]'
}

real_services() {
  LABFLEET_OTHER_PYTHON="$VAR/venv313/bin/python" \
    "$VENV/bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q -m real
}

# Not again: style, docs and benchmarks read or run the same code; the rehearsals and the
# controllers' stories in virtual time, since test_python_versions_agree_on_the_log shows, over the
# same controllers, that rehearsals are equal to the last event; the databases of earlier revisions,
# played on by the same controllers; of the virtual hours over moto and of the demos one each, which
# is enough to show that they run. Properties are shown fewer examples: what they find does not
# depend on the Python, and `make test` looks for it with all of them.
other_python() {
  local folders
  mapfile -t folders < <(find tests -mindepth 1 -maxdepth 1 -type d -not -name '__pycache__' \
    -not -name style -not -name docs -not -name benchmarks -not -name rehearsal \
    -not -name controllers -not -name recorded -not -name aws_bugs -not -name e2e | sort)
  "$VAR/venv313/bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder -q \
    --hypothesis-profile quick -m 'not real' "${folders[@]}" tests/aws_bugs/test_harness.py \
    tests/e2e/test_demo.py::test_the_main_job_ends_with_nothing_left_over
}

part() {
  say "$1"
  # A condition would switch errexit off inside the part; a shell beside this one keeps it on.
  (set -e; "$1") &
  if wait "$!"; then say "$1: ok"; else
    say "$1: FAILED"
    failed+=("$1")
  fi
}

mkdir -p "$VAR"
install_packages
unpack_packages
for name in other_environment real_services other_python; do part "$name"; done
if [ "${#failed[@]}" -gt 0 ]; then
  echo "test-real failed: ${failed[*]}" >&2
  exit 1
fi
