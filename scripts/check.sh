#!/bin/sh
# Runs every check, even after one fails; says which failed. `make check` calls it.
# Needs the environment of `make setup`; writes nothing but caches and node_modules.
cd "$(dirname "$0")/.." || exit 2
BIN="${VENV:-.venv}/bin"
OUT="$(mktemp -d)" || exit 2
trap 'rm -rf "$OUT"' EXIT INT TERM

# The two slow ones run beside the quick ones: two cores are enough for all of them.
part() {
  name="$1"
  shift
  {
    "$@" >"$OUT/$name.out" 2>&1
    echo $? >"$OUT/$name.code"
  } &
}

part types "$BIN/python" -m mypy
(
  part lint "$BIN/python" -m ruff check --no-fix --quiet --output-format=concise .
  part format "$BIN/python" -m ruff format --check --quiet .
  part contracts "$BIN/lint-imports" --no-logo
  part javascript sh scripts/javascript.sh
  part tidy "$BIN/python" -m pytest -q --tb=short -m "not real" tests/style
  wait
)
wait

failed=""
for name in lint format types contracts javascript tidy; do
  code="$(cat "$OUT/$name.code" 2>/dev/null || echo 2)"
  case "$code" in
    0) echo "ok      $name" ;;
    77)
      echo "skipped $name"
      sed 's/^/        /' "$OUT/$name.out"
      ;;
    *)
      failed="$failed $name"
      echo "FAILED  $name"
      sed 's/^/        /' "$OUT/$name.out"
      ;;
  esac
done
[ -z "$failed" ] && exit 0
echo "check failed:$failed" >&2
exit 1
